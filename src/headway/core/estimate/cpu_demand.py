"""How many cores a replica can use, from what it leaves idle."""

from typing import NamedTuple

from headway.core.model.units import Cores


class Demand(NamedTuple):
    cores: Cores
    shown: bool
    """Whether it had enough CPU to show its demand."""


def measured_demand(before: Cores, used: Cores, could: Cores, meant: Cores) -> Demand:
    """Return the demand of a replica after an interval in which it used `used` cores on average.

    `could`: what it could have used by its weight. What it was meant to get says less: a job that
    sleeps at times may find the CPU in use.

    >>> measured_demand(before=1.0, used=0.2, could=0.5, meant=0.5)
    Demand(cores=0.2, shown=True)
    >>> measured_demand(before=1.0, used=0.1, could=0.1, meant=0.1)  # too little to show more
    Demand(cores=1.0, shown=False)
    >>> measured_demand(before=0.2, used=0.24, could=0.25, meant=0.2)
    Demand(cores=0.36, shown=True)
    """
    if used <= 0:
        return Demand(before, shown=False)
    shown = could >= 0.8 * before
    if used > 1.05 * before:
        return Demand(1.5 * used, shown)
    if used < 0.9 * could and could >= min(before / 2, 0.9 * meant):
        return Demand(min(before, used), shown=True)
    return Demand(before, shown)
