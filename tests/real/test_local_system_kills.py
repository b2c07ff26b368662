"""A server of which one process or both are killed again and again: each job runs once."""

import os
import signal
from random import Random
from time import sleep

import pytest
from machine_users import ANN, BEN, machine_server
from patience import wait_for

from headway.client import Client

KILLS = 6
NOTES = 'echo "$0 began" >> ledger; sleep 0.2; echo "$0 ended" >> ledger'


@pytest.fixture
def server():
    if os.geteuid():
        pytest.skip("only root can serve several users")
    with machine_server() as made:
        yield made


def accept(server, uid, number):
    """Submit as this user, in a process of it; whether the server has accepted it."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    code = 1
    try:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        spec = {"tasks": [{"command": ["sh", "-c", NOTES, str(number)]}], "backoffLimit": 0}
        with Client(server.socket, timeout=10.0) as client:
            client.submit(
                [{"name": "job", "spec": spec}],
                directory=server.home[uid],
                env={"PATH": "/usr/bin:/bin"},
                key=str(number),
            )
        code = 0
    finally:
        os._exit(code)


def test_every_accepted_job_runs_once_as_its_user_whichever_process_is_killed(server):
    dice, numbers = Random(7), {ANN: [], BEN: []}
    for kill in range(KILLS):
        server.start()
        scheduler = server.scheduler
        for uid in (ANN, BEN, ANN):
            number = kill * 3 + len(numbers[uid])
            wait_for(lambda uid=uid, number=number: accept(server, uid, number))
            numbers[uid].append(number)
            sleep(dice.uniform(0, 0.3))
        for pid in {0: [server.process.pid], 1: [scheduler], 2: [scheduler, server.process.pid]}[
            kill % 3
        ]:
            os.kill(pid, signal.SIGKILL)
        server.process.wait()
        wait_for(lambda pid=scheduler: not os.path.exists(f"/proc/{pid}"))  # noqa: PTH110
    server.start()
    wait_for(lambda: all(job.ended for job in server.jobs().values()), every=0.2)
    found = server.jobs()
    assert {(job.phase, job.reason) for job in found.values()} == {("succeeded", "")}
    assert len(found) == 3 * KILLS
    for uid, mine in numbers.items():
        lines = (server.home[uid] / "ledger").read_text().splitlines()
        assert sorted(lines) == sorted(f"{i} {what}" for i in mine for what in ("began", "ended"))
        assert sum(job.uid == uid for job in found.values()) == len(mine)
