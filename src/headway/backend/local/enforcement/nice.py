"""Enforce shares without cgroups and privileges: replicas run under `nice` and are paced.

A limit is enforced by stopping and continuing the processes (`pacer.py`). Weights are converted to
limits: once a second, the cores of the node are divided by weight, as the kernel would do. A
replica that gets less than it could use is limited to its part.
"""

import os
import subprocess
import sys
from contextlib import suppress
from math import inf
from signal import SIGCONT, SIGKILL
from time import monotonic

from headway.backend import procfs
from headway.backend.local.enforcement.homes import Homes
from headway.backend.usage import UsageSample
from headway.core.fairness.water_filling import share

PUSH = 1.05
"""Replicas are paced to this multiple of the CPU that other processes leave. So they regain CPU
when the others use less."""
LOOK = 0.5
"""Shortest time between two measurements."""
SHORT = 0.9
"""A replica that uses less than this fraction of its rate cannot use more."""


class NiceGroup:
    """The processes of one process group."""

    def __init__(self, owner: "Nice", node: str) -> None:
        self.owner, self.node, self.leader = owner, node, 0
        self.limit: float | None = None
        self.weight = 1.0
        self.rate: float | None = None
        """Rate that the pacer enforces; None: no limit."""
        self.demand = owner.cores(node)
        self.sample = UsageSample()

    def entrances(self) -> tuple[str, ...]:
        return ()

    def lead(self, pid: int) -> None:
        self.leader = pid
        self.owner.groups[pid] = self

    def take(self, pid: int, homes: Homes) -> None:
        del homes
        if os.getpgid(pid) != pid:
            raise PermissionError(f"process {pid} shares its process group with others")
        self.lead(pid)

    def release(self) -> None:
        """Stop managing its processes; `close` does not kill them."""
        self._forget()
        self.leader = 0

    def _forget(self) -> None:
        if self.owner.groups.pop(self.leader, None) is not None:
            self.owner.tell(self.leader, None)

    def set_share(self, limit: float | None, weight: float) -> None:
        self.limit, self.weight = limit, weight
        self.owner.adjust()

    def share(self) -> tuple[float | None, float]:
        return self.limit, self.weight

    def set_memory(self, most: float) -> None:
        """Do nothing: without a cgroup, memory is not limited."""

    def read(self, before: UsageSample | None = None) -> UsageSample:
        del before
        self.owner.look()
        return self.sample

    def saw(self, processes: list[procfs.Stat], elapsed: float) -> None:
        cpu = max(self.sample.cpu, sum(p.cpu for p in processes))
        used = (cpu - self.sample.cpu) / elapsed if elapsed > 0 else 0.0
        given = self.rate if self.rate is not None else self.owner.cores(self.node)
        most = self.owner.cores(self.node)
        if used > 0.95 * (self.demand if self.rate is None else given):
            self.demand = min(most, 1.5 * max(self.demand, used))
        elif used < SHORT * given:
            self.demand = min(most, max(0.05, 1.1 * used))
        self.sample = UsageSample(cpu=cpu, memory=sum(p.memory for p in processes))

    def killed_for_memory(self) -> bool:
        return False

    def pids(self) -> list[int]:
        return [p.pid for p in procfs.groups({self.leader})[self.leader]] if self.leader else []

    def signal(self, number: int) -> None:
        if self.leader:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, number)
            if number == SIGKILL:
                return
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, SIGCONT)  # a stopped process handles no signal

    def close(self) -> bool:
        self._forget()
        left = self.pids()
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, SIGKILL)
        return not left


class Nice:
    """Enforcement for an ordinary user."""

    name = "nice"
    prefix = ("nice", "-n", "5")
    """Replicas yield to the pacer and to interactive users of the machine."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[float, float | None]] = {}
        """Cores of each node, and its limit if it has more CPUs than cores."""
        self.available: dict[str, float] = {}
        """Cores that other processes leave, for nodes on which they use some."""
        self.groups: dict[int, NiceGroup] = {}
        self.looked = 0.0
        self._pacer: subprocess.Popen[bytes] | None = None

    @property
    def place(self) -> dict[str, str]:
        """Empty: there are no cgroups."""
        return {}

    def cores(self, node: str) -> float:
        return self.nodes[node][0]

    def add_node(self, node: str, cores: float, ceiling: float | None) -> None:
        self.nodes[node] = (cores, ceiling)

    def group(self, node: str, name: str) -> NiceGroup:
        del name
        return NiceGroup(self, node)

    def set_available(self, node: str, cores: float) -> None:
        self.available[node] = cores
        self.adjust()

    def used(self) -> dict[int, float] | None:
        """Return the CPU time of each replica; None: they were measured a moment ago."""
        if monotonic() - self.looked < LOOK:
            return None
        self.look()
        return {leader: group.sample.cpu for leader, group in self.groups.items()}

    def look(self) -> None:
        """Measure every replica and adjust its rate, at most every half second."""
        now = monotonic()
        elapsed = now - self.looked
        if elapsed < LOOK:
            return
        self.looked = now
        for leader, processes in procfs.groups(set(self.groups)).items():
            self.groups[leader].saw(processes, elapsed)
        self.adjust()

    def adjust(self) -> None:
        if self._pacer is not None and self._pacer.poll() is not None:  # it was killed
            self._pacer = None
            for group in self.groups.values():
                group.signal(SIGCONT)
                group.rate = None
        for node in self.nodes:
            here = [g for g in self.groups.values() if g.node == node]
            if here:
                self._adjust(node, here)

    def _adjust(self, node: str, here: list[NiceGroup]) -> None:
        alike = len({g.weight for g in here}) == 1 and self.nodes[node][1] is None
        given: list[float | None]
        if alike:
            given = [g.limit for g in here]
        else:
            caps = [min(g.demand, g.limit or g.demand) for g in here]
            cores = min(self.cores(node), PUSH * self.available.get(node, inf))
            shared = share(cores, caps, [g.weight for g in here])
            pairs = zip(here, shared, caps, strict=True)
            given = [rate if rate < cap - 1e-9 else g.limit for g, rate, cap in pairs]
        for group, rate in zip(here, given, strict=True):
            if rate != group.rate:
                self.tell(group.leader, rate)
                group.rate = rate

    def tell(self, leader: int, rate: float | None) -> None:
        if self._pacer is None or self._pacer.poll() is not None:
            if rate is None:
                return
            command = [sys.executable, "-m", "headway.backend.local.enforcement.pacer"]
            # A session of its own: a closed terminal must not end it while jobs are stopped.
            self._pacer = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
            )
            rest = [(g.leader, g.rate) for g in self.groups.values() if g.leader != leader]
            for other, its_rate in rest:
                self.tell(other, its_rate)
        line = f"{leader} {'-' if rate is None else f'{max(rate, 0.001):.4f}'}\n"
        assert self._pacer.stdin is not None  # noqa: S101 - the type checker's
        with suppress(BrokenPipeError):
            self._pacer.stdin.write(line.encode())
            self._pacer.stdin.flush()

    def remove_groups(self) -> None:
        """Nothing to do: it has none."""

    def close(self) -> None:
        if self._pacer is not None and self._pacer.stdin is not None:
            with suppress(BrokenPipeError):
                self._pacer.stdin.close()
            self._pacer.wait()
