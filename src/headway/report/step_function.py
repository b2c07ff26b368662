"""Step functions: lists of (time, value), where a value holds until the next time."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, pairwise

from headway.core.model.units import Seconds
from headway.sim.timeline import Line


def total(lines: Iterable[Line]) -> Line:
    """The sum of step functions, each of which is 0 before its first time."""
    changes = sorted(
        (at, value - before)
        for line in lines
        for (at, value), before in zip(line, (0.0, *(v for _, v in line)), strict=False)
    )
    sums = accumulate(change for _, change in changes)
    return [(at, value) for (at, _), value in zip(changes, sums, strict=True)]


class Integral:
    """The integral of a step function from its first time to any later one."""

    def __init__(self, line: Line) -> None:
        self._line = line
        areas = (value * (b - a) for (a, value), (b, _) in pairwise(line))
        self._sums = list(accumulate(areas, initial=0.0))

    def at(self, moment: Seconds) -> float:
        i = bisect_right(self._line, moment, key=lambda point: point[0]) - 1
        if i < 0:
            return 0.0
        since, value = self._line[i]
        return self._sums[i] + value * (moment - since)
