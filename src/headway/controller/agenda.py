"""Index of the jobs by deadline and state: a wake-up costs in proportion to the jobs that
changed.
"""

from heapq import heappop, heappush
from math import inf
from typing import Self

from headway.controller import lifecycle
from headway.controller.records import JobRecord, Records
from headway.core.model.job import Phase
from headway.core.model.units import JobId, Seconds


class Agenda:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._at: dict[JobId, Seconds] = {}
        self._heap: list[tuple[Seconds, JobId]] = []
        """Entries that differ from `_at` are stale. They are dropped when they are due."""
        self.pending: set[JobId] = set()
        self.unfinished: set[JobId] = set()
        self.arriving: set[JobId] = set()
        """Jobs with a restarted replica that has not reported yet."""

    def current(self) -> Self:
        """Update the index by the jobs that were touched since the last call; return it."""
        while self._records.touched:
            name = self._records.touched.pop()
            job = self._records.jobs.get(name)
            self.pending.discard(name)
            self.unfinished.discard(name)
            self.arriving.discard(name)
            due = inf
            if job is not None:
                due = lifecycle.next_deadline(job)
                if job.arrived and job.phase is Phase.PENDING:
                    self.pending.add(name)
                if not job.finished:
                    self.unfinished.add(name)
                if any(r.arriving for r in job.replicas.values()):
                    self.arriving.add(name)
            if due == inf:
                self._at.pop(name, None)
            elif self._at.get(name) != due:
                self._at[name] = due
                heappush(self._heap, (due, name))
        return self

    def next(self) -> Seconds:
        """Return when the first job is due."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else inf

    def take_due(self, now: Seconds) -> list[JobRecord]:
        """Remove and return the jobs that are due, in the order in which they were added."""
        due: list[JobRecord] = []
        while self.next() <= now:
            _, name = heappop(self._heap)
            del self._at[name]
            self._records.touched.add(name)
            due.append(self._records.jobs[name])
        return sorted(due, key=lambda job: job.number)
