"""A server that is killed again and again while jobs are submitted: each job runs once."""

import signal
import subprocess
import sys
from random import Random
from time import sleep

from patience import wait_for

from headway.client import Client
from headway.errors import NoServer
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
