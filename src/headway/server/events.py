"""Changes of jobs, for the clients that listen: server-sent events."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from time import time

from headway.core.model.units import Seconds
from headway.runtime.job_status import JobStatus
from headway.server.access import Caller, seen_by

KEPT = 1000
"""Events that a client which connects again can still get."""
BEHIND = 100_000
"""Jobs with changes that a client has not read; then its connection ends, and it connects again."""
ALIVE: Seconds = 15.0
"""Interval of comments, which show a client that the connection is alive."""


class _Listener:
    """The last change of each job that its client has not read."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.unread: dict[str, str] = {}
        self.over = False
        self.woken = asyncio.Event()

    def add(self, number: int, job: JobStatus) -> None:
        self.unread.pop(job.job, None)  # the order is that of the last changes
        self.unread[job.job] = self.shown(number, job)
        self.over = self.over or len(self.unread) > BEHIND
        self.woken.set()

    def shown(self, number: int | None, job: JobStatus) -> str:
        data = json.dumps(seen_by(self.caller, job).plain())
        numbered = "" if number is None else f"id: {number}\n"
        return f"{numbered}event: job\ndata: {data}\n\n"

    def take(self) -> list[str]:
        self.woken.clear()
        found, self.unread = list(self.unread.values()), {}
        return found

    def end(self) -> None:
        self.over = True
        self.woken.set()


class Changes:
    """Used in the thread of the API. The number of an event is the time of day in milliseconds, or
    one more than the last one: the numbers of the next server are higher.
    """

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._last = self._lost = self._number(0)
        """The last event, and the last that is not kept."""
        self._kept: deque[tuple[int, JobStatus]] = deque(maxlen=KEPT)
        self._known: dict[str, JobStatus] = {}
        self._listeners: set[_Listener] = set()

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def listeners_of(self, caller: Caller) -> int:
        return sum(listener.caller.uid == caller.uid for listener in self._listeners)

    def update(self, jobs: Iterable[JobStatus]) -> None:
        """Publish the jobs that differ from the last update."""
        known = {job.job: job for job in jobs}
        for name, job in known.items():
            before = self._known.get(name)
            if before is None or replace(before, at_s=0.0) != replace(job, at_s=0.0):
                self.publish(job)
        self._known = known

    def _number(self, before: int) -> int:
        return max(before, int(self._clock() * 1000))

    def has_all_since(self, event: int) -> bool:
        """Whether each event after this one is kept."""
        return self._lost <= event <= self._last

    def publish(self, job: JobStatus) -> None:
        self._last = self._number(self._last + 1)
        if len(self._kept) == KEPT:
            self._lost = self._kept[0][0]
        self._kept.append((self._last, job))
        if job.ended:
            self._known.pop(job.job, None)
        for listener in self._listeners:
            listener.add(self._last, job)

    def close(self) -> None:
        for listener in self._listeners:
            listener.end()

    async def listen(
        self, after: int | None, caller: Caller, ended: Sequence[JobStatus] = ()
    ) -> AsyncIterator[str]:
        """Yield what changes from now on, of a job that has changed several times meanwhile only
        the last change; `after`: and what has changed since this event. If that is not known, all
        jobs that have not ended, after those that have `ended` meanwhile.
        """
        listener = _Listener(caller)
        self._listeners.add(listener)
        kept = [] if after is None else [(n, job) for n, job in self._kept if n > after]
        missed = [listener.shown(n, job) for n, job in kept]
        if after is not None and not self.has_all_since(after):
            meanwhile = [job for _, job in self._kept if job.ended]
            unknown = [*ended, *meanwhile, *self._known.values()]
            # Numbered only at the end: if the connection is lost before, all of it is sent again.
            missed = [*(listener.shown(None, job) for job in unknown), f"id: {self._last}\n\n"]
        try:
            yield ": connected\n\n"
            for text in missed:
                yield text
            while True:
                try:
                    async with asyncio.timeout(ALIVE):
                        await listener.woken.wait()
                except TimeoutError:
                    yield ": alive\n\n"
                    continue
                over = listener.over
                for text in listener.take():
                    yield text
                if over:
                    return
        finally:
            self._listeners.discard(listener)
