"""Measure the demand of jobs: what one of their replicas uses while it does not lack CPU.

That is so if its node has idle CPU, or if it uses clearly less than its weight entitles it to while
no other process competes with the replicas of its node: a process outside Headway takes CPU from
some of them more than from others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from headway.backend.local.enforcement import procfs
from headway.core.model.node import Node
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds

IDLE = 0.1
"""If at least this fraction of a node is idle, no replica on it lacks CPU."""
SATED = 0.8
"""A replica that uses at most this part of what its weight entitles it to does not lack CPU."""
ALONE = 0.95
"""If replicas use this part of a node, or leave it idle, other processes use hardly any of it."""
WINDOW: Seconds = 3.0
"""Shortest time over which the usage of a replica shows its demand."""


@dataclass(slots=True)
class IdleMeter:
    """Idle cores of this machine: what neither Headway nor other programs use."""

    _at: Seconds = inf
    _before: float = 0.0

    def cores(self, now: Seconds) -> Cores:
        """Return the mean since the last call."""
        idle = procfs.idle_time()
        found = (idle - self._before) / (now - self._at) if now > self._at else 0.0
        self._at, self._before = now, idle
        return found


class Used(NamedTuple):
    """What a replica used."""

    node: NodeId
    cpu: Cores
    weight: float = 1.0
    limited: bool = False
    """Whether it has a limit: then it does not show its demand."""


@dataclass(slots=True)
class DemandMeter:
    demand: dict[JobId, Cores] = field(default_factory=dict)
    """Largest demand that a replica of the job has shown."""
    _at: Seconds = inf
    _could: dict[ReplicaId, Cores] = field(default_factory=dict)
    """What the weight of each replica entitled it to at the last call."""
    _windows: dict[ReplicaId, tuple[Seconds, float]] = field(default_factory=dict)
    """Time and core-seconds for which it has not lacked CPU."""

    def add(
        self,
        now: Seconds,
        nodes: Mapping[NodeId, Node],
        used: Mapping[ReplicaId, Used],
        spare: Cores = inf,
    ) -> None:
        """`used`: since the last call. `spare`: cores of the machine that were idle."""
        elapsed, self._at = max(0.0, now - self._at), now
        totals: dict[NodeId, Cores] = {}
        weights: dict[NodeId, float] = {}
        for u in used.values():
            totals[u.node] = totals.get(u.node, 0.0) + u.cpu
            weights[u.node] = weights.get(u.node, 0.0) + u.weight
        before, self._could = self._could, {}
        windows = {}
        for name, u in used.items():
            if u.node not in nodes:
                continue
            node = nodes[u.node]
            cores = node.capacity.cpu
            alone = min(node.available, totals[u.node] + spare) >= ALONE * cores
            self._could[name] = could = cores * u.weight / weights[u.node] if alone else 0.0
            idle = min(cores - totals[u.node], spare) > IDLE * cores
            # It may have had another weight for a part of the time.
            sated = u.cpu <= SATED * min(could, before.get(name, 0.0))
            if (idle or sated) and not u.limited:
                time, work = self._windows.get(name, (0.0, 0.0))
                windows[name] = time + elapsed, work + u.cpu * elapsed
        self._windows = {n: w for n, w in windows.items() if w[0] < WINDOW}
        for name, (time, work) in windows.items():
            if time >= WINDOW:
                self.demand[name.job] = max(work / time, self.demand.get(name.job, 0.0))
