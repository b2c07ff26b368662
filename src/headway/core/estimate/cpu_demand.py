"""Estimate how many cores a replica can use, from the CPU that it leaves idle."""

from math import inf
from typing import NamedTuple

from headway.core.model.units import Cores

TOO_LOW = 1.05
"""A replica that uses this multiple of its estimated demand has a larger demand,"""
MARGIN = 1.5
"""which is assumed to be this multiple of what it uses."""


class Demand(NamedTuple):
    cores: Cores
    shown: bool
    """Whether the replica had enough CPU to show its demand."""


def measured_demand(before: Cores, used: Cores, could: Cores, fair: Cores = inf) -> Demand:
    """Return the demand of a replica after an interval in which it used `used` cores on average.

    `could`: what the replica could have used by its weight. `fair`: its fair share, if it got that.
    A replica that leaves much of its fair share idle shows its demand, however small the share is.

    >>> measured_demand(before=1.0, used=0.2, could=0.5)
    Demand(cores=0.2, shown=True)
    >>> measured_demand(before=1.0, used=0.001, could=0.004)  # too little to show its demand
    Demand(cores=1.0, shown=False)
    >>> measured_demand(before=1.0, used=0.05, could=0.1, fair=0.1)
    Demand(cores=0.05, shown=True)
    >>> measured_demand(before=0.2, used=0.24, could=0.25)
    Demand(cores=0.36, shown=True)
    """
    if used <= 0:
        return Demand(before, shown=False)
    shown = could >= 0.8 * before
    if used > TOO_LOW * before:
        return Demand(MARGIN * used, shown)
    enough = used < 0.9 * could and could >= before / 2
    if enough or (used < 0.7 * could and could >= 0.9 * fair):
        return Demand(min(before, used), shown=True)
    return Demand(before, shown)
