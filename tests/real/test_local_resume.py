"""A run that is continued elsewhere, after its terminal was closed, or after the clock was set."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from local import groups, headway, job, log, processes, result, script, start, state, workload
from patience import end_of, wait_for

from headway.backend.local.enforcement import cgroupfs


@pytest.fixture
def elsewhere():
    """Another cgroup in every hierarchy; files that a process enters it by."""
    bases = [*dict.fromkeys(cgroupfs.bases1().values()), *cgroupfs.bases2()[-1:]]
    made = [f"{base}/elsewhere-{os.getpid()}" for base in bases]
    for folder in made:
        Path(folder).mkdir()
    yield [f"{folder}/cgroup.procs" for folder in made]
    for folder in made:
        cgroupfs.clear([folder])


@pytest.mark.parametrize("enforcement", ["cgroup"], indirect=True)
def test_a_run_that_was_started_in_another_cgroup_is_resumed_in_control(
    tmp_path, enforcement, elsewhere
):
    del enforcement
    path = workload(tmp_path, job("w", script(tmp_path, "waits")))
    enter = "import os, sys\nfor e in sys.argv[1].split(): open(e, 'w').write('0')\n"
    enter += "os.execv(sys.executable, [sys.executable, '-m', 'headway', 'run', sys.argv[2]])"
    running = subprocess.Popen(
        [sys.executable, "-c", enter, " ".join(elsewhere), str(path)],
        env={**os.environ, "HEADWAY_DATA": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: len(processes(tmp_path)) == 2)
    running.kill()
    running.wait()
    journal = tmp_path / "runs" / "latest" / "journal.jsonl"
    size = journal.stat().st_size
    again = start("run", "--resume", "latest", data=tmp_path)
    wait_for(lambda: journal.stat().st_size > size)
    for _ in range(2):
        again.send_signal(signal.SIGINT)
    assert end_of(again).returncode == 130
    assert processes(tmp_path) == []
    assert result(tmp_path)["per_job"][0]["outcome"] == "cancelled"
    assert groups(tmp_path) == []


@pytest.mark.parametrize("enforcement", ["nice"], indirect=True)
def test_a_closed_terminal_does_not_freeze_paced_jobs(tmp_path, enforcement):
    del enforcement
    spin = "print('here', flush=True)\nwhile True: pass"
    jobs = [job(f"j{i}", script(tmp_path, spin)) for i in range(2)]
    path = workload(tmp_path, *jobs, nodes=[{"name": "tenth", "cpu": 0.1}])
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it would be ignored
    running = start("run", path, data=tmp_path, start_new_session=True)
    signal.signal(signal.SIGHUP, before)
    try:
        wait_for(lambda: any(state(p) == "T" for p in processes(tmp_path)))
        os.killpg(running.pid, signal.SIGHUP)  # as the kernel does when a terminal is closed
        end_of(running)
        wait_for(lambda: {state(p) for p in processes(tmp_path)} <= {"R", "S"})
    finally:
        running.kill()
        running.wait()
        for pid in processes(tmp_path):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("enforcement", ["nice"], indirect=True)
def test_a_job_that_was_left_stopped_continues_when_its_run_is_resumed(tmp_path, enforcement):
    del enforcement
    path = workload(
        tmp_path, job("w", script(tmp_path, "print('here', flush=True)\nwhile True: pass"))
    )
    running = start("run", path, data=tmp_path)
    wait_for(lambda: "here" in log(tmp_path, "w"))
    running.kill()
    running.wait()
    for pid in processes(tmp_path):
        os.kill(pid, signal.SIGSTOP)
    journal = tmp_path / "runs" / "latest" / "journal.jsonl"
    size = journal.stat().st_size
    again = start("run", "--resume", "latest", data=tmp_path)
    wait_for(lambda: journal.stat().st_size > size)
    wait_for(lambda: {state(p) for p in processes(tmp_path)} <= {"R", "S"})
    again.send_signal(signal.SIGINT)
    end_of(again)
    assert processes(tmp_path) == []


def test_after_the_clock_was_set_back_an_hour_no_time_is_negative_and_no_arrival_postponed(
    tmp_path,
):
    jobs = [job("w", script(tmp_path, "trains")), job("later", script(tmp_path, "trains"), at=6)]
    running = start("run", workload(tmp_path, *jobs), data=tmp_path)
    run = tmp_path / "runs" / "latest"
    wait_for(lambda: "done" in log(tmp_path, "w"))
    running.kill()
    running.wait()
    about = json.loads((run / "run.json").read_text())
    about["began"] += 3600  # as if the time of day were an hour earlier now
    about["boot"] = {"id": "another", "at": 0.0}
    (run / "run.json").write_text(json.dumps(about))
    done = headway("run", "--resume", "latest", data=tmp_path)
    assert "was set back" in done.stderr
    found = result(tmp_path)["per_job"]
    assert [j["outcome"] for j in found] == ["succeeded"] * 2
    assert all(0 <= j["started_s"] <= j["finished_s"] < 600 for j in found)


@pytest.mark.parametrize("write", [1, 2, 3, 4, 5])
def test_ctrl_c_while_a_run_begins_leaves_no_run_without_a_result(tmp_path, write):
    """It stops itself at its first writes (of run.json, workload.yaml, …), and is interrupted."""
    path, env = workload(tmp_path, job("w", script(tmp_path, "waits"))), {}
    env["HEADWAY_FAULT"] = f"file.replace@{write}=stop"
    running = start("run", path, data=tmp_path, env=env)
    wait_for(lambda: state(running.pid) == "T")
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGCONT)
    assert end_of(running).returncode == 130
    assert all((run / "result.json").exists() for run in (tmp_path / "runs").iterdir())
    assert processes(tmp_path) == []


@pytest.mark.parametrize("write", [1, 2, 3, 4, 5, 6])
def test_a_run_that_is_killed_while_it_begins_is_resumed_or_left_nothing(tmp_path, write):
    path = workload(tmp_path, job("w", script(tmp_path, "pass")))
    env = {"HEADWAY_FAULT": f"file.replace@{write}=kill"}
    killed = headway("run", path, data=tmp_path, env=env, check=False)
    assert killed.returncode == -signal.SIGKILL
    if any(tmp_path.glob("runs/*/workload.yaml")):
        headway("run", "--resume", "latest", data=tmp_path)
        assert result(tmp_path)["per_job"][0]["outcome"] == "succeeded"
    assert groups(tmp_path) == [] == processes(tmp_path)
