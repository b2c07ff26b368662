"""The API: what it answers, what it refuses, and that no client can hold it up."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from threading import Thread

import pytest
from patience import wait_for

from headway.client import BASE, Client
from headway.client_connection import SOCKET, short_path
from headway.errors import (
    BackendError,
    ConfigError,
    HeadwayError,
    NoServer,
    UnknownName,
    Unreachable,
)
from headway.runtime.job_status import JobStatus
from headway.runtime.run_status import find_server
from headway.runtime.server import start_server
from headway.runtime.submissions import End, Submissions
from headway.server import events, requests
from headway.server import listener as listening
from headway.server.access import Caller
from headway.server.events import Changes
from headway.server.listener import Listener
from headway.server.requests import MAX_DEPTH

ROOT = Caller(0, 0)
WORKS = """
import os, time
for step in range(1, 6):
    print(f"step {step}/5 loss: {1 / step:.3f}", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
"""


def job(name="x", command=("true",)):
    return {"name": name, "spec": {"tasks": [{"command": list(command)}], "backoffLimit": 0}}


@pytest.fixture
def listener(tmp_path, monkeypatch):
    """A server whose API answers, and whose loop does not run."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    server = start_server(tmp_path / "data", "fair")
    with Listener(server) as made:
        yield made
    server.run.backend.close()
    server.run.journal.close()
    server.submissions.close()
    server.run.folder.unlock()


@pytest.fixture
def server(listener):
    return listener._server


@pytest.fixture
def run(server):
    return server.run.folder.path


@pytest.fixture
def client(run):
    with Client(run) as made:
        yield made


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """A real server; its client."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(WORKS)
    words = [sys.executable, "-m", "headway", "serve"]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: (found := find_server(tmp_path / "data")) and found.locked)
    with Client.of(tmp_path / "data") as made:
        yield made
    (tmp_path / "go").touch()
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)


def raw(run, text, seconds=30.0):
    """Send bytes, and return all that comes back until the connection ends."""
    with socket.socket(socket.AF_UNIX) as made, short_path(run) as path:
        made.settimeout(seconds)
        made.connect(path)
        found = b""
        with suppress(BrokenPipeError):  # it has answered already
            made.sendall(text)
        with suppress(ConnectionResetError):  # it has left the rest unread
            while block := made.recv(65536):
                found += block
    return found


def test_a_submission_is_stored_before_it_is_answered_and_a_key_repeats_the_answer(client, run):
    assert client.submit([job(), job("y")], directory="/", env={"A": "b"}, key="k") == ["x", "y"]
    [x, _] = Submissions(run).after(0)
    assert (x.entry, x.directory, x.env) == (job(), "/", {"A": "b"})
    assert client.submit([job()], directory="/", key="k") == ["x", "y"]
    assert client.submit([job()], directory="/") == ["x-2"]
    assert [found.job for found in client.jobs()] == ["x", "y", "x-2"]
    assert client.job("y").phase == "pending"


def test_a_job_gets_the_environment_of_its_user_unless_another_is_given(client, run, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", "/venv")
    monkeypatch.setenv("SECRET", "s")
    client.submit([job()], directory="/")
    client.submit([job()], directory="/", env={})
    [first, second] = Submissions(run).after(0)
    assert (first.env["VIRTUAL_ENV"], "SECRET" in first.env) == ("/venv", False)
    assert second.env == {}


def test_a_job_is_stored_with_the_spec_of_its_manifest(client, run, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "job.yaml").write_text(
        "apiVersion: headway.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: x}\n"
        "spec: {tasks: [{command: ['true'], workingDir: here}]}\n"
    )
    client.submit([{"name": "x", "manifest": "sub/job.yaml", "at": 3}], directory=tmp_path)
    [x] = Submissions(run).after(0)
    spec = {"tasks": [{"command": ["true"], "workingDir": "here"}]}
    assert x.entry == {"name": "x", "at": 3, "spec": spec}
    assert x.directory == str(tmp_path / "sub")


@pytest.mark.parametrize("key", ["", "€", "a\nb", " a", "a" * 256])
def test_what_is_not_a_key_is_refused(client, run, key):
    with pytest.raises(ConfigError, match="is not a key"):
        client.submit([job()], directory="/", key=key)
    assert Submissions(run).after(0) == []


@pytest.fixture
def hung(tmp_path):
    """A server that is connected to and does not answer."""
    with listening.bind(tmp_path), Client(tmp_path, timeout=0.2) as made:
        yield made


def test_a_submission_without_an_answer_names_the_key_to_repeat_it_with(hung):
    with pytest.raises(Unreachable, match="may have been stored") as found:
        hung.submit([job()], directory="/", key="my key")
    assert "--key 'my key'" in found.value.hint
    with pytest.raises(Unreachable) as found:
        hung.submit([job()], directory="/")
    assert re.search("--key [0-9a-f]{32}", found.value.hint)


def test_a_request_without_an_answer_is_handled_later(hung):
    with pytest.raises(Unreachable) as found:
        hung.cancel("x")
    assert "handles the request when it goes on" in found.value.hint


def test_a_client_waits_until_it_can_connect(run, monkeypatch):
    tries, connect = [], socket.socket.connect

    class Crowded(socket.socket):
        def connect(self, address):
            if self.family == socket.AF_UNIX:  # other threads may connect elsewhere
                tries.append(address)
                if len(tries) < 3:
                    raise BlockingIOError
            connect(self, address)

    monkeypatch.setattr("headway.client_connection.socket.socket", Crowded)
    with Client(run) as client:
        assert client.server()["policy"] == "fair"
    assert len(tries) == 3


def test_a_client_that_is_one_too_many_tries_again(listener, client):
    unix, _ = listener._served[0]
    config, state = unix.config, unix.server_state
    config.limit_concurrency = 0
    busy = Thread(target=lambda: found.append(client.server()["policy"]))
    found = []
    busy.start()
    wait_for(lambda: state.total_requests > 0)
    config.limit_concurrency = 256
    busy.join()
    assert found == ["fair"]


def test_an_answer_to_a_body_that_was_not_read_is_read(tmp_path):
    def answer(server):
        server.setblocking(True)
        with server.accept()[0] as made:
            made.recv(1000)
            made.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")

    with listening.bind(tmp_path) as server, Client(tmp_path) as client:
        other = Thread(target=answer, args=[server])
        other.start()
        with pytest.raises(HeadwayError, match="status 413"):
            client.submit([job()], directory="/" * 2**22)
        other.join()


def test_many_clients_at_once_get_ids_of_their_own(run):
    found = []

    def submit():
        with Client(run) as client:
            found.extend(name for _ in range(10) for name in client.submit([job()], directory="/"))

    clients = [Thread(target=submit) for _ in range(8)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert len(set(found)) == 80
    assert {row.id for row in Submissions(run).after(0)} == set(found)


def test_a_submission_that_cannot_be_stored_is_refused_and_the_next_one_is_stored(
    client, monkeypatch
):
    add_all, failed = Submissions.add_all, []

    def fails(store, submissions):
        if len(failed) < 2:
            failed.append(BackendError("disk full") if not failed else ValueError("a defect"))
            raise failed[-1]
        return add_all(store, submissions)

    monkeypatch.setattr(Submissions, "add_all", fails)
    with pytest.raises(BackendError, match="disk full"):
        client.submit([job()], directory="/")
    with pytest.raises(HeadwayError, match="unexpected ValueError"):
        client.submit([job()], directory="/")
    assert client.submit([job()], directory="/") == ["x"]


def test_an_end_that_cannot_be_read_does_not_end_the_server(server, monkeypatch):
    def fails(*_):
        raise BackendError("disk error")

    monkeypatch.setattr(Submissions, "find", fails)
    server.ended("x")


def test_a_job_that_ends_while_it_is_asked_has_ended(client, run, monkeypatch):
    def ends(_, request):
        Submissions(run).finish(request.job, End(outcome="succeeded"))
        raise UnknownName("job", request.job, [])

    monkeypatch.setattr("headway.server.app.ask", ends)
    client.submit([job()], directory="/")
    with pytest.raises(HeadwayError, match="it has ended"):
        client.cancel("x")


def test_jobs_are_listed_page_by_page_and_by_state_and_phase(client, run):
    names = client.submit([job(f"j{i}") for i in range(7)], directory="/")
    store = Submissions(run)
    for name in names[:3]:
        store.finish(name, End(outcome="failed", reason="because", finished=2.0))
    pages, after = [], 0
    while after is not None:
        page = client._json("GET", f"/jobs?limit=3&after={after}")
        pages.append([found["job"] for found in page["jobs"]])
        after = page["next"]
    assert pages == [names[:3], names[3:6], names[6:]]
    assert [found.job for found in client.jobs(state="ended")] == names[:3]
    assert [found.job for found in client.jobs(state="active")] == names[3:]
    assert [found.job for found in client.jobs(phase="failed")] == names[:3]
    assert [found.job for found in client.jobs(phase="pending")] == names[3:]
    assert list(client.jobs(phase="running")) == []
    assert client.job("j0").reason == "because"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "where"),
    [
        ("GET", "/nowhere", None, 404, ""),
        ("DELETE", "/jobs", None, 405, ""),
        ("GET", "/jobs?limit=0", None, 400, "limit"),
        ("GET", "/jobs?after=-1", None, 400, "after"),
        ("GET", "/jobs?state=x", None, 400, "state"),
        ("GET", "/jobs?phase=x", None, 400, "phase"),
        ("GET", "/jobs/nosuch", None, 404, None),
        ("POST", "/jobs/nosuch/cancel", None, 404, None),
        ("POST", "/jobs/nosuch/scale", {"task": "a", "count": 0}, 400, "body.count"),
        ("POST", "/jobs", {"jobs": [], "directory": "/"}, 400, "body.jobs"),
        ("POST", "/jobs", {"jobs": [1], "directory": "/"}, 400, "body.jobs"),
        ("POST", "/jobs", {"jobs": [job()], "directory": "d"}, 400, "body.directory"),
        ("POST", "/jobs", {"jobs": [job()], "directory": "/", "env": {"=": ""}}, 400, "body.env"),
        ("POST", "/jobs", {"jobs": [job()], "directory": "/", "more": 1}, 400, "body"),
        ("POST", "/jobs", {"jobs": [job("No Name")], "directory": "/"}, 422, "jobs[0]"),
        ("POST", "/jobs", {"jobs": [{"name": "x"}], "directory": "/"}, 422, "jobs[0]"),
        ("POST", "/jobs", {"jobs": [job("\ud800")], "directory": "/"}, 400, ""),
        (
            "POST",
            "/jobs",
            {"jobs": [{"name": "x", "model": "?"}], "directory": "/"},
            422,
            "jobs[0]",
        ),
    ],
)
def test_what_is_wrong_is_answered_by_a_problem(run, method, path, body, status, where):
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {BASE}{path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    top, _, text = raw(run, head.encode() + data).partition(b"\r\n\r\n")
    found = json.loads(text)
    assert (int(top.split()[1]), found["status"]) == (status, status)
    assert b"content-type: application/problem+json" in top
    assert set(found) == {"type", "title", "status", "detail", "code", "where", "hint"}
    assert where is None or found["where"] == where
    assert Submissions(run).after(0) == []


def test_a_large_workload_can_be_submitted_at_once(client):
    large = [job(f"x-{i}", ["true", "a" * 1000]) for i in range(2000)]
    assert len(client.submit(large, directory="/")) == 2000


def test_bodies_and_their_nesting_are_bounded(client, run, monkeypatch):
    monkeypatch.setattr(requests, "MAX_BODY", 2**20)
    head = f"POST {BASE}/jobs HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
    typed = head + "Content-Type: application/json\r\n"
    deep = "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)
    for text, status in (
        (f"{head}Content-Length: 2\r\n\r\n{{}}", 415),
        (f"{typed}Content-Length: 2\r\n\r\n[]", 400),
        (f"{typed}Content-Length: 3\r\n\r\nNaN", 400),
        (f'{typed}Content-Length: {len(deep) + 5}\r\n\r\n{{"a":{deep}}}', 400),
        (f"{typed}Content-Length: 200000\r\n\r\n" + "[" * 200000, 400),
        (f"{typed}Content-Length: {2**21}\r\n\r\n" + " " * 2**21, 413),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: " + "a" * 2**20 + "\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
    ):
        assert raw(run, text.encode()).split()[1] == str(status).encode(), text[:200]
    assert client.server()["policy"] == "fair"


def test_a_slow_client_is_left_and_others_are_answered(run, monkeypatch):
    monkeypatch.setattr(listening, "SILENT", 0.3)
    assert raw(run, b"GET /healthz HTTP/1.1\r\nHost:") == b""
    twice = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\nGET /heal"
    assert raw(run, twice).count(b"HTTP/1.1 200") == 1
    with Client(run) as client:
        assert client.server()["policy"] == "fair"


def test_only_its_user_can_connect_and_a_socket_of_a_dead_server_is_replaced(run):
    assert (run / SOCKET).stat().st_mode & 0o777 == 0o600
    listening.bind(run).close()
    with pytest.raises(OSError, match="refused"):
        raw(run, b"")


def status(name, step=0, at_s=0.0):
    return JobStatus(run="r", job=name, phase="running", step=step, at_s=at_s)


def test_a_listener_gets_the_last_change_of_each_of_many_jobs_and_misses_none():
    changes, names = Changes(lambda: 0.0), [f"job-{i}" for i in range(2000)]

    async def listen():
        fast = changes.listen(None, ROOT)
        await anext(fast)
        for step in range(3):
            changes.update([status(name, step) for name in names])
        changes.update([status(name, 2, at_s=9.0) for name in names])  # nothing has changed
        changes.close()
        told = [json.loads(text.partition("data: ")[2]) async for text in fast]
        again = changes.listen(5997, ROOT)
        missed = [await anext(again) for _ in range(4)]
        await again.aclose()
        return told, missed

    told, missed = asyncio.run(listen())
    assert [(found["job"], found["step"]) for found in told] == [(name, 2) for name in names]
    assert [text.split()[1] for text in missed[1:]] == ["5998", "5999", "6000"]
    assert changes.listeners == 0


def test_a_listener_that_falls_far_behind_is_left(monkeypatch):
    monkeypatch.setattr(events, "BEHIND", 10)
    changes = Changes()

    async def listen():
        slow = changes.listen(None, ROOT)
        await anext(slow)
        changes.update([status(f"job-{i}") for i in range(11)])
        return [text async for text in slow]

    assert len(asyncio.run(listen())) == 11
    assert changes.listeners == 0


def test_one_listener_too_many_gets_an_error(client, monkeypatch):
    monkeypatch.setattr("headway.server.app.LISTENERS", 0)
    with pytest.raises(HeadwayError, match="clients listen already"):
        next(client.changes())


def test_the_changes_of_a_job_that_has_ended_already_are_its_end(client, run):
    client.submit([job(), job("y")], directory="/")
    Submissions(run).finish("x", End(outcome="succeeded"))
    assert [found.phase for found in client.changes("x")] == ["succeeded"]


def test_a_client_without_a_server_says_how_to_start_one(tmp_path):
    with pytest.raises(NoServer, match="no server is active"):
        Client.of(tmp_path)
    with Client(tmp_path) as client, pytest.raises(NoServer) as found:
        client.server()
    assert found.value.hint == "headway serve"


def test_a_client_follows_a_job_from_its_submission_to_its_end(serve, tmp_path):
    seen, client = [], serve

    def listen():
        with Client.of(tmp_path / "data") as other:
            for change in other.changes():
                seen.append((change.job, change.phase))
                if change.ended:
                    return

    listener = Thread(target=listen)
    listener.start()
    wait_for(lambda: b"headway_event_listeners 1" in client._call("GET", "/metrics"))
    [name] = client.submit([job("train", (sys.executable, "train.py"))], directory=tmp_path)
    wait_for(lambda: client.job(name).step == 5)
    assert client.logs(name, lines=2) == ["step 4/5 loss: 0.250", "step 5/5 loss: 0.200"]
    assert client.explain(name)["known"]["total_steps"] == 5
    assert b'headway_jobs{phase="running"} 1' in client._call("GET", "/metrics")
    assert client._call("GET", "/readyz") == b"ok\n"
    with pytest.raises(HeadwayError, match="not paused") as refused:
        client.resume(name)
    assert refused.value.code == "refused"
    with pytest.raises(HeadwayError, match="node"):
        client.move(name, "nowhere")
    client.cancel(name)
    listener.join()
    assert ("train", "running") in seen
    assert seen[-1] == ("train", "cancelled")
    assert client.job(name).phase == "cancelled"
    with pytest.raises(HeadwayError, match="has ended"):
        client.cancel(name)
    with pytest.raises(ConfigError, match="has no command"):
        client.submit([{"name": "x", "spec": {"tasks": [{}]}}])


def test_a_job_that_has_not_started_has_an_empty_explanation(serve, tmp_path):
    later = {**job("later"), "at": 1e6}
    [name] = serve.submit([later], directory=tmp_path)
    found = serve.explain(name)
    assert (found["job"], found["events"]) == ("later", [])
    journal = find_server(tmp_path / "data").journal
    journal.rename(tmp_path / "away")
    with pytest.raises(HeadwayError) as error:
        serve.explain(name)
    assert "journal" in error.value.where
    (tmp_path / "away").rename(journal)


def test_the_document_describes_every_route(client, run):
    found = client._json("GET", "/openapi.json")
    assert found["openapi"].startswith("3.1")
    assert json.dumps(found)
    for path in found["paths"]:
        answer = raw(run, f"TRACE {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
        assert answer.split()[1] == b"405", path
