"""One job never harms another, whatever it prints, writes or asks for."""

import json
import signal

import pytest
from local import groups, headway, job, log, processes, result, script, start, workload
from patience import end_of, wait_for

HOSTILE = {
    "extreme values": """
        import time
        for value in ("1e308", "-1e308", "1e308", "-1e308"):
            print(f"loss: {value}", flush=True)
        time.sleep(1)
    """,
    "extreme reports": """
        import json, os, time
        with open(os.environ["HEADWAY_DIR"] + "/reports.jsonl", "a") as file:
            for n in (1e308, -1e308, 5e-324, 1e308):
                file.write(json.dumps({"step": n, "loss": -n, "total_steps": abs(n)}) + "\\n")
                file.flush()
                time.sleep(0.3)
    """,
    "files like those of Headway": r"""
        import os, time
        folder = os.environ["HEADWAY_DIR"]
        for name in ("pid.²", "exit.²", "pid.1", "exit.1", "pid.2", "attempt", "state.json"):
            with open(f"{folder}/{name}", "w") as file: file.write("²\n")
        time.sleep(1)
    """,
    "a checkpoint that is no text": r"""
        import os, time
        with open(os.environ["HEADWAY_CHECKPOINT_DIR"] + "/LATEST", "wb") as file:
            file.write(b"\xff\xfe\x00")
        time.sleep(1)
    """,
    "a checkpoint that is a pipe": """
        import os, time
        os.mkfifo(os.environ["HEADWAY_CHECKPOINT_DIR"] + "/LATEST")
        time.sleep(1)
    """,
    "pipes in place of its files": """
        import os, time
        for name in ("out.log", "reports.jsonl", "ask"):
            path = f"{os.environ['HEADWAY_DIR']}/{name}"
            if os.path.exists(path): os.unlink(path)
            os.mkfifo(path)
        time.sleep(1)
    """,
    "folders in place of its files": """
        import os, time
        for name in ("out.log", "reports.jsonl", "ask", "checkpoint/LATEST"):
            path = f"{os.environ['HEADWAY_DIR']}/{name}"
            if os.path.exists(path): os.unlink(path)
            os.mkdir(path)
        time.sleep(1)
    """,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_job_harms_no_other_also_after_a_crash(tmp_path, what):
    good = """
        import os, time, headway
        run = headway.attach(total_steps=20)
        for step in range(1, 21):
            run.report(step, loss=1 / step)
            print("step", step, flush=True)
            time.sleep(0.1)
        while not os.path.exists(os.environ["HEADWAY_DIR"] + "/enough"): time.sleep(0.02)
    """
    hostile = job("hostile", script(tmp_path, HOSTILE[what]), checkpoint={"mode": "sdk"})
    path = workload(tmp_path, hostile, job("good", script(tmp_path, good)))
    running = start("run", path, data=tmp_path)
    wait_for(lambda: "step 15" in log(tmp_path, "good"))
    assert running.poll() is None, "Headway ended"
    running.kill()
    running.wait()
    (tmp_path / "runs" / "latest" / "jobs" / "good" / "main-0" / "enough").touch()
    headway("run", "--resume", "latest", data=tmp_path, check=False)
    outcome = {j["name"]: j["outcome"] for j in result(tmp_path)["per_job"]}
    assert outcome == {"hostile": "succeeded", "good": "succeeded"}
    assert processes(tmp_path) == []
    assert groups(tmp_path) == []


IMPOSSIBLE = {
    "a NUL in its command": {"command": ["/bin/echo", "a\0b"]},
    "an invalid name in its environment": {"command": ["/bin/true"], "env": {"a=b": "c"}},
    "a NUL in its environment": {"command": ["/bin/true"], "env": {"a": "b\0"}},
    "too long a command": {"command": ["/bin/echo", "x" * 3_000_000]},
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_a_job_that_cannot_be_started_fails_alone(tmp_path, what):
    bad = {"name": "bad", "spec": {"tasks": [IMPOSSIBLE[what]], "backoffLimit": 5}}
    path = workload(tmp_path, bad, job("good", script(tmp_path, "trains")))
    done = headway("run", path, data=tmp_path, check=False)
    if done.returncode == 2:
        assert "bad" in done.stderr or "tasks" in done.stderr  # refused before anything starts
        return
    assert done.returncode == 1, done.stderr
    found = result(tmp_path)
    assert {j["name"]: j["outcome"] for j in found["per_job"]} == {
        "bad": "failed",
        "good": "succeeded",
    }
    assert "could not be started" in found["reasons"]["bad"]
    assert "attempt" not in found["reasons"]["bad"], "it was retried in vain"


def test_a_number_of_steps_that_is_not_finite_is_refused(tmp_path):
    path = workload(tmp_path, job("x", ["/bin/true"], totalSteps=float("inf")))
    done = headway("run", path, "--json", data=tmp_path, check=False)
    assert done.returncode == 2
    assert "totalSteps" in json.loads(done.stdout)["error"]["where"]


def test_a_corrupt_state_costs_only_its_own_job(tmp_path):
    jobs = [job(name, script(tmp_path, "waits")) for name in ("corrupt", "other")]
    running = start("run", workload(tmp_path, *jobs), data=tmp_path)
    states = [
        tmp_path / "runs" / "latest" / "jobs" / n / "state.json" for n in ("corrupt", "other")
    ]
    wait_for(lambda: len(processes(tmp_path)) == 4)
    wait_for(lambda: all(s.exists() and '"running"' in s.read_text() for s in states))
    running.kill()
    running.wait()
    states[0].write_text("{")
    again = start("run", "--resume", "latest", data=tmp_path)
    journal = tmp_path / "runs" / "latest" / "journal.jsonl"
    wait_for(lambda: "cannot be read" in journal.read_text())
    assert '"failed"' in states[0].read_text()
    assert again.poll() is None
    again.send_signal(signal.SIGINT)
    assert end_of(again).returncode == 130
    found = result(tmp_path)
    assert [j["outcome"] for j in found["per_job"]] == ["failed", "cancelled"]
    assert "state" in found["reasons"]["corrupt"]
    assert processes(tmp_path) == []
