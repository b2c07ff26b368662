"""The event queue of the simulator."""

from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf
from typing import Any

from headway.core.model.snapshot import Trigger
from headway.core.model.units import Seconds

FINISH, SAVED, READY, REPAIR, FAIL, ARRIVE, FOREIGN = range(7)
"""Kinds of event, in the order in which those of the same time happen."""
TRIGGERS = (
    Trigger.FINISHED, Trigger.NODE, Trigger.STARTED, Trigger.NODE, Trigger.NODE, Trigger.ARRIVED,
    Trigger.NODE,
)  # fmt: skip


class EventQueue:
    """Events by time, kind and order of insertion. An event of a node or job is outdated, and
    skipped, if the version of its subject has changed since.
    """

    def __init__(self) -> None:
        self.heap: list[tuple[Seconds, int, int, Any, int]] = []
        self._serial = 0

    def push(self, at: Seconds, kind: int, subject: Any) -> None:
        self._serial += 1
        heappush(self.heap, (at, kind, self._serial, subject, getattr(subject, "version", 0)))

    def next_at(self) -> Seconds:
        """Drop outdated events; return the time of the next one; infinity: none."""
        heap = self.heap
        while heap:
            at, kind, _, subject, version = heap[0]
            if kind >= REPAIR or subject.version == version:
                return at
            heappop(heap)
        return inf

    def pop_until(self, at: Seconds) -> Iterator[tuple[int, Any]]:
        """Yield kind and subject of the events until then, also of those added meanwhile."""
        heap = self.heap
        while heap and heap[0][0] <= at:
            _, kind, _, subject, version = heappop(heap)
            if kind >= REPAIR or subject.version == version:
                yield kind, subject
