"""What a hostile client sends, and what a hostile job prints, costs the server little."""

import json
import os
import resource
import socket
import tracemalloc
from http.client import HTTPConnection

import pytest

from headway.backend.report_channel import Reporter
from headway.client import BASE, Client
from headway.client_connection import short_path
from headway.core.model.units import ReplicaId
from headway.errors import BackendError, ConfigError, Unreachable
from headway.metrics.http_reports import SDK
from headway.runtime.server import start_server
from headway.runtime.submissions import Submissions
from headway.server import app
from headway.server.listener import Listener
from headway.server.report_app import ReportApp

JOB = {"name": "x", "spec": {"tasks": [{"command": ["true"]}]}}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The folder of a server whose API answers, and whose loop does not run."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    server = start_server(tmp_path / "data", "fair")
    with Listener(server):
        yield server.run.folder.path
    server.run.backend.close()
    server.run.journal.close()
    server.submissions.close()
    server.run.folder.unlock()


@pytest.fixture
def client(run):
    with Client(run, timeout=20.0) as made:
        yield made


def post(run, path, data):
    """The status of the answer, and the answer."""
    connection = HTTPConnection("headway", timeout=30.0)
    with socket.socket(socket.AF_UNIX) as made, short_path(run) as address:
        made.settimeout(30.0)
        made.connect(address)
        connection.sock = made
        connection.request("POST", f"{BASE}{path}", data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def body(**fields):
    return json.dumps({"jobs": [JOB], "directory": "/", **fields}).encode()


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (body().decode().encode("utf-16"), 400),
        (body(env={"A": "?"}).replace(b"?", b"\xed\xa0\x80"), 400),  # half of a pair, as UTF-8
        (body(env={"A": "?"}).replace(b"?", b"\xff"), 400),
        (body(jobs=[{**JOB, "at": 10**600}]), 422),
        (body(jobs=[{**JOB, "spec": {**JOB["spec"], "backoffLimit": 10**600}}]), 422),
    ],
)
def test_a_body_is_utf_8_and_its_integers_are_bounded(run, sent, expected):
    status, found = post(run, "/jobs", sent)
    assert (status, found["status"]) == (expected, expected)
    assert Submissions(run).after(0) == []


@pytest.mark.parametrize(
    "fields", [{"x" * 10**6: 1}, {"env": {"=" * 10**6: ""}}, {"env": {"x" * 10**6: 1}}]
)
def test_a_long_name_is_not_repeated_in_the_answer(run, fields):
    status, found = post(run, "/jobs", body(**fields))
    assert status == 400
    assert len(json.dumps(found)) < 1000


def test_a_manifest_that_is_a_pipe_holds_nothing_up(client, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="not a regular file"):
        client.submit([{"name": "x", "manifest": "pipe"}], directory=tmp_path)


def test_of_endless_lines_only_the_end_is_read(client, run, monkeypatch):
    """A carriage return ends a line too: 60 MB of them took a gigabyte and 16 s."""
    monkeypatch.setattr(app, "MAX_OUTPUT", 2**16)
    [name] = client.submit([JOB], directory="/")
    folder = run / "jobs" / name / "main-0"
    folder.mkdir(parents=True)
    for end in (b"\r", b"x"):
        (folder / "out.log").write_bytes(b"first\n" + end * 2**23)
        tracemalloc.start()
        found = client.logs(name, lines=10)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 2**22
        assert len(found) in (1, 10)
        assert "first" not in found


def test_a_request_that_cannot_be_stored_is_no_defect(client, run):
    [name] = client.submit([JOB], directory="/")
    (run / "requests").write_text("in the way of a folder")
    with pytest.raises(BackendError, match="File exists"):
        client.cancel(name)


def test_an_explanation_that_takes_too_long_is_no_defect(client, monkeypatch):
    monkeypatch.setattr(app, "EXPLAINED", 0.01)
    [name] = client.submit([JOB], directory="/")
    with pytest.raises(Unreachable, match="no explanation within"):
        client.explain(name)


def test_a_report_that_is_stored_in_part_is_not_accepted(run):
    reporter = Reporter(ReplicaId("x/main-0"), "loss")
    folder = run / "jobs" / "x" / "main-0"
    folder.mkdir(parents=True)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    reports = ReportApp(run)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="No space left"):
            reports.take(SDK, reporter, {"reports": [{"step": 1}] * 50})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert reports.counts.total() == 0
