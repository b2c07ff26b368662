"""`headway stop`, on real servers and runs."""

import json
import signal
import subprocess
import sys

import pytest
from patience import wait_for

from headway.client import Client
from headway.errors import HeadwayError
from headway.runtime.run_directory import RunDirectory
from serving import listed, submit

WORKS = """
import os, time
with open("ledger", "a") as file:
    file.write("began\\n")
while not os.path.exists("go"):
    time.sleep(0.02)
with open("ledger", "a") as file:
    file.write("ended\\n")
"""

SAVES = """
import time, headway.sdk as sdk
run = sdk.attach()
step = run.latest.step if run.latest else 0
while True:
    step += 1
    time.sleep(0.01)
    run.report(step, loss=1 / step)
    if run.should_checkpoint():
        run.save(step, lambda folder: (folder / "x").touch())
"""


@pytest.fixture
def jobs(serving, headway, tmp_path):
    """A server with a job that runs and one that is due later; its process."""
    (tmp_path / "train.py").write_text(WORKS)
    child = serving()
    submit(headway, "--", sys.executable, "train.py")
    later = {"name": "later", "at": 3600, "spec": {"tasks": [{"command": ["true"]}]}}
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    (tmp_path / "w.json").write_text(json.dumps({**head, "jobs": [later]}))
    assert headway("submit", "w.json").code == 0
    wait_for(lambda: ledger(tmp_path) == ["began"])
    wait_for(lambda: listed(headway)["train"]["phase"] == "running")
    return child


def ledger(tmp_path):
    return (tmp_path / "ledger").read_text().splitlines() if (tmp_path / "ledger").exists() else []


def test_the_jobs_of_a_server_that_is_stopped_continue(jobs, headway, serving, tmp_path):
    ran = headway("stop", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert (told["server"], told["jobs"], told["was_active"]) == (True, "keep", True)
    assert told["continue"] == 2
    assert "2 jobs continue: headway serve manages them again" in told["said"]
    assert jobs.wait(60) == 0
    again = headway("stop")
    assert again.out.startswith("the server had no active process; 2 jobs continue")
    serving()
    (tmp_path / "go").touch()
    assert headway("wait", "train").code == 0
    assert ledger(tmp_path) == ["began", "ended"]


def test_the_jobs_of_a_server_are_stopped_with_it(jobs, headway, tmp_path):
    ran = headway("stop", "--jobs", "stop")
    assert (ran.code, ran.out) == (0, "the server has ended; no job continues\n"), ran.err
    assert jobs.wait(60) == 0
    found = listed(headway, "--all")
    assert {name: job["phase"] for name, job in found.items()} == {
        "train": "cancelled", "later": "cancelled",
    }  # fmt: skip
    assert found["train"]["reason"] == "stopped by a user"
    assert ledger(tmp_path) == ["began"]


def test_the_jobs_of_a_server_that_was_killed_are_stopped(jobs, headway, tmp_path):
    jobs.send_signal(signal.SIGKILL)
    jobs.wait()
    ran = headway("stop", "--jobs", "stop")
    assert (ran.code, ran.out) == (0, "the server had no active process; no job continues\n"), (
        ran.err
    )
    assert {job["phase"] for job in listed(headway, "--all").values()} == {"cancelled"}
    assert ledger(tmp_path) == ["began"]


def test_a_program_stops_a_server(jobs, headway):
    with Client.of() as client:
        with pytest.raises(HeadwayError, match="keep, stop"):
            client.stop("kill")
        client.stop()
    assert jobs.wait(60) == 0
    assert listed(headway)["train"]["phase"] == "running"


def test_a_submission_while_the_jobs_are_stopped_waits_for_the_next_server(
    jobs, headway, serving, tmp_path
):
    """A job that ignores SIGTERM keeps the server for a moment."""
    (tmp_path / "slow.py").write_text(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\nopen('ready', 'w').close()\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
    )
    submit(headway, "--", sys.executable, "slow.py")
    wait_for((tmp_path / "ready").exists)
    with Client.of() as client:
        client.stop("stop")
        assert client.submit([{"name": "new", "spec": {"tasks": [{"command": ["true"]}]}}]) == [
            "new"
        ]
        (tmp_path / "go").touch()
    assert jobs.wait(60) == 0
    assert listed(headway)["new"]["phase"] == "pending"
    serving()
    assert headway("wait", "new").code == 0


def run_in_background(tmp_path):
    words = [sys.executable, "-m", "headway", "run", "--json", "--", sys.executable, "train.py"]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    wait_for(lambda: ledger(tmp_path)[-1:] == ["began"])
    return child


def test_a_run_is_detached_and_its_jobs_are_stopped_later(headway, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    assert headway("stop").code == 4, "nothing runs"
    (tmp_path / "train.py").write_text(WORKS)
    child = run_in_background(tmp_path)
    wait_for(lambda: listed(headway)["train"]["phase"] == "running")
    [run] = RunDirectory.all(tmp_path / "data")
    ran = headway("stop")
    assert ran.out == (
        f"run {run.id} has ended; 1 job continues: headway run --resume {run.id} manages it again, "
        f"headway stop --run {run.id} --jobs stop ends it\n"
    )
    child.communicate(timeout=60)
    ran = headway("stop", "--jobs", "stop")
    assert ran.out == f"run {run.id} had no active process; no job continues\n", ran.err
    assert run.ended
    assert ledger(tmp_path) == ["began"]
    assert headway("stop", "--run", run.id).code == 4, "it has ended"


def test_of_several_runs_one_is_named(headway, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(WORKS)
    children = [run_in_background(tmp_path)]
    (tmp_path / "ledger").unlink()
    children.append(run_in_background(tmp_path))
    ran = headway("stop", "--jobs", "stop")
    assert (ran.code, "several runs are active" in ran.err) == (2, True)
    for run in RunDirectory.all(tmp_path / "data"):
        assert headway("stop", "--run", run.id, "--jobs", "stop").code == 0
    for child in children:
        child.communicate(timeout=60)
    assert ledger(tmp_path) == ["began"]


def test_an_earlier_run_that_was_detached_is_found_after_a_later_one(
    headway, tmp_path, monkeypatch
):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(WORKS)
    child = run_in_background(tmp_path)
    assert headway("stop").code == 0
    child.communicate(timeout=60)
    [run] = RunDirectory.all(tmp_path / "data")
    assert headway("run", "--", "true").code == 0
    assert f"run {run.id} has no active process" in headway("ps").err
    ran = headway("stop", "--jobs", "stop")
    assert ran.out == f"run {run.id} had no active process; no job continues\n", ran.err
    assert headway("ps").out.startswith("nothing runs")


def test_an_unfinished_run_is_stopped_before_a_server_without_jobs(serving, headway, tmp_path):
    serving()
    assert headway("stop").code == 0
    [server] = RunDirectory.all(tmp_path / "data")
    (tmp_path / "train.py").write_text(WORKS)
    child = run_in_background(tmp_path)
    assert headway("stop").code == 0
    child.communicate(timeout=60)
    [run] = {r.id for r in RunDirectory.all(tmp_path / "data")} - {server.id}
    ran = headway("stop", "--jobs", "stop")
    assert ran.out == f"run {run} had no active process; no job continues\n", ran.err
    assert headway("stop").out == "the server had no active process\n"


# -- drain -----------------------------------------------------------------------------------------


def test_a_drained_server_starts_nothing_and_its_jobs_run_to_their_end(
    jobs, headway, serving, tmp_path
):
    with Client.of() as client:
        [node] = client.server()["nodes"]
        assert not node["drained"]
    name = node["name"]
    ran = headway("drain", name, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["drained"] is True
    submit(headway, "--name", "next", "--", "true")
    wait_for(lambda: "drained" in listed(headway)["next"]["reason"])
    wait_for(lambda: listed(headway)["train"]["reason"].startswith(f"node {name} is drained: runs"))
    assert f"node {name} is drained. Use it again: headway undrain {name}" in headway("ps").err
    known = json.loads(headway("explain", "next", "--json").out)["known"]
    assert known["reason"] == "all nodes are down or drained"
    jobs.send_signal(signal.SIGKILL)
    jobs.wait()
    serving()
    (tmp_path / "go").touch()
    assert headway("wait", "train").code == 0
    assert listed(headway)["next"]["phase"] == "pending", "it is still drained"
    with Client.of() as client:
        assert client.server()["nodes"][0]["drained"]
        client.undrain(name)
    assert headway("wait", "next").code == 0
    bad = headway("drain", "nowhere")
    assert (bad.code, "nowhere" in bad.err) == (2, True)
    with Client.of() as client, pytest.raises(HeadwayError, match="nowhere"):
        client.drain("nowhere")


def test_the_jobs_of_a_drained_node_are_moved_to_another(headway, tmp_path, monkeypatch):
    """On a machine with two virtual nodes. A job that saves no checkpoint stays."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    nodes = [{"name": "a", "cpu": 0.5}, {"name": "b", "cpu": 0.5}]
    task = {"command": [sys.executable, "-c", SAVES]}
    able = {"tasks": [task], "checkpoint": {"mode": "sdk", "graceSeconds": 30}}
    jobs = [{"name": "x", "spec": able}, {"name": "rigid", "spec": {"tasks": [task]}}]
    work = {"nodes": nodes, "jobs": jobs}
    (tmp_path / "w.json").write_text(json.dumps({**head, **work}))
    words = [sys.executable, "-m", "headway", "run", "w.json", "--json"]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: all((listed(headway).get(n) or {}).get("step") for n in ("x", "rigid")))
        [stays] = listed(headway)["rigid"]["nodes"]
        [on] = listed(headway)["x"]["nodes"]
        assert headway("drain", on).code == 0
        there = [{"a": "b", "b": "a"}[on]]
        wait_for(lambda: (j := listed(headway)["x"])["phase"] == "running" and j["nodes"] == there)
        assert headway("drain", stays).code == 0
        until = f"node {stays} is drained: runs to its end"
        wait_for(lambda: listed(headway)["rigid"]["reason"].startswith(until))
    finally:
        headway("stop", "--jobs", "stop")
        child.communicate(timeout=60)
