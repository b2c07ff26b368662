"""A PyTorch job with DistributedDataParallel as real processes, scaled while it trains."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from elastic import EPOCH, Training, running
from local import processes, result, workload
from patience import wait_for

from headway.backend import procfs

STEPS = 4 * EPOCH
SOURCE = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}


def words(python, demand=0.02):
    sizes = ["--steps", STEPS, "--batches", 1, "--epoch", EPOCH, "--save-every", 10]
    sizes += ["--demand", demand, "--timeout", 120]
    return [python, "-m", "headway.trainings", "ddp", *map(str, sizes)]


def last_lines(text):
    """Digest of the samples, and the loss. torchrun restarts a worker that has announced its end
    but has not exited when another joins; it then announces the same end again.
    """
    (samples,) = set(re.findall(r"samples: .* epochs of .*, each once, sha256 (\w+)", text))
    (loss,) = set(re.findall(r"^done: .* loss ([\d.]+),", text, re.MULTILINE))
    return samples, float(loss)


@pytest.fixture(scope="module")
def undisturbed(torch_python):
    command = words(torch_python, demand=1)
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=SOURCE)
    return last_lines(done.stdout)


class Ddp(Training):
    def starts(self):
        """The number of workers and the first step of each start."""
        found = re.findall(r"^rank 0 of (\d), from step (\d+)", self.log(), re.MULTILINE)
        return [(int(world), int(step)) for world, step in found]

    def scaled(self, count):
        self.scale(count)
        wait_for(lambda: self.starts()[-1][0] == count)
        self.proceeds(2)


def job(python):
    worker = {"name": "worker", "command": words(python), "env": SOURCE}
    worker |= {"replicas": 1, "minReplicas": 1, "maxReplicas": 3}
    return {"name": "x", "spec": {"tasks": [worker], "checkpoint": {"mode": "sdk"}}}


def check(x, data, undisturbed):
    outcome = result(data)
    assert [j["outcome"] for j in outcome["per_job"]] == ["succeeded"], outcome["reasons"]
    samples, loss = last_lines(x.log())
    assert samples == undisturbed[0]
    assert loss == pytest.approx(undisturbed[1], rel=0.01), "only the order of sums differs"
    assert processes(data) == []


def test_a_ddp_job_grows_and_shrinks_while_it_trains(tmp_path, torch_python, undisturbed):
    path, x = workload(tmp_path, job(torch_python), nodes=[{"cpu": 0.5, "count": 2}]), Ddp(tmp_path)
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        x.proceeds(2)
        x.scaled(3)
        x.scaled(2)
        assert run.wait(240) == 0
    check(x, tmp_path, undisturbed)
    worlds, steps = zip(*x.starts(), strict=True)
    assert worlds == (1, 3, 2)
    assert list(steps) == sorted(steps), "it went on where it was"


def test_a_ddp_job_of_which_a_worker_is_killed_uses_each_sample_once(
    tmp_path, torch_python, undisturbed
):
    path, x = workload(tmp_path, job(torch_python), nodes=[{"cpu": 0.5, "count": 2}]), Ddp(tmp_path)
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        x.proceeds(2)
        x.scaled(2)
        folder = tmp_path / "runs" / "latest" / "jobs" / "x" / "worker-1"
        for pid in procfs.marked(HEADWAY_REPLICA="worker-1", HEADWAY_DIR=str(folder.resolve())):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: len(x.starts()) == 3)
        assert run.wait(240) == 0
    check(x, tmp_path, undisturbed)


def test_a_rank_that_hangs_in_rendezvous_ends_the_job_in_time(tmp_path, torch_python):
    hangs = "import os, sys, time; time.sleep(600 * (os.environ['RANK'] == '1')); "
    hangs += "os.execv(sys.argv[1], sys.argv[1:])"
    command = [*words(torch_python)[:-1], "5"]  # the timeout
    worker = {"name": "worker", "command": [torch_python, "-c", hangs, *command], "env": SOURCE}
    spec = {"tasks": [worker | {"replicas": 2}], "backoffLimit": 0}
    path = workload(tmp_path, {"name": "x", "spec": spec}, nodes=[{"cpu": 0.5, "count": 2}])
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        assert run.wait(120) != 0
    found = result(tmp_path)
    why = "replica worker-0: exited with code 1: error: lost the other workers, or one did not"
    assert found["reasons"]["x"].startswith(why)
    took = found["per_job"][0]["finished_s"] - found["per_job"][0]["started_s"]
    assert took < 5 + 30 + 30, "its timeout and the grace period of the other; a busy machine"
    assert processes(tmp_path) == []
