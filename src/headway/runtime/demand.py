"""Measure the demand of jobs: the CPU that a replica uses while its node has idle CPU."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from math import inf

from headway.backend import procfs
from headway.core.model.node import Node
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds

IDLE = 0.1
"""Idle fraction of a node from which no replica on it lacks CPU."""
WINDOW: Seconds = 3.0
"""Shortest time in which the usage of a replica shows its demand."""


@dataclass(slots=True)
class IdleMeter:
    """Measures the idle cores of this machine, which no program uses."""

    _at: Seconds = inf
    _before: float = 0.0

    def cores(self, now: Seconds) -> Cores:
        """Return the mean since the last call."""
        idle = procfs.idle_time()
        found = (idle - self._before) / (now - self._at) if now > self._at else 0.0
        self._at, self._before = now, idle
        return found


@dataclass(slots=True)
class DemandMeter:
    demand: dict[JobId, Cores] = field(default_factory=dict)
    """Largest measured demand of a replica of each job."""
    _at: Seconds = inf
    _windows: dict[ReplicaId, tuple[Seconds, float]] = field(default_factory=dict)
    """Time and core-seconds since the CPU of its node became idle."""

    def add(
        self,
        now: Seconds,
        nodes: Mapping[NodeId, Node],
        used: Mapping[ReplicaId, tuple[NodeId, Cores]],
        limited: Container[ReplicaId] = (),
        spare: Cores = inf,
    ) -> None:
        """Add a sample. `used`: node of each replica, and its usage since the last call. `limited`:
        replicas with a limit, which do not show their demand. `spare`: idle cores of the machine.
        """
        elapsed, self._at = max(0.0, now - self._at), now
        totals: dict[NodeId, Cores] = {}
        for node, cpu in used.values():
            totals[node] = totals.get(node, 0.0) + cpu
        windows = {}
        for name, (node, cpu) in used.items():
            cores = nodes[node].capacity.cpu if node in nodes else 0.0
            if min(cores - totals[node], spare) > IDLE * cores and name not in limited:
                time, work = self._windows.get(name, (0.0, 0.0))
                windows[name] = time + elapsed, work + cpu * elapsed
        self._windows = {n: w for n, w in windows.items() if w[0] < WINDOW}
        for name, (time, work) in windows.items():
            if time >= WINDOW:
                self.demand[name.job] = max(work / time, self.demand.get(name.job, 0.0))
