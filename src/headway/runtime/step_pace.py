"""Steps per second of a replica at its present share, including its waiting times."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from headway.core.model.units import Cores, CoreSeconds, Seconds

KEPT = 20
"""Number of marks."""
ENOUGH = 3
"""Number of marks at the present share from which earlier marks are ignored."""
LATE = 2.0
"""The rate is reduced when a step takes this multiple of the mean time of a step."""
OTHER = 0.1
"""Relative difference from which a share counts as changed."""


class _Mark(NamedTuple):
    at: Seconds
    step: float
    used: CoreSeconds


@dataclass(slots=True)
class StepPace:
    _marks: deque[_Mark] = field(default_factory=lambda: deque(maxlen=KEPT))
    """Marks at which a new step was seen or the share was changed."""
    _share: float = 0.0
    _since: Seconds = 0.0
    """Time at which the share was changed."""

    def add(self, at: Seconds, step: float, used: CoreSeconds, share: float) -> None:
        """Add a sample. `used`: total CPU time. `share`: cores if all replicas use what
        they can.
        """
        if self._marks and step < self._marks[-1].step:
            self._marks.clear()
        other = abs(share - self._share) > OTHER * max(share, self._share)
        if other:
            self._share, self._since = share, at
        if other or not self._marks or step > self._marks[-1].step:
            self._marks.append(_Mark(at, step, used))

    def rate(self, now: Seconds, used: CoreSeconds) -> tuple[float, Cores] | None:
        """Return steps per second, and the cores used meanwhile; None: unknown."""
        fresh = [mark for mark in self._marks if mark.at >= self._since]
        marks = fresh if len(fresh) >= ENOUGH else list(self._marks)
        if len(marks) < 2 or marks[-1].step <= marks[0].step:
            return None
        first, last = marks[0], marks[-1]
        if now - last.at > LATE * (last.at - first.at) / (len(marks) - 1):
            last = last._replace(at=now, used=used)
        passed = last.at - first.at
        return (last.step - first.step) / passed, max(0.0, last.used - first.used) / passed
