"""Drive a loop in real time: wait for an event, or for the time at which the policy wakes."""

from math import inf
from typing import Any, Protocol

from headway.backend.base import Backend
from headway.core.model.snapshot import Trigger
from headway.core.model.units import Seconds
from headway.runtime.loop import Loop


class Platform(Backend, Protocol):
    """A backend on which events happen in real time."""

    @property
    def over(self) -> bool: ...
    def clock(self) -> Seconds: ...
    def wait(self, timeout: Seconds) -> Trigger | None:
        """Wait for an event and return its trigger; None: timeout."""
        ...


class Watcher(Protocol):
    """An observer with its own interval, for example a display; it decides nothing."""

    @property
    def due(self) -> Seconds: ...
    def look(self, now: Seconds) -> None: ...


def drive(platform: Platform, loop: Loop[Any], watcher: Watcher) -> None:
    """Run the loop until the run is over."""
    wake = 0.0  # the first cycle runs at once
    while not platform.over:
        trigger = platform.wait(min(wake, watcher.due) - platform.clock())
        now = platform.clock()
        if watcher.due <= now:
            watcher.look(now)
        if trigger is None and now < wake:
            continue
        after = loop.step(trigger or Trigger.TICK)
        wake = inf if after is None else platform.clock() + after
