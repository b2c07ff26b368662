"""Steps per second of a replica at its present share: by time, so that sleeping and waiting for IO
count too.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from headway.core.model.units import Cores, CoreSeconds, Seconds

KEPT = 20
"""Number of marks."""
ENOUGH = 3
"""Marks at the present share by which it is judged; with fewer of them, those before count too."""
LATE = 2.0
"""A step that takes so many times as long as those before makes the pace slower."""
OTHER = 0.1
"""A share that differs by more is another one."""


class _Mark(NamedTuple):
    at: Seconds
    step: float
    used: CoreSeconds


@dataclass(slots=True)
class StepPace:
    _marks: deque[_Mark] = field(default_factory=lambda: deque(maxlen=KEPT))
    """When a new step was seen, or the share was changed."""
    _share: float = 0.0
    _since: Seconds = 0.0
    """When its share was changed."""

    def add(self, at: Seconds, step: float, used: CoreSeconds, share: float) -> None:
        """Note a sample. `used`: CPU time in all; `share`: cores if all use what they can."""
        if self._marks and step < self._marks[-1].step:
            self._marks.clear()
        other = abs(share - self._share) > OTHER * max(share, self._share)
        if other:
            self._share, self._since = share, at
        if other or not self._marks or step > self._marks[-1].step:
            self._marks.append(_Mark(at, step, used))

    def rate(self, now: Seconds, used: CoreSeconds) -> tuple[float, Cores] | None:
        """Steps per second, and the cores used meanwhile; None: unknown."""
        fresh = [mark for mark in self._marks if mark.at >= self._since]
        marks = fresh if len(fresh) >= ENOUGH else list(self._marks)
        if len(marks) < 2 or marks[-1].step <= marks[0].step:
            return None
        first, last = marks[0], marks[-1]
        if now - last.at > LATE * (last.at - first.at) / (len(marks) - 1):
            last = last._replace(at=now, used=used)
        passed = last.at - first.at
        return (last.step - first.step) / passed, max(0.0, last.used - first.used) / passed
