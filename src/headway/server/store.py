"""The submissions of a server, for its API: one thread that writes, and one that reads.

While a transaction is being synced, submissions that arrive meanwhile wait for the next one: under
load, one sync of the disk stores many of them.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from headway.core.model.units import JobId
from headway.runtime.submissions import Submission, Submissions

T = TypeVar("T")
Stored = tuple[list[JobId], bool]
"""The ids of a submission, and whether it is new."""
MOST = 1000
"""Submissions of one transaction."""


class _Thread:
    """A connection that one thread uses."""

    def __init__(self, name: str, run: Path) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._store = self._executor.submit(Submissions, run).result()

    async def call(self, what: Callable[[Submissions], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, what, self._store)

    def close(self) -> None:
        self._executor.submit(self._store.close)
        self._executor.shutdown()


class Store:
    def __init__(self, run: Path) -> None:
        self._writer, self._reader = _Thread("store", run), _Thread("read", run)
        self._waiting: list[tuple[Sequence[Submission], str | None, asyncio.Future[Stored]]] = []
        self._writing: asyncio.Task[None] | None = None
        self.submitted = 0
        """Jobs that were stored by this process."""

    async def add(self, jobs: Sequence[Submission], key: str | None) -> Stored:
        """Store all jobs or none. They are durable when this returns."""
        done: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()
        self._waiting.append((jobs, key, done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await done

    async def read(self, what: Callable[[Submissions], T]) -> T:
        return await self._reader.call(what)

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            pairs = [(jobs, key) for jobs, key, _ in batch]
            try:
                stored = await self._writer.call(partial(Submissions.add_all, submissions=pairs))
            except Exception as error:  # noqa: BLE001 - each client gets it, and the next go on
                for *_, done in batch:
                    if not done.done():
                        done.set_exception(error)
                continue
            self.submitted += sum(len(ids) for ids, new in stored if new)
            for (*_, done), found in zip(batch, stored, strict=True):
                if not done.done():  # its client may have left
                    done.set_result(found)
            await self._writer.call(Submissions.wake)
        self._writing = None

    def close(self) -> None:
        self._writer.close()
        self._reader.close()
