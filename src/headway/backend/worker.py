"""Threads beside the loop: a queue of events for the loop, and a worker for blocking calls."""

import os
import selectors
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TypeVar

from headway.controller.events import Event
from headway.core.model.units import Seconds
from headway.errors import BackendError

T = TypeVar("T")
Then = Callable[[], Iterable[Event]]
"""Function that runs in the thread of the loop and returns events."""


class EventQueue:
    """Events for the thread of the loop, from other threads and from file descriptors."""

    def __init__(self) -> None:
        self._items: deque[Then] = deque()
        self._open, self._closing = True, Lock()
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.watch(self._wake, self._read)

    def put(self, then: Then) -> None:
        """Run a function in the thread of the loop. Callable from any thread. Ignored after
        `close`.
        """
        with self._closing:
            if self._open:
                self._items.append(then)
                os.eventfd_write(self._wake, 1)

    def watch(self, descriptor: int, then: Then) -> None:
        """Run a function in the thread of the loop when the descriptor is readable."""
        self._selector.register(descriptor, selectors.EVENT_READ, then)

    def unwatch(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)

    def wait(self, timeout: Seconds) -> list[Event]:
        """Return events. Wait at most `timeout` for the first one."""
        ready = self._selector.select(max(0.0, timeout))
        return [event for key, _ in ready for event in key.data()]

    def _read(self) -> list[Event]:
        os.eventfd_read(self._wake)
        events: list[Event] = []
        while self._items:
            events += self._items.popleft()()
        return events

    def close(self) -> None:
        with self._closing:
            if self._open:
                self._open = False
                self._selector.close()
                os.close(self._wake)


class Worker:
    """A thread that makes blocking calls in sequence. Results go to the thread of the loop."""

    def __init__(
        self,
        name: str,
        queue: EventQueue,
        crashed: Callable[[Exception], object] | None = None,
        idle: Seconds | None = None,
    ) -> None:
        """`crashed`: called in the worker's thread with an exception that is not a `BackendError`.
        `idle`: the thread ends after this time without a call; the next call starts another one.
        """
        self._name, self._queue, self._crashed, self._idle = name, queue, crashed, idle
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None

    def do(
        self,
        call: Callable[[], T],
        then: Callable[[T], Iterable[Event]] = lambda result: (),
        failed: Callable[[BackendError], Iterable[Event]] = lambda error: (),
    ) -> None:
        """Queue a call. `then` or `failed` runs in the thread of the loop afterwards."""

        def work() -> None:
            try:
                result = call()
            except BackendError as error:
                self._queue.put(partial(failed, error))
            except Exception as error:  # noqa: BLE001 - the outermost guard of this thread
                if self._crashed is not None:
                    self._crashed(error)
                unexpected = BackendError(f"unexpected {type(error).__name__}: {error}")
                self._queue.put(partial(failed, unexpected))
            else:
                self._queue.put(partial(then, result))

        with self._lock:
            self._calls.put(work)
            if self._thread is None:
                self._thread = Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work()

    def _next(self) -> Callable[[], None] | None:
        try:
            return self._calls.get(timeout=self._idle)
        except Empty:
            with self._lock:  # `do` puts a call and looks at the thread under this lock
                if not self._calls.empty():
                    return self._calls.get()
                self._thread = None
        return None

    def close(self) -> None:
        """Stop the thread after the queued calls; wait for it for a few seconds."""
        with self._lock:
            self._calls.put(None)
            thread = self._thread
        if thread is not None:
            thread.join(5.0)
