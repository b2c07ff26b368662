"""Drive a loop in real time: wait for an event, or until the policy must run."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, Protocol

from headway.backend.live import LiveBackend
from headway.core.model.snapshot import Trigger
from headway.core.model.units import Seconds
from headway.runtime.loop import Loop


class Periodic(Protocol):
    """An observer with its own interval. It decides nothing."""

    @property
    def due(self) -> Seconds: ...

    def look(self, now: Seconds) -> object: ...


def drive(
    backend: LiveBackend,
    loop: Loop[Any],
    sampler: Periodic | None = None,
    then: Callable[[], None] = lambda: None,
) -> None:
    """Run the loop until the run is over. `then` is called after each wait, at least twice a
    second.
    """
    wake = 0.0  # the first cycle runs at once
    while not backend.over:
        due = sampler.due if sampler else inf
        trigger = backend.wait(min(wake, due) - backend.clock())
        now = backend.clock()
        if sampler and due <= now:
            sampler.look(now)
        if trigger is not None or now >= wake:
            after = loop.step(trigger or Trigger.TICK)
            wake = inf if after is None else backend.clock() + after
        then()


@contextmanager
def signal_pipe(handle: Callable[[], None] = lambda: None) -> Iterator[int]:
    """Yield a descriptor that becomes readable at SIGINT and SIGTERM. In this context, these
    signals call `handle` and do not end the process.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    numbers = (signal.SIGINT, signal.SIGTERM)
    old = [signal.signal(n, lambda number, frame: handle()) for n in numbers]
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in zip(numbers, old, strict=True):
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
