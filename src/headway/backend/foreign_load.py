"""CPU that processes outside Headway use on this machine, measured and smoothed.

It is the busy time of the machine, minus that of our replicas and of this process. Time that the
hypervisor gives to other virtual machines (steal) counts as used. Another run of Headway counts as
foreign.
"""

from collections.abc import Callable, Collection, Mapping
from math import exp
from time import process_time
from typing import Any

from headway.backend.procfs import busy_time
from headway.core.model.units import Cores, CoreSeconds, NodeId, Seconds

EVERY: Seconds = 2.0
"""Between two measurements."""
SMOOTH: Seconds = 5.0
"""Time constant of the exponential smoothing."""
NOTICEABLE = 0.05
"""Smallest change that is reported, as a part of a core or of the node, whichever is larger."""

Accounts = Mapping[Any, CoreSeconds]
"""CPU time by replica."""


class ForeignLoad:
    """The nodes of one machine lose CPU in proportion to their cores. Cores of the machine that
    belong to no node are used by other processes first.
    """

    def __init__(
        self,
        nodes: Mapping[NodeId, Cores],
        cpus: Collection[int],
        ours: Callable[[], Accounts | None],
        machine: Callable[[Collection[int]], CoreSeconds] = busy_time,
    ) -> None:
        """`ours`: what our replicas have used; None: it cannot be measured now."""
        self._nodes, self._cpus, self._ours, self._machine = nodes, cpus, ours, machine
        self._reported = dict.fromkeys(nodes, 0.0)
        self._smoothed: Cores | None = None
        self._last: tuple[Seconds, CoreSeconds, Accounts] | None = None

    def changes(self, now: Seconds) -> dict[NodeId, Cores]:
        """Measure if it is due; return the load of the nodes on which it changed noticeably."""
        if self._last is not None and now < self._last[0] + EVERY:
            return {}
        ours = self._ours()
        if ours is None:
            return {}
        before, self._last = self._last, (now, self._machine(self._cpus) - process_time(), ours)
        if before is None or before[2].keys() != ours.keys():
            return {}  # of a replica that has started or ended, a part would be missing
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
