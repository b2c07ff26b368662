"""CPU that processes outside Headway use on this machine, measured and smoothed.

The foreign load is the busy time of the machine minus that of the replicas of this run and of this
process. Steal time (the hypervisor runs other virtual machines) counts as busy. Other runs of
Headway count as foreign.
"""

from collections.abc import Callable, Collection, Mapping
from math import exp
from time import process_time
from typing import Any

from headway.backend.procfs import busy_time
from headway.core.model.units import Cores, CoreSeconds, NodeId, Seconds

EVERY: Seconds = 2.0
"""Interval between two measurements."""
SMOOTH: Seconds = 5.0
"""Time constant of the exponential smoothing."""
NOTICEABLE = 0.05
"""Smallest change that is reported, as a fraction of a core or of the node (the larger one)."""

Accounts = Mapping[Any, CoreSeconds]
"""CPU time by replica."""


class ForeignLoad:
    """Foreign load of the nodes of this machine. Other processes are assumed to use cores that
    belong to no node first. The rest of the load is divided in proportion to the cores of the
    nodes.
    """

    def __init__(
        self,
        nodes: Mapping[NodeId, Cores],
        cpus: Collection[int],
        ours: Callable[[], Accounts | None],
        machine: Callable[[Collection[int]], CoreSeconds] = busy_time,
    ) -> None:
        """`ours`: returns the CPU time of the replicas of this run; None: unknown now."""
        self._nodes, self._cpus, self._ours, self._machine = nodes, cpus, ours, machine
        self._reported = dict.fromkeys(nodes, 0.0)
        self._smoothed: Cores | None = None
        self._last: tuple[Seconds, CoreSeconds, Accounts] | None = None

    def changes(self, now: Seconds) -> dict[NodeId, Cores]:
        """Measure if it is due. Return the load of the nodes on which it has changed noticeably."""
        if self._last is not None and now < self._last[0] + EVERY:
            return {}
        ours = self._ours()
        if ours is None:
            return {}
        before, self._last = self._last, (now, self._machine(self._cpus) - process_time(), ours)
        if before is None or before[2].keys() != ours.keys():
            return {}  # usage of a replica that has started or ended is incomplete
        at, machine, accounts = before
        used = self._last[1] - machine - sum(ours[k] - accounts[k] for k in ours)
        self._smooth(used / (now - at), now - at)
        return self._noticeable()

    def _smooth(self, used: Cores, elapsed: Seconds) -> None:
        used = min(max(0.0, used), float(len(self._cpus)))
        old = used if self._smoothed is None else self._smoothed
        self._smoothed = old + (1 - exp(-elapsed / SMOOTH)) * (used - old)

    def _noticeable(self) -> dict[NodeId, Cores]:
        cores, found = sum(self._nodes.values()), {}
        lost = max(0.0, (self._smoothed or 0.0) - (len(self._cpus) - cores))
        for name, own in self._nodes.items():
            load = round(lost * own / cores, 3)
            if abs(load - self._reported[name]) > NOTICEABLE * max(1.0, own):
                self._reported[name] = found[name] = load
        return found
