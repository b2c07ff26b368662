"""Limits of what a user may submit: number of jobs, rate, and size."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic

from headway.core.model.units import JobId, Seconds
from headway.runtime.owner import Owner
from headway.runtime.submissions import Submission
from headway.server.problems import QuotaExceeded
from headway.server.store import Store
from headway.spec.quotas import Quota, Quotas

MINUTE: Seconds = 60.0


@dataclass(slots=True)
class SubmitLimits:
    """Used in the thread of the API. Root has no quota."""

    quotas: Quotas
    store: Store
    clock: Callable[[], Seconds] = monotonic
    _storing: Counter[int] = field(default_factory=Counter)
    """Number of jobs of each user that are being stored."""
    _tokens: dict[int, tuple[float, Seconds]] = field(default_factory=dict)
    """Number of submissions that each user may make at once, and when it was computed."""

    def quota(self, owner: Owner) -> Quota | None:
        """Return the quota of a user; None: root has none."""
        return self.quotas.of(owner.uid, owner.name) if owner.uid else None

    def count(self, owner: Owner) -> None:
        """Count a request to submit. Raise `QuotaExceeded` if the user makes too many."""
        most, now = self.quotas.of(owner.uid, owner.name).submissions_per_minute, self.clock()
        left, before = self._tokens.get(owner.uid, (float(most), now))
        left = min(float(most), left + (now - before) * most / MINUTE)
        if owner.uid and left < 1:
            self._tokens[owner.uid] = left, now
            raise QuotaExceeded(
                f"{owner.shown} may submit {most} times in a minute",
                hint="submit several jobs at once, in a file",
            )
        self._tokens[owner.uid] = left - 1, now

    async def add(
        self, owner: Owner, jobs: Sequence[Submission], key: str | None
    ) -> tuple[list[JobId], bool]:
        """Store jobs as `Store.add`, if the quota of their user allows them. A repetition of a
        submission adds none.
        """
        own = None if key is None else f"{owner.uid} {key}"  # the keys of others are not known
        try:
            async with self._room(owner, jobs):
                return await self.store.add(jobs, own)
        except QuotaExceeded:
            before = await self.store.read(lambda store: store.known(own)) if own else []
            if not before:
                raise
            return before, False

    @asynccontextmanager
    async def _room(self, owner: Owner, jobs: Sequence[Submission]) -> AsyncIterator[None]:
        """Context in which jobs are stored. Raise `QuotaExceeded` if the queue of the user would be
        too long. The jobs count from now on, before they are stored.
        """
        quota = self.quotas.of(owner.uid, owner.name)
        self._storing[owner.uid] += len(jobs)
        try:
            stored = await self.store.read(lambda store: store.count_unfinished(owner.uid))
            there = stored + self._storing[owner.uid]
            if owner.uid and there > quota.queued_jobs:
                raise QuotaExceeded(
                    f"{owner.shown} may have {quota.queued_jobs} jobs that have not ended, and has "
                    f"{there - len(jobs)}",
                    hint="wait until some have ended, or cancel some",
                )
            yield
        finally:
            self._storing[owner.uid] -= len(jobs)
