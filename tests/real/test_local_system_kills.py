"""A server of which one process or both are killed again and again: each job runs once."""

import os
import signal
from random import Random
from time import sleep

from machine_users import ANN, BEN
from patience import wait_for

from headway.client import Client

KILLS = 6
NOTES = 'echo "$0 began" >> ledger; sleep 0.2; echo "$0 ended" >> ledger'


def accept(machine, uid, number):
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
        with Client(machine.socket, timeout=10.0) as client:
            client.submit(
                [{"name": "job", "spec": spec}],
                directory=machine.home[uid],
                env={"PATH": "/usr/bin:/bin"},
                key=str(number),
            )
        code = 0
    finally:
        os._exit(code)


def test_every_accepted_job_runs_once_as_its_user_whichever_process_is_killed(machine):
    dice, numbers = Random(7), {ANN: [], BEN: []}
    for kill in range(KILLS):
        machine.start()
        scheduler = machine.scheduler
        for uid in (ANN, BEN, ANN):
            number = kill * 3 + len(numbers[uid])
            wait_for(lambda uid=uid, number=number: accept(machine, uid, number))
            numbers[uid].append(number)
            sleep(dice.uniform(0, 0.3))
        for pid in {0: [machine.process.pid], 1: [scheduler], 2: [scheduler, machine.process.pid]}[
            kill % 3
        ]:
            os.kill(pid, signal.SIGKILL)
        machine.process.wait()
        wait_for(lambda pid=scheduler: not os.path.exists(f"/proc/{pid}"))  # noqa: PTH110
    machine.start()
    wait_for(lambda: all(job.ended for job in machine.jobs().values()), every=0.2)
    found = machine.jobs()
    assert {(job.phase, job.reason) for job in found.values()} == {("succeeded", "")}
    assert len(found) == 3 * KILLS
    for uid, mine in numbers.items():
        lines = (machine.home[uid] / "ledger").read_text().splitlines()
        assert sorted(lines) == sorted(f"{i} {what}" for i in mine for what in ("began", "ended"))
        assert sum(job.uid == uid for job in found.values()) == len(mine)
