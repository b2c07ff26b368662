"""A server that is killed again and again while jobs are submitted, or whose disk fails: each job
runs once.
"""

import re
import signal
import subprocess
import sys
from contextlib import suppress
from random import Random
from time import sleep

import pytest
from campaign.places import LosesPower, SmallDisk, able, opened
from patience import wait_for

from headway.client import Client
from headway.errors import HeadwayError, NoServer
from headway.runtime.run_directory import RunDirectory
from headway.runtime.submissions import Submissions

KILLS = 5
NOTES = """
import os, sys, time
def note(what):
    file = os.open("ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{sys.argv[1]} {what}\\n".encode())
    os.close(file)
note("began")
end = time.process_time() + 0.1
while time.process_time() < end: pass
note("ended")
"""


def serve():
    return subprocess.Popen([sys.executable, "-m", "headway", "serve"], stderr=subprocess.DEVNULL)


def test_every_accepted_job_runs_once_however_often_the_server_is_killed(
    tmp_path, monkeypatch, enforcement
):
    del enforcement
    data, dice = tmp_path / "data", Random(7)
    monkeypatch.setenv("HEADWAY_DATA", str(data))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.py").write_text(NOTES)
    accepted = []

    def accept():
        command = [sys.executable, "job.py", str(len(accepted))]
        job = {"name": "job", "spec": {"tasks": [{"command": command}], "backoffLimit": 0}}
        try:
            with Client.of(data) as client:
                accepted.extend(client.submit([job], key=str(len(accepted))))
        except NoServer:  # it is starting
            return False
        return True

    for _ in range(KILLS):
        server = serve()
        for _ in range(3):
            wait_for(accept)
            sleep(dice.uniform(0, 0.3))
        server.send_signal(signal.SIGKILL)
        server.wait()
    server = serve()
    [run] = RunDirectory.all(data)
    wait_for(lambda: not Submissions(run.path).unfinished(), every=0.1)
    server.send_signal(signal.SIGTERM)
    server.wait()
    lines = (tmp_path / "ledger").read_text().splitlines()
    numbers = range(len(accepted))
    assert sorted(lines) == sorted(f"{i} {what}" for i in numbers for what in ("began", "ended"))
    assert len(set(accepted)) == 3 * KILLS
    assert {job.outcome for job in Submissions(run.path).after(0)} == {"succeeded"}


WAITS = "echo began >> ledger; while [ ! -e go ]; do sleep 0.1; done; echo ended >> ledger"


@pytest.fixture(params=[SmallDisk, LosesPower], ids=["full", "read-only"])
def disk(request):
    if not able(request.param):
        pytest.skip("no loop device here: run as root")
    with opened(request.param) as made:
        yield made


def test_a_disk_that_fails_is_reported_and_harms_no_running_job(disk, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_DATA", str(disk.data))
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.chdir(tmp_path)
    job = {"name": "job", "spec": {"tasks": [{"command": ["sh", "-c", WAITS]}], "backoffLimit": 0}}
    ledger = tmp_path / "ledger"

    def submit():
        with suppress(NoServer), Client.of(disk.data) as client:  # it is starting
            return client.submit([job])
        return []

    words = [sys.executable, "-m", "headway", "serve"]
    with (tmp_path / "serve.log").open("w") as told:
        server = subprocess.Popen(words, stderr=told)
    try:
        assert wait_for(submit) == ["job"]
        wait_for(ledger.exists)
        disk.fill(0) if isinstance(disk, SmallDisk) else disk.fail()
        with pytest.raises(HeadwayError) as refused, Client.of(disk.data) as client:
            client.submit([job])
        if isinstance(disk, SmallDisk):
            assert refused.value.message == "the disk is full (ENOSPC)"
        (tmp_path / "go").touch()
        wait_for(lambda: ledger.read_text() == "began\nended\n")
        reported = re.compile("No space left on device|Read-only file system|disk is full")
        wait_for(lambda: reported.search((tmp_path / "serve.log").read_text()))
        if isinstance(disk, SmallDisk):
            disk.relieve()
            if server.poll() is not None:  # it could not write its journal
                server = serve()
            [run] = RunDirectory.all(disk.data)
            wait_for(lambda: not Submissions(run.path).unfinished(), every=0.1)
            assert [job.outcome for job in Submissions(run.path).after(0)] == ["succeeded"]
            assert ledger.read_text() == "began\nended\n"
    finally:
        (tmp_path / "go").touch()
        server.terminate()
        server.wait()
    assert "Traceback" not in (tmp_path / "serve.log").read_text()
