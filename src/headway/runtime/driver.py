"""The driver that waits: for what happens, or for when the policy wants to be woken."""

from math import inf
from typing import Any, Protocol

from headway.backend.base import Backend
from headway.core.model.snapshot import Trigger
from headway.core.model.units import Seconds
from headway.runtime.loop import Loop


class Platform(Backend, Protocol):
    """A backend whose world moves by itself."""

    @property
    def over(self) -> bool: ...
    def clock(self) -> Seconds: ...
    def wait(self, timeout: Seconds) -> Trigger | None:
        """Sleep until something happens, and say what; None: nothing did."""
        ...


class Watcher(Protocol):
    """Somebody who looks on, at times of its own; it decides nothing."""

    @property
    def due(self) -> Seconds: ...
    def look(self, now: Seconds) -> None: ...


def drive(platform: Platform, loop: Loop[Any], watcher: Watcher) -> None:
    """Step through a run to its end."""
    wake = 0.0  # the first cycle comes at once
    while not platform.over:
        trigger = platform.wait(min(wake, watcher.due) - platform.clock())
        now = platform.clock()
        if watcher.due <= now:
            watcher.look(now)
        if trigger is None and now < wake:
            continue
        after = loop.step(trigger or Trigger.TICK)
        wake = inf if after is None else platform.clock() + after
