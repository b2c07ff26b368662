"""Claim CPUs and blocks of ports, so that Headway processes of this machine use different ones.

A claim is an abstract socket. It needs no folder and no privilege, is visible to all users, and
ends with its process. Any local user can create one. Therefore a claim is only a preference:
claimed CPUs and ports are used if there are no others.
"""

import json
import socket
from collections.abc import Collection, Iterable
from contextlib import suppress
from itertools import product
from pathlib import Path
from zlib import crc32

from headway.backend import durable
from headway.backend.replica_env import is_distributed, port_count
from headway.core.model.units import JobId
from headway.spec.runnable import RunnableJob

FIRST, LAST = 20000, 30000
"""Range of ports for distributed jobs, below the ephemeral ports of the kernel."""
BLOCK = 16
"""Number of ports that are claimed together."""


class Claims:
    def __init__(self) -> None:
        self._held: dict[str, socket.socket] = {}

    def take(self, name: str) -> bool:
        """Claim a name. Return False if another process has claimed it."""
        if name in self._held:
            return True
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0headway-{name}")
        except OSError:
            claim.close()
            return False
        self._held[name] = claim
        return True

    def release(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(KeyError):
                self._held.pop(name).close()

    def close(self) -> None:
        self.release(list(self._held))


class Ports:
    """Blocks of ports for the distributed jobs of a run. A job keeps its block until it
    has ended.
    """

    def __init__(self, run: Path, claims: Claims) -> None:
        self._run, self._claims = run.name, claims
        self._path = run / "ports.json"
        self._blocks: dict[JobId, tuple[int, int]] = {}
        """First port and number of ports of each job."""
        with suppress(OSError, ValueError, TypeError):
            stored = json.loads(self._path.read_text())
            self._blocks = {JobId(job): (int(a), int(n)) for job, (a, n) in stored.items()}
        for block in self._blocks.values():  # another run may have claimed them meanwhile
            for name in _names(*block):
                claims.take(name)

    def of(self, job: JobId, count: int, running: Collection[JobId]) -> int:
        """Return the first of `count` ports. `running`: jobs whose ports are in use; the ports of
        other jobs are released.

        A job that is not running gets other ports if a program has taken one of its ports.
        """
        if job in self._blocks and self._blocks[job][1] >= count:
            first = self._blocks[job][0]
            if job in running or all(map(_is_free, range(first, first + count))):
                return first
        for old in [name for name in self._blocks if name not in running]:
            self._claims.release(_names(*self._blocks.pop(old)))
        wanted = -(-count // BLOCK) * BLOCK
        places = (LAST - FIRST - wanted) // BLOCK + 1
        begin = crc32(f"{self._run} {job}".encode())
        for alone, i in product((True, False), range(places)):
            first = FIRST + (begin + i) % places * BLOCK
            if self._claim(first, wanted, alone=alone):
                self._blocks[job] = first, wanted
                durable.write(self._path, json.dumps(self._blocks))
                return first
        raise OSError(f"no {count} free ports between {FIRST} and {LAST}")

    def _claim(self, first: int, count: int, *, alone: bool) -> bool:
        """Claim these ports. `alone`: only if no other process has claimed one of them."""
        names = _names(first, count)
        ours = {name for block in self._blocks.values() for name in _names(*block)}
        if ours & set(names):
            return False
        taken = [name for name in names if self._claims.take(name)]
        usable = len(taken) == len(names) or not alone
        if usable and all(map(_is_free, range(first, first + count))):
            return True
        self._claims.release(taken)
        return False


def ports_of(ports: Ports, job: RunnableJob, running: Collection[JobId], times: int = 1) -> int:
    """Return the first port for all replicas of a job; 0 if it has one replica. `times`: 2 with a
    relay.
    """
    if not is_distributed(job.spec):
        return 0
    return ports.of(job.id, times * port_count(job.spec), running)


def _names(first: int, count: int) -> list[str]:
    return [f"port-{port}" for port in range(first, first + count, BLOCK)]


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
