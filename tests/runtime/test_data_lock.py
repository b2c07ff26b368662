"""The lock of a data directory: between a server that starts, a second one, and its clients."""

import os
import subprocess
import sys
from subprocess import PIPE
from threading import Event, Thread

import pytest

from headway.errors import NoServer
from headway.runtime import run_status
from headway.runtime.data_lock import lock_data
from headway.runtime.run_status import active_server
from headway.runtime.server import start_server
from headway.runtime.submissions import Submissions
from headway.server.listener import Listener

WAITS = "until [ -e go ]; do sleep 0.1; done"
HEADWAY = [sys.executable, "-m", "headway"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def lock(data):
    """The lock of a server that has just been started."""
    return lock_data(data)


def test_a_second_server_is_refused_before_slow_imports(lock):
    words = [sys.executable, "-X", "importtime", "-m", "headway", "serve"]
    second = subprocess.run(words, capture_output=True, text=True, check=False)
    os.close(lock)
    modules = {line.rpartition("|")[2].strip() for line in second.stderr.splitlines()}
    assert second.returncode == 2
    assert "headway: a server is already active" in second.stderr
    assert not modules & {"pydantic", "starlette", "uvicorn"}


def test_a_submission_waits_for_a_server_that_has_just_been_started(data, lock):
    words = [*HEADWAY, "submit", "--", "true"]
    with subprocess.Popen(words, stdout=PIPE, stderr=PIPE, text=True) as client:
        assert client.stderr.readline() == "waiting for the server, which is starting\n"
        server = start_server(data, "fair", lock=lock)
        with Listener(server):
            assert client.communicate(timeout=60)[0] == "true\n"
    assert [job.id for job in Submissions(server.run.folder.path).after(0)] == ["true"]
    server.run.backend.close()
    server.run.journal.close()
    server.submissions.close()
    server.run.folder.unlock()


def test_a_submission_does_not_wait_for_ever(lock, headway, monkeypatch):
    monkeypatch.setattr(run_status, "STARTING", 0.2)
    ran = headway("submit", "--", "true")
    os.close(lock)
    assert (ran.code, "not started within 0.2 s" in ran.err) == (3, True)
    assert headway("submit", "--", "true").code == 4


def test_a_server_that_is_started_just_after_its_client_is_found(data, monkeypatch):
    monkeypatch.setattr(run_status, "LOOKED_FOR", 10.0)
    waits, refused = Event(), []

    def look():
        try:
            active_server(data, waits.set)
        except NoServer as error:
            refused.append(error.message)

    client = Thread(target=look)
    client.start()
    assert not waits.wait(0.2)
    lock = lock_data(data)
    assert waits.wait(30)
    monkeypatch.setattr(run_status, "LOOKED_FOR", 0.0)
    os.close(lock)
    client.join()
    assert refused == ["no server is active"]


def test_a_server_that_starts_again_is_not_said_to_be_stopped(serving, headway, tmp_path):
    first = serving()
    assert headway("submit", "--name", "x", "--", "sh", "-c", WAITS).code == 0
    first.kill()
    first.communicate()
    assert "the server is stopped; its jobs continue" in headway("ps").err
    assert headway("wait").code == 4
    lock = lock_data(tmp_path / "data")
    assert headway("ps").err == ""
    assert headway("wait", "--timeout", "0.1").code == 3
    os.close(lock)
    serving()
    (tmp_path / "go").touch()
    assert headway("wait").code == 0
    assert headway("wait", "nosuch").err.endswith("there are: x\n")
