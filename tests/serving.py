"""A fixture that starts `headway serve` as a real process, in a data directory of its own."""

import json
import signal
import subprocess
import sys

import pytest
from patience import wait_for

from headway.runtime.run_directory import RunDirectory


def active(data):
    return any(run.locked and (run.path / "wake").exists() for run in RunDirectory.all(data))


@pytest.fixture
def serving(tmp_path, monkeypatch):
    """Start a server, and wait until it is active. Its jobs end when there is a file `go`."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    children = []

    def begin(*options):
        command = [sys.executable, "-m", "headway", "serve", *map(str, options)]
        child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        children.append(child)
        wait_for(lambda: child.poll() is not None or active(tmp_path / "data"))
        return child

    yield begin
    (tmp_path / "go").touch()
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)


def listed(headway, *words):
    """What `ps` shows, by name."""
    ran = headway("ps", *words, "--json")
    assert ran.code == 0, ran.err
    return {job["job"]: job for job in json.loads(ran.out)}


def submit(headway, *words):
    ran = headway("submit", "--json", *words)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["jobs"]
