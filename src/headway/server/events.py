"""Changes of jobs, for the clients that listen: server-sent events."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace

from headway.core.model.units import Seconds
from headway.runtime.job_status import JobStatus

KEPT = 1000
"""Events that a client which connects again can still get."""
BEHIND = 1000
"""Events that a slow client may be behind; then its connection ends, and it connects again."""
ALIVE: Seconds = 15.0
"""Between two comments, by which a client knows that the connection is alive."""


class Changes:
    """Used in the thread of the API."""

    def __init__(self) -> None:
        self._last = 0
        self._kept: deque[tuple[int, str]] = deque(maxlen=KEPT)
        self._known: dict[str, JobStatus] = {}
        self._listeners: set[asyncio.Queue[tuple[int, str] | None]] = set()

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def update(self, jobs: Iterable[JobStatus]) -> None:
        """Tell what differs from the last time."""
        known = {job.job: job for job in jobs}
        for name, job in known.items():
            before = self._known.get(name)
            if before is None or replace(before, at_s=0.0) != replace(job, at_s=0.0):
                self.tell(job)
        self._known = known

    def tell(self, job: JobStatus) -> None:
        self._last += 1
        text = f"id: {self._last}\nevent: job\ndata: {json.dumps(job.plain())}\n\n"
        self._kept.append((self._last, text))
        for queue in self._listeners:
            if queue.qsize() < BEHIND:
                queue.put_nowait((self._last, text))
            else:
                queue.put_nowait(None)

    def close(self) -> None:
        for queue in self._listeners:
            queue.put_nowait(None)

    async def listen(self, after: int | None) -> AsyncIterator[str]:
        """Yield what changes from now on; `after`: and what is kept since this event."""
        queue: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue()
        self._listeners.add(queue)
        missed = [] if after is None else [text for n, text in self._kept if n > after]
        try:
            yield ": connected\n\n"
            for text in missed:
                yield text
            while True:
                try:
                    async with asyncio.timeout(ALIVE):
                        found = await queue.get()
                except TimeoutError:
                    yield ": alive\n\n"
                    continue
                if found is None:
                    return
                yield found[1]
        finally:
            self._listeners.discard(queue)
