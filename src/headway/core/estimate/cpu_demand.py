"""Estimate how many cores a replica can use, from the CPU that it leaves idle."""

from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

from headway.core.model.job import Replica
from headway.core.model.units import SLACK, Cores, CoreSeconds, ReplicaId, Seconds

MEASURED: Seconds = 0.5
"""Shortest time that shows how much a replica can use."""
NOISE: CoreSeconds = 0.05
"""A replica that got less than its share by so little may have waited for its turn: a kernel gives
a core for some milliseconds at a time.
"""
MOSTLY = 0.9
TOO_LOW = 1.05
"""A replica that uses this multiple of its estimated demand has a larger demand,"""
MARGIN = 1.5
"""which is assumed to be this multiple of what it uses."""


class Demand(NamedTuple):
    cores: Cores
    shown: bool
    """Whether the replica had enough CPU to show its demand."""


def usage_since(
    replicas: Iterable[Replica], since: Seconds, now: Seconds
) -> dict[ReplicaId, Cores]:
    """Return what replicas used since a time, if their last report is about exactly that time."""
    found = {}
    for r in replicas:
        last = r.history.windows[-1] if r.history.windows else None
        if last is None or last.cpu is None or last.at < now or last.since < since - SLACK:
            continue
        found[r.id] = last.cpu
    return found


def part_left(
    replicas: Iterable[Replica],
    used: Mapping[ReplicaId, Cores],
    could: Mapping[ReplicaId, Cores],
    cores: Cores,
) -> float:
    """Return which part of the `cores` of a node other processes left: replicas used it, or it
    stayed idle. The foreign load shows this later only, and smoothed. 1 if it is unknown, because
    most of the cores were for replicas whose usage is not known.

    `used`: of these replicas. `could`: what they could have used by their weights.
    """
    idle = next((r.usage.idle for r in replicas if r.id in used and r.usage), None)
    total = sum([could.get(n, 0.0) for n in used])
    if idle is None or total <= MOSTLY * cores:
        return 1.0
    return min(1.0, (sum(used.values()) + idle) / total)


def declared_demand(declared: Cores, used: Cores | None) -> Cores:
    """Return the demand of a replica: as declared, unless it used more."""
    return MARGIN * used if used and used > TOO_LOW * declared else declared


def measured_demand(
    before: Cores, used: Cores, could: Cores, fair: Cores = inf, *, time: Seconds = inf
) -> Demand:
    """Return the demand of a replica after a time in which it used `used` cores on average.

    `could`: what the replica could have used by its weight, of the CPU that other processes left.
    `fair`: its fair share, if it got that.
    A replica that leaves much of its fair share idle shows its demand, however small the share is.

    >>> measured_demand(before=1.0, used=0.2, could=0.5)
    Demand(cores=0.2, shown=True)
    >>> measured_demand(before=1.0, used=0.001, could=0.004)  # too little to show its demand
    Demand(cores=1.0, shown=False)
    >>> measured_demand(before=1.0, used=0.05, could=0.1, fair=0.1)
    Demand(cores=0.05, shown=True)
    >>> measured_demand(before=1.0, used=0.05, could=0.08, fair=0.08, time=1.0)  # noise
    Demand(cores=1.0, shown=False)
    >>> measured_demand(before=0.2, used=0.24, could=0.25)
    Demand(cores=0.36, shown=True)
    """
    if used <= 0:
        return Demand(before, shown=False)
    shown = could >= 0.8 * before
    if used > TOO_LOW * before:
        return Demand(MARGIN * used, shown)
    enough = used < 0.9 * could and could >= before / 2
    if (could - used) * time < NOISE:
        return Demand(before, shown)
    if enough or (used < 0.7 * could and could >= 0.9 * fair):
        return Demand(min(before, used), shown=True)
    return Demand(before, shown)
