"""Ranks that do not meet, as real processes: reported in words and in time; other jobs go on."""

import sys

from elastic import ABSENT, Training, digests, running, spec, undisturbed, words
from local import processes, result, workload

STEPS = 60
TIMEOUT = 5
"""Seconds for a worker to join."""
TAKEN = """
import json, os, socket, subprocess, sys
if os.environ["HEADWAY_TASK"] == "ps":
    host, port = json.loads(os.environ["TF_CONFIG"])["cluster"]["ps"][0].split(":")
    other = socket.socket()  # as another program; it does not listen, so that no worker connects
    other.bind((host, int(port)))
    sys.exit(subprocess.run(sys.argv[1:]).returncode)
os.execv(sys.argv[1], sys.argv[1:])
"""


def job(name, script="", workers=1, steps=STEPS):
    command = [*words(steps=steps), "--timeout", str(TIMEOUT)]
    if script:
        command = [sys.executable, "-c", script, *command]
    made = spec(command, replicas=workers)
    return {"name": name, "spec": {**made, "backoffLimit": 0, "checkpoint": {"mode": "none"}}}


def test_ranks_that_do_not_meet_are_named_in_time_and_other_jobs_go_on(tmp_path):
    jobs = [job("absent", ABSENT, workers=2), job("taken", TAKEN), job("fine", workers=2)]
    path = workload(tmp_path, *jobs, nodes=[{"cpu": 0.5, "count": 2}])
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        assert run.wait(120) != 0
    found = result(tmp_path)
    ended = {j["name"]: j for j in found["per_job"]}
    assert {name: j["outcome"] for name, j in ended.items()} == {
        "absent": "failed", "taken": "failed", "fine": "succeeded",
    }  # fmt: skip
    why = "worker-1 did not join within 5 s; there are: worker-0"
    assert why in found["reasons"]["absent"]
    assert found["reasons"]["taken"].endswith("Address already in use")
    took = {name: j["finished_s"] - j["started_s"] for name, j in ended.items()}
    # The grace period of what is left is not part of it; a busy machine takes its time.
    assert took["absent"] < TIMEOUT + 20 + 30
    assert took["taken"] < 20 + 30
    assert digests(Training(tmp_path, "fine").log()) == undisturbed(STEPS)
    assert processes(tmp_path) == []
