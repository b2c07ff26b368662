"""`headway serve` and `submit`, as real processes: nothing that was accepted is lost."""

import json
import signal
import sys

import pytest
from patience import wait_for as until

from headway.backend.inbox import put
from headway.core.model.snapshot import Request
from headway.errors import BackendError
from headway.runtime.run_directory import RunDirectory
from headway.runtime.server import start_server
from headway.runtime.submissions import End, Submission, Submissions
from serving import listed

WORKS = """
import os, sys, time
with open("ledger", "a") as file:
    file.write(sys.argv[1] + " began\\n")
for step in range(1, 21):
    print(f"step {step}/20 loss: {1 / step:.3f}", flush=True)
    time.sleep(float(sys.argv[2]))
while not os.path.exists("go"):
    time.sleep(0.02)
with open("ledger", "a") as file:
    file.write(sys.argv[1] + " ended " + os.environ.get("COLOUR", "") + "\\n")
"""


@pytest.fixture
def serve(serving, tmp_path):
    (tmp_path / "train.py").write_text(WORKS)
    return serving


def submit(headway, *words):
    ran = headway("submit", "--json", *words)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["jobs"]


def store(run, **entry):
    """Store a job as the API of a server does before it answers."""
    quick = {"tasks": [{"command": [sys.executable, "-c", "pass"]}]}
    entry = entry or {"name": "quick", "spec": quick}
    return Submissions(run.path).add([Submission(entry=entry, directory=str(run.path.parents[2]))])


def ledger(tmp_path):
    return (tmp_path / "ledger").read_text().splitlines() if (tmp_path / "ledger").exists() else []


def test_jobs_survive_a_killed_server_and_each_runs_once(serve, headway, tmp_path, monkeypatch):
    refused = headway("submit", "--", sys.executable, "train.py", "a", 0)
    assert (refused.code, "headway serve" in refused.err) == (4, True)
    first = serve()
    monkeypatch.setenv("COLOUR", "red")
    work = ("--env", "COLOUR", "--", sys.executable, "train.py")
    assert submit(headway, *work, "a", 0.01) == ["train"]
    assert submit(headway, "--key", "k", *work, "b", 0.01) == ["train-2"]
    assert submit(headway, "--key", "k", *work, "b", 0.01) == ["train-2"]
    until(lambda: {j["phase"] for j in listed(headway).values()} == {"running"})
    until(lambda: len(ledger(tmp_path)) == 2)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert headway("submit", *work, "c", 0).code == 4
    second = serve()
    assert submit(headway, *work, "c", 0.01) == ["train-3"]
    until(lambda: [j["phase"] for j in listed(headway).values()] == ["running"] * 3)
    (tmp_path / "go").touch()
    assert headway("wait", "train", "train-2", "train-3").code == 0
    lines = ledger(tmp_path)
    assert sorted(lines) == sorted(f"{n} {what}" for n in "abc" for what in ("began", "ended red"))
    until(lambda: listed(headway) == {})
    ended = until(lambda: listed(headway, "--all"))
    assert {name: job["phase"] for name, job in ended.items()} == dict.fromkeys(
        ("train", "train-2", "train-3"), "succeeded"
    )
    second.send_signal(signal.SIGTERM)
    told = second.communicate(timeout=60)[1]
    assert "train-3 succeeded" in told


def test_jobs_continue_when_the_server_is_stopped_and_the_next_one_sees_their_end(
    serve, headway, tmp_path
):
    first = serve()
    submit(headway, "--", sys.executable, "train.py", "a", 0.01)
    until(lambda: ledger(tmp_path) == ["a began"])
    first.send_signal(signal.SIGTERM)
    assert "1 job continues" in first.communicate(timeout=60)[1]
    (tmp_path / "go").touch()
    until(lambda: len(ledger(tmp_path)) == 2)
    serve()
    assert headway("wait", "train").code == 0
    assert ledger(tmp_path) == ["a began", "a ended "]


def test_a_job_that_is_submitted_while_a_server_starts_is_taken(tmp_path, monkeypatch):
    """It is stored after the server has read the unfinished jobs, and before it is woken."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    for _ in range(2):  # a new server, and one that is continued
        server = start_server(tmp_path / "data", "fair")
        [job] = store(server.run.folder)
        ended = []

        def stop(record, ended=ended, server=server):
            ended.append(record.id)
            server.run.backend.stop()

        server.go(ended=stop)
        assert ended == [job]


def test_a_request_for_a_job_that_was_just_stored_is_accepted(tmp_path, monkeypatch):
    """The loop sees the request before it is woken for the job."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    server = start_server(tmp_path / "data", "fair")
    run, outcomes = server.run.folder.path, []

    def stop(record):
        outcomes.append(record.outcome)
        server.run.backend.stop()

    def add(*_):
        if not requests:
            [job] = store(server.run.folder)
            requests.append(put(run, Request(job=job, wish="cancel")))
        elif requests[0].with_suffix(".answer").exists():
            server.run.backend.stop()

    requests = []
    server.go(add, ended=stop)
    assert outcomes == ["cancelled"]


def test_the_end_of_a_job_that_cannot_be_stored_now_is_stored_later(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    server = start_server(tmp_path / "data", "fair")
    store(server.run.folder)
    finish, refused = server.submissions.finish, []

    def full(job, end):
        if len(refused) < 3:
            refused.append(job)
            raise BackendError("database or disk is full")
        finish(job, end)
        server.run.backend.stop()

    monkeypatch.setattr(server.submissions, "finish", full)
    server.go()
    [job] = Submissions(server.run.folder.path).last(1)
    assert (job.outcome, len(refused)) == ("succeeded", 3)


def test_what_cannot_be_remembered_or_sampled_does_not_end_the_server(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    server = start_server(tmp_path / "data", "fair")
    (tmp_path / "data" / "earlier-runs.part").mkdir()
    server.run.folder.usage.mkdir()
    store(server.run.folder)
    ended = []

    def stop(record):
        ended.append(record.id)
        server.run.backend.stop()

    server.go(ended=stop)
    assert len(ended) == 1
    [job] = Submissions(server.run.folder.path).last(1)
    assert (job.outcome, job.env) == ("succeeded", {})


def test_a_job_that_ended_long_ago_is_still_found(serve, headway, tmp_path):
    serve()
    submit(headway, "--name", "first", "--", sys.executable, "-c", "import nosuchmodule")
    assert headway("wait", "first").code == 1
    [run] = RunDirectory.all(tmp_path / "data")
    store = Submissions(run.path)
    many = store.add([Submission(entry={"name": f"j{i}"}, directory="/") for i in range(1100)])
    for name in many:
        store.finish(name, End(outcome="succeeded", finished=1e6))
    assert headway("wait", "first").code == 1
    assert "nosuchmodule" in headway("logs", "first").out
    told = headway("cancel", "first")
    assert (told.code, "it has ended" in told.out) == (1, True)
    unknown = headway("wait", "nosuch")
    assert (unknown.code, len(unknown.err) < 1000) == (2, True)


def test_a_stopped_server_is_named_with_how_to_start_it(serve, headway, tmp_path):
    child = serve()
    submit(headway, "--", sys.executable, "train.py", "a", 0.01)
    until(lambda: ledger(tmp_path) == ["a began"])
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    assert listed(headway)["train"]["phase"] == "running"
    for words in (("wait", "train"), ("wait",), ("cancel", "train")):
        ran = headway(*words)
        assert (ran.code, "headway serve" in ran.err) == (4, True), ran.err
    assert "the server is stopped" in headway("ps").err
    assert json.loads(headway("history", "--json").out)[0]["state"] == "stopped"
    resumed = headway("run", "--resume", "latest")
    assert (resumed.code, "headway serve" in resumed.err) == (2, True)
    assert "its jobs continue" in headway("ps").err
    (tmp_path / "go").touch()
    last = serve()
    assert headway("wait", "train").code == 0
    assert headway("wait").code == 0
    last.send_signal(signal.SIGTERM)
    last.communicate(timeout=60)
    for words in (("ps",), ("cancel", "train")):
        told = headway(*words).err
        assert ("the server is stopped" in told, "continue" in told) == (True, False), told


def test_a_command_is_retried_only_as_often_as_its_user_says(serve, headway, tmp_path):
    serve()
    fails = (
        "--",
        sys.executable,
        "-c",
        "open('ledger', 'a').write('x began\\n'); raise SystemExit(3)",
    )
    submit(headway, "--name", "once", *fails)
    assert headway("wait", "once").code == 1
    assert len(ledger(tmp_path)) == 1
    submit(headway, "--name", "twice", "--retries", "1", *fails)
    assert headway("wait", "twice").code == 1
    assert len(ledger(tmp_path)) == 3


def test_one_server_for_a_directory_with_one_policy(serve, headway):
    serve()
    ran = headway("serve")
    assert (ran.code, "already active" in ran.err) == (2, True)


def test_a_job_that_cannot_run_any_more_fails_and_harms_no_other(serve, headway, tmp_path):
    (tmp_path / "go").touch()
    manifest = tmp_path / "job.yaml"
    manifest.write_text(
        "apiVersion: headway.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: x}\n"
        f"spec: {{tasks: [{{command: [{sys.executable}, -c, pass]}}]}}\n"
    )
    child = serve()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    [run] = RunDirectory.all(tmp_path / "data")
    store(run, name="x", manifest="job.yaml")
    manifest.unlink()
    serve()
    assert submit(headway, "--", sys.executable, "train.py", "a", 0) == ["train"]
    assert headway("wait", "train").code == 0
    gone = until(lambda: listed(headway, "--all").get("x"))
    assert (gone["phase"], "job.yaml" in gone["reason"]) == ("failed", True)


def test_a_running_job_that_the_next_server_cannot_read_is_not_ended(serve, headway, tmp_path):
    manifest = tmp_path / "job.yaml"
    text = (
        "apiVersion: headway.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: x}\n"
        f"spec: {{tasks: [{{command: [{sys.executable}, train.py, a, '0']}}]}}\n"
    )
    manifest.write_text(text)
    child = serve()
    [run] = RunDirectory.all(tmp_path / "data")
    store(run, name="x", manifest="job.yaml")  # as an earlier version stored it
    until(lambda: ledger(tmp_path) == ["a began"])
    until(lambda: listed(headway)["x"]["phase"] == "running")
    child.send_signal(signal.SIGKILL)
    child.communicate()
    manifest.unlink()
    second = serve()
    until(lambda: "cannot be restarted: its submission" in listed(headway)["x"]["reason"])
    seen = listed(headway)["x"]
    assert (seen["phase"], "job.yaml" in seen["reason"]) == ("running", True)
    assert "it cannot save checkpoints" in headway("pause", "x").out
    second.send_signal(signal.SIGTERM)
    assert "job x continues and cannot be restarted" in second.communicate(timeout=60)[1]
    manifest.write_text(text)
    serve()
    (tmp_path / "go").touch()
    assert headway("wait", "x").code == 0
    assert ledger(tmp_path) == ["a began", "a ended "]


def test_a_running_job_that_the_next_server_cannot_read_can_be_cancelled(serve, headway, tmp_path):
    manifest = tmp_path / "job.yaml"
    manifest.write_text(
        "apiVersion: headway.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: x}\n"
        f"spec: {{tasks: [{{command: [{sys.executable}, train.py, a, '0']}}]}}\n"
    )
    child = serve()
    [run] = RunDirectory.all(tmp_path / "data")
    store(run, name="x", manifest="job.yaml")  # as an earlier version stored it
    until(lambda: listed(headway)["x"]["phase"] == "running")
    until(lambda: ledger(tmp_path) == ["a began"])
    child.send_signal(signal.SIGKILL)
    child.communicate()
    manifest.unlink()
    serve()
    until(lambda: "cannot be restarted" in listed(headway)["x"]["reason"])
    assert headway("cancel", "x").code == 0
    assert headway("wait", "x").code == 1
    assert listed(headway, "--all")["x"]["phase"] == "cancelled"
    (tmp_path / "go").touch()
    assert ledger(tmp_path) == ["a began"], "it was stopped, and not started again"


def test_what_a_server_cannot_run_is_refused_at_once(serve, headway, tmp_path):
    serve()
    assert headway("submit").code == 2
    bad = headway("submit", "--name", "No Name", "--", "true")
    assert (bad.code, "not a name" in bad.err) == (2, True)
    workload = tmp_path / "w.yaml"
    head = "apiVersion: headway.dev/v1alpha1\nkind: Workload\n"
    workload.write_text(head + "nodes: [{cpu: 1}]\njobs: [{name: x, model: vae-torch}]\n")
    own = headway("submit", str(workload))
    assert (own.out, "the server has its own" in own.err) == ("x\n", True)
    for bad in ("NO_SUCH_VARIABLE", "=x"):
        refused = headway("submit", "--env", bad, "--", "true")
        assert (refused.code, "no such variable" in refused.err) == (2, True)
    until(lambda: listed(headway)["x"]["phase"] == "running")
    assert headway("cancel", "x").code == 0
    until(lambda: listed(headway, "--all")["x"]["phase"] == "cancelled")


def test_ps_needs_no_journal_and_shows_a_job_that_the_server_has_not_seen_yet(
    serve, headway, tmp_path
):
    """The server keeps what `ps` shows in a file, so that its cost does not grow with the run."""
    child = serve()
    submit(headway, "--", sys.executable, "train.py", "a", 0.01)
    until(lambda: listed(headway)["train"]["step"] == 20)
    [run] = RunDirectory.all(tmp_path / "data")
    run.journal.unlink()
    job = listed(headway)["train"]
    assert (job["phase"], job["step"], job["total_steps"]) == ("running", 20, 20)
    assert 0 < job["share"] <= 1
    child.send_signal(signal.SIGSTOP)
    store(run, name="new", model="vae-torch")
    assert listed(headway)["new"]["phase"] == "pending"
    child.send_signal(signal.SIGCONT)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert listed(headway)["train"]["step"] == 20


def test_ended_jobs_are_cleaned_while_the_server_goes_on(serve, headway, tmp_path):
    serve()
    (tmp_path / "go").touch()
    for name in ("old", "new"):
        submit(headway, "--name", name, "--", sys.executable, "train.py", name, 0)
        assert headway("wait", name).code == 0
    (tmp_path / "go").unlink()
    submit(headway, "--name", "works", "--", sys.executable, "train.py", "c", 0)
    until(lambda: listed(headway)["works"]["phase"] == "running")
    history = json.loads(headway("history", "--jobs", "--json").out)
    assert [job["job"] for job in history] == ["new", "old"]
    [run] = RunDirectory.all(tmp_path / "data")
    assert headway("clean", "--keep", 1).out.splitlines()[0].startswith(f"{run.id}/old ")
    [gone] = json.loads(headway("clean", "--keep", 1, "--yes", "--json").out)
    assert (gone["run"], gone["removed"], gone["size_bytes"] > 0) == (f"{run.id}/old", True, True)
    assert sorted(path.name for path in (run.path / "jobs").iterdir()) == ["new", "works"]
    assert list(listed(headway, "--all")) == ["new", "works"]
    assert headway("wait", "old").code == 2
    (tmp_path / "go").touch()
    assert submit(headway, "--name", "old", "--", sys.executable, "train.py", "d", 0) == ["old-2"]
    assert headway("wait", "old-2", "works").code == 0
    told = [json.loads(headway("explain", n, "--json").out)["events"] for n in ("old", "old-2")]
    assert [[e["what"] for e in of].count("succeeded") for of in told] == [1, 1], "not mixed"
    assert sorted(ledger(tmp_path)) == sorted(
        f"{n} {what}" for n in ("old", "new", "c", "d") for what in ("began", "ended ")
    )
