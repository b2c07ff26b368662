"""`headway move`, `pause` and `resume`, asked of a run that goes on."""

import json
import os
import signal
import subprocess
import sys
from time import sleep

import pytest
from patience import end_of, wait_for
from typer.testing import CliRunner

from headway.backend import inbox
from headway.backend.job_store import JobStore
from headway.backend.local.launcher import exit_code
from headway.cli import app
from headway.core.cycle.validate import check
from headway.core.model.decision import Move, Suspend
from headway.core.model.job import Phase
from headway.core.model.snapshot import Request, Trigger
from headway.core.model.units import JobId, NodeId
from headway.policy.common.user_requests import UserRequests
from headway.policy.registry import build
from making import job, running, snapshot

SAVES = """
import time, headway.sdk as sdk
run = sdk.attach()
step = run.latest.step if run.latest else 0
while True:
    step += 1
    time.sleep(0.01)
    run.report(step, loss=1 / step)
    print("step", step, flush=True)
    if run.should_checkpoint():
        run.save(step, lambda folder: (folder / "x").touch())
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    task = {"command": [sys.executable, "-c", SAVES]}
    able = {"tasks": [task], "checkpoint": {"mode": "sdk", "graceSeconds": 5}}
    jobs = [{"name": "able", "spec": able}, {"name": "rigid", "spec": {"tasks": [task]}}]
    jobs += [{"name": "short", "spec": {"tasks": [{"command": [sys.executable, "-c", "pass"]}]}}]
    nodes = [{"name": "a", "cpu": 0.5}, {"name": "b", "cpu": 0.5}]
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload", "nodes": nodes}
    path = tmp_path / "w.json"
    path.write_text(json.dumps({**head, "jobs": jobs}))
    child = subprocess.Popen([sys.executable, "-m", "headway", "run", str(path), "--json"],
                             stdout=subprocess.PIPE, text=True)  # fmt: skip
    yield child, tmp_path / "data" / "runs" / "latest"
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        end_of(child)


def call(*words, code=0):
    done = CliRunner().invoke(app, [str(w) for w in words])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_people_move_pause_and_resume_a_job_of_a_run_that_goes_on(run):
    child, folder = run
    there, records = (folder / kind / "able" / "main-0" for kind in ("jobs", "records"))
    wait_for(
        lambda: (
            "step 5" in (there / "out.log").read_text() if (there / "out.log").exists() else False
        )
    )
    source = node_of(folder)
    to = "b" if source == "a" else "a"
    assert "move started" in call("move", "able", "--to", to).stdout
    wait_for((records / "claim.2").exists)
    assert node_of(folder) == to
    wait_for(lambda: told("able").count("running") == 2)
    assert json.loads(call("pause", "able", "--json").stdout)["done"]
    wait_for(lambda: exit_code(records, 2) is not None)
    sleep(0.3)
    assert not (records / "claim.3").exists(), "a paused job is not placed again"
    assert "cannot pause: it is paused" in call("pause", "able", code=1).stdout
    assert "cannot move: it is paused" in call("move", "able", "--to", source, code=1).stdout
    call("resume", "able")
    wait_for((records / "claim.3").exists)
    refused = json.loads(call("resume", "able", "--json", code=1).stdout)
    assert (refused["done"], refused["why"]) == (False, "it is not paused")
    refused = call("pause", "rigid", code=1)
    assert "cannot save checkpoints" in refused.stdout
    assert "checkpoint: {mode: sdk}" in refused.stderr
    assert "not paused" in call("resume", "rigid", code=1).stdout
    child.send_signal(signal.SIGINT)
    found = json.loads(end_of(child).stdout)[0]
    assert found["moves"] == 1
    said = [
        int(x.split()[1]) for x in (there / "out.log").read_text().splitlines() if x[:4] == "step"
    ]
    assert said[-1] > said[0]


def node_of(folder):
    (replica,) = JobStore(folder).load(["able"])["able"].replicas
    return replica.node


def told(job):
    return [event["what"] for event in json.loads(call("explain", job, "--json").stdout)["events"]]


def test_a_request_for_an_unknown_job_or_node_is_refused_with_a_message(run):
    child, folder = run
    wait_for((folder / "journal.jsonl").exists)
    wait_for((folder / "records" / "able" / "main-0" / "claim.1").exists)
    done = CliRunner().invoke(app, ["pause", "nobody"])
    assert "no job is called" in str(done.exception)
    done = CliRunner().invoke(app, ["move", "able", "--to", "core"])
    assert str(done.exception) == "no node is called 'core'"
    assert done.exception.hint == "there are: a, b"
    for request in (Request(job="able", wish="move", to="core"), Request(job="able", wish="fly")):
        there = inbox.put(folder, request)
        wait_for(lambda there=there: not there.exists())
    assert child.poll() is None, "whatever is in a request, the run goes on"
    assert "move to core: refused" in told("able")
    child.send_signal(signal.SIGINT)
    end_of(child)
    done = CliRunner().invoke(app, ["pause", "able"])
    assert done.exception.exit_code == 4


def test_requests_become_decisions():
    def asked(request):
        s = running("x", on="a")
        s.requests = (request,)
        return UserRequests().decide(s, None)[0].decisions

    assert asked(Request(job="x", wish="pause")) == (
        Suspend(job="x", reason="requested by a user"),
    )
    (move,) = asked(Request(job="x", wish="move", to="b"))
    assert isinstance(move, Move)
    assert asked(Request(job="x", wish="resume")) == ()


def test_a_request_about_an_unknown_job_is_refused_with_a_reason():
    """All who decide after it see the world as it was."""
    for request, why in (
        (Request(job="x", wish="move", to="nowhere"), "node nowhere is not available"),
        (Request(job="gone", wish="pause"), "it is not running"),
        (Request(job="gone", wish="move", to="a"), None),
    ):
        s = running("x", on="a", trigger=Trigger.ASKED)
        s.requests = (request, request)
        policy = build("@headway")
        plan, _ = policy.decide(s, policy.begin())
        assert [r.why for r in check(plan, s).refused] == ([why] if why else [])


def test_a_pending_job_is_paused_without_a_decision():
    s = snapshot(jobs=[job("x", phase=Phase.SUSPENDING)])
    s.requests = (Request(job="x", wish="pause"),)
    assert UserRequests().decide(s, None)[0].decisions == ()


def test_of_a_job_that_has_ended_nothing_is_asked(run):
    child, folder = run
    wait_for(lambda: exit_code(folder / "records" / "short" / "main-0", 1) is not None)
    wait_for(lambda: "succeeded" in told("short"))
    for words in (["pause", "short"], ["resume", "short"], ["move", "short", "--to", "a"]):
        assert f"short: cannot {words[0]}: it has ended" in call(*words, code=1).stdout
    there = inbox.put(folder, Request(job="short", wish="pause"))
    wait_for(lambda: not there.exists())
    assert child.poll() is None


def test_nonsense_in_the_inbox_is_left_out(tmp_path):
    box = inbox.Inbox(tmp_path)
    assert box.new() == []
    path = inbox.put(tmp_path, Request(job="x", wish="pause"))
    (tmp_path / "requests" / "0-bad.json").write_text("{")
    (tmp_path / "requests" / "1-bad.json").write_text("[]")
    odd = '{"is": "Request", "job": ["x"], "wish": "pause"}'
    (tmp_path / "requests" / "2-bad.json").write_text(odd)
    assert box.new() == [Request(job="x", wish="pause")]
    assert box.new() == []
    box.give()
    box.acknowledge()
    assert not path.exists()
    assert list((tmp_path / "requests").iterdir()) == []


def test_a_request_that_leaves_the_time_of_the_folder_as_it_is_is_seen(tmp_path):
    """Two changes within a tick of the file system's clock give the folder one time."""
    box, folder = inbox.Inbox(tmp_path), tmp_path / "requests"
    inbox.put(tmp_path, Request(job="x", wish="pause"))
    assert len(box.new()) == 1
    at = folder.stat().st_mtime_ns
    inbox.put(tmp_path, Request(job="y", wish="pause"))
    os.utime(folder, ns=(at, at))
    assert box.new() == [Request(job="y", wish="pause")]


def test_a_request_stays_until_it_has_been_written_down(tmp_path):
    """Whoever asked looks into the journal as soon as it is gone; and a crash must not lose it."""
    there = inbox.put(tmp_path, Request(job="x", wish="pause"))
    box = inbox.Inbox(tmp_path)
    assert [r.wish for r in box.new()] == ["pause"]
    box.acknowledge()
    assert there.exists(), "it is not part of any observation yet"
    box.give()
    assert (box.new(), there.exists()) == ([], True)
    box.acknowledge()
    assert not there.exists()


def test_a_drain_of_an_unknown_node_is_answered_at_once(tmp_path):
    """It is about no job, so that no line of the journal acknowledges it."""
    there = inbox.put(tmp_path, Request(job=JobId(""), wish="drain", to=NodeId("x")))
    box = inbox.Inbox(tmp_path, lambda request: inbox.Answer(unknown="node", known=("a",)))
    assert (box.new(), there.exists()) == ([], False)
    assert inbox.take_answer(there) == inbox.Answer(unknown="node", known=("a",))


def test_a_request_is_acknowledged_only_when_the_state_of_its_job_is_stored(tmp_path):
    there = inbox.put(tmp_path, Request(job=JobId("x"), wish="pause"))
    box = inbox.Inbox(tmp_path)
    assert [r.job for r in box.new()] == ["x"]
    box.give()
    box.acknowledge(lambda job: False)
    assert there.exists()
    box.acknowledge(lambda job: job == "x")
    assert not there.exists()
