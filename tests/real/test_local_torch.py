"""A PyTorch job with DistributedDataParallel as real processes, scaled while it trains."""

import re
import signal
import socket
import subprocess

import pytest
from ddp import ROUNDING, SOURCE, Ddp, check_end, job, last_lines, undisturbed, words
from elastic import running
from local import headway, processes, result, workload
from scaling_hands import kills, making

from headway.core.model.job import Phase


def test_a_ddp_job_grows_and_shrinks_while_it_trains(tmp_path, torch_python):
    made, x = job(words(torch_python)), Ddp(tmp_path)
    path = workload(tmp_path, made, nodes=[{"cpu": 0.5, "count": 2}])
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        x.grow_and_shrink()
        assert run.wait(240) == 0
    check_end(x.log(), undisturbed(torch_python))
    x.check_changes()
    assert len(x.starts()) == 3, "one restart for each change"
    assert processes(tmp_path) == []


KILLS = [("grow", "saving", "worker-1"), ("shrink", "starting", "worker-0")]


@pytest.mark.long
@pytest.mark.parametrize(("change", "phase", "victim"), kills(("worker-0", "worker-1"), KILLS))
def test_a_ddp_worker_that_is_killed_while_the_job_is_scaled_costs_no_sample(
    tmp_path, torch_python, change, phase, victim
):
    with making(tmp_path) as make:
        x = make(words(torch_python, demand=0.05), server=False, env=SOURCE)
        x.kill_while(change, phase, victim)
        check_end(x.log(), undisturbed(torch_python))


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "workers"),
    [("checkpoint.ask", (1, 3)), ("replica.start@3", (1, 3)), ("request.remove", (3, 2))],
)
def test_a_crash_of_headway_while_a_ddp_job_is_scaled_costs_no_sample(
    tmp_path, torch_python, fault, workers
):
    before, after = workers
    made, x = job(words(torch_python, demand=0.05), replicas=before), Ddp(tmp_path)
    x.crash_while_scaled(workload(tmp_path, made, nodes=[{"cpu": 0.5, "count": 2}]), fault, after)
    check_end(x.log(), undisturbed(torch_python))
    assert processes(tmp_path) == []


@pytest.mark.long
def test_the_difference_allowed_by_the_tests_is_below_the_noise_of_ten_undisturbed_runs(
    torch_python,
):
    command = words(torch_python, demand=1)
    losses = []
    for seed in range(10):
        each = [*command, "--seed", str(seed)]
        done = subprocess.run(each, check=True, capture_output=True, text=True, env=SOURCE)
        losses.append(last_lines(done.stdout)[1])
    assert max(losses) - min(losses) > 100 * ROUNDING


def test_no_thread_of_gloo_is_left_when_a_training_has_ended(torch_python):
    """One that ends later than Python aborts the process: exit code 134 after a whole training."""
    end = "; import os; print('threads', len(os.listdir('/proc/self/task')), code)"
    script = "from headway.trainings.__main__ import main; code = main(__import__('sys').argv[1:])"
    command = [torch_python, "-c", script + end, *words(torch_python, demand=1)[3:]]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=SOURCE)
    assert done.stdout.splitlines()[-1] == "threads 1 0"


def test_workers_without_the_first_replica_do_not_train_from_the_start(torch_python):
    """Under torchrun, after the first has ended: the others have no checkpoint."""
    env = {**SOURCE, "HEADWAY_REPLICA": "worker-1", "RANK": "0", "WORLD_SIZE": "1"}
    done = subprocess.run(
        words(torch_python, demand=1), check=False, capture_output=True, text=True, env=env
    )
    why = "error: the first replica, which has the checkpoints, is not among the workers\n"
    assert (done.returncode, done.stdout) == (1, why)


def test_a_job_whose_training_lacks_its_framework_fails_at_once_with_what_to_install(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('it is not there')")
    path = workload(tmp_path, {"name": "x", "model": "ddp", "workers": {"replicas": 2}})
    env = {"PYTHONPATH": str(tmp_path)}
    words = "run", path, "--nodes", 2, "--policy", "gang"
    assert headway(*words, data=tmp_path, env=env, check=False).returncode == 1
    found = result(tmp_path)
    missing = "PyTorch cannot be imported: it is not there; pip install 'headway[torch]'"
    assert re.fullmatch(
        rf"replica worker-\d: exited with code 2: error: .*: {re.escape(missing)}",
        found["reasons"]["x"],
    )
    claims = (tmp_path / "runs" / "latest" / "records" / "x").glob("worker-*/claim.*")
    assert len(list(claims)) == 2, "it was not retried"


def test_a_port_in_use_is_named(torch_python):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        done = subprocess.run(
            words(torch_python), check=False, capture_output=True, text=True, env={**SOURCE, **env}
        )
    why = f"error: port {port} of 127.0.0.1: Address already in use\n"
    assert (done.returncode, done.stdout) == (1, why)


@pytest.mark.long
def test_a_ddp_worker_that_hangs_is_reported_in_time_and_the_job_goes_on(tmp_path, torch_python):
    with making(tmp_path) as make:
        command = [*words(torch_python, demand=0.05)[:-1], "5"]  # the timeout
        x = make(command, server=False, grace=1.0, env=SOURCE)
        x.drive(lambda: "step 15/" in x.log())
        x.kill("worker-1", signal.SIGSTOP)
        stopped = x.clock()
        x.drive(lambda: x.job.phase is Phase.STOPPING)
        assert x.clock() - stopped < 5 + 30, "a busy machine takes its time"
        why = "replica worker-0: exited with code 1: error: lost the other workers, or one did not"
        assert x.job.reason.startswith(why)
        x.drive(lambda: x.job.phase.ended)
        assert (x.job.phase, x.job.failures) == (Phase.SUCCEEDED, 1)
        check_end(x.log(), undisturbed(torch_python))


@pytest.mark.long
def test_a_port_of_a_program_that_accepts_and_is_silent_ends_the_job_in_time(
    tmp_path, torch_python
):
    """PyTorch 1.13 waits for an answer without end: rank 1 is stopped because rank 0 fails."""
    taken = "import os, socket, sys, time\n"
    taken += "if os.environ['RANK'] == '0':\n"
    taken += "    there = '127.0.0.1', int(os.environ['MASTER_PORT'])\n"
    taken += "    other = socket.create_server(there)\n"
    taken += "    rank_1 = other.accept()\n"
    taken += "    if os.fork() == 0:\n"
    taken += "        time.sleep(600)\n"
    taken += "os.execv(sys.argv[1], sys.argv[1:])"
    made = job([torch_python, "-c", taken, *words(torch_python)], replicas=2)
    made["spec"]["backoffLimit"] = 0
    path = workload(tmp_path, made, nodes=[{"cpu": 0.5, "count": 2}])
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        assert run.wait(120) != 0
    found = result(tmp_path)
    why = r"replica worker-0: exited with code 1: error: port \d+ of .*: Address already in use"
    assert re.fullmatch(why, found["reasons"]["x"])
    took = found["per_job"][0]["finished_s"] - found["per_job"][0]["started_s"]
    assert took < 60 + 30, "less than the timeout of 120 s; a busy machine"
    assert processes(tmp_path) == []


@pytest.mark.long
def test_a_rank_that_hangs_in_rendezvous_ends_the_job_in_time(tmp_path, torch_python):
    hangs = "import os, sys, time; time.sleep(600 * (os.environ['RANK'] == '1')); "
    hangs += "os.execv(sys.argv[1], sys.argv[1:])"
    command = [*words(torch_python)[:-1], "5"]  # the timeout
    made = job([torch_python, "-c", hangs, *command], replicas=2)
    made["spec"]["backoffLimit"] = 0
    path = workload(tmp_path, made, nodes=[{"cpu": 0.5, "count": 2}])
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        assert run.wait(120) != 0
    found = result(tmp_path)
    why = "replica worker-0: exited with code 1: error: lost the other workers, or one did not"
    assert found["reasons"]["x"].startswith(why)
    took = found["per_job"][0]["finished_s"] - found["per_job"][0]["started_s"]
    assert took < 5 + 30 + 30, "its timeout and the grace period of the other; a busy machine"
    assert processes(tmp_path) == []
