"""A process that limits jobs to a rate by stopping and continuing them.

It reads lines `LEADER RATE` (leader of a process group; cores, or `-` for no limit). It exits at
the end of its input: if Headway dies, all jobs are continued.
"""

import os
import select
import signal
from contextlib import suppress
from time import monotonic

from headway.backend import procfs

PERIOD = 0.05
SAVED = 0.2
"""Credit that a job may accumulate, in seconds at its rate."""
LOOK = 1.0
"""Seconds between two searches for a job's processes."""


class Paced:
    """A token bucket of a job. Its rate fills the bucket, its CPU usage empties it."""

    def __init__(self, leader: int, rate: float, now: float) -> None:
        self.leader, self.rate, self.at = leader, rate, now
        self.pids = [leader]
        self.credit, self.used = 0.0, self._used()
        self.stopped = False

    def _used(self) -> float:
        return sum(s.cpu for s in map(procfs.stat, self.pids) if s)

    def found(self, pids: list[int]) -> None:
        """Set the present processes. Earlier usage of new ones is not counted."""
        if pids and pids != self.pids:
            self.pids = pids
            self.used = self._used()

    def pace(self, now: float) -> None:
        used = self._used()
        self.credit += self.rate * (now - self.at) - max(0.0, used - self.used)
        self.credit = min(self.credit, self.rate * SAVED)
        self.at, self.used = now, max(used, self.used)
        if self.credit <= 0 and not self.stopped:
            self.signal(signal.SIGSTOP)
        elif self.credit > 0 and self.stopped:
            self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        self.stopped = number == signal.SIGSTOP
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader, number)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it exits at the end of its input
    jobs: dict[int, Paced] = {}
    looked, text = 0.0, b""
    while True:
        ready, _, _ = select.select([0], [], [], PERIOD if jobs else None)
        now = monotonic()
        if ready:
            more = os.read(0, 65536)
            if not more:
                break
            *lines, text = (text + more).split(b"\n")
            for line in lines:
                _told(jobs, line.decode(), now)
        if jobs and now - looked >= LOOK:
            looked = now
            for leader, seen in procfs.groups(set(jobs)).items():
                jobs[leader].found([s.pid for s in seen])
        for job in jobs.values():
            job.pace(now)
    for job in jobs.values():
        job.signal(signal.SIGCONT)


def _told(jobs: dict[int, Paced], line: str, now: float) -> None:
    leader, rate = line.split()
    if rate == "-":
        job = jobs.pop(int(leader), None)
        if job is not None:
            job.signal(signal.SIGCONT)
    elif int(leader) in jobs:
        jobs[int(leader)].rate = float(rate)
    else:
        jobs[int(leader)] = Paced(int(leader), float(rate), now)


if __name__ == "__main__":
    main()
