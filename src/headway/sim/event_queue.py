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
        self._heap: list[tuple[Seconds, int, int, Any, int]] = []
        self._serial = 0

    def push(self, at: Seconds, kind: int, subject: Any) -> None:
        self._serial += 1
        heappush(self._heap, (at, kind, self._serial, subject, getattr(subject, "version", 0)))

    def next_at(self) -> Seconds:
        """Return the time of the next event; infinity: none."""
        heap = self._heap
        while heap and not _valid(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else inf

    def pop_until(self, at: Seconds) -> Iterator[tuple[int, Any]]:
        """Yield kind and subject of the events until then, also of those added meanwhile."""
        heap = self._heap
        while heap and heap[0][0] <= at:
            event = heappop(heap)
            if _valid(event):
                yield event[1], event[3]


def _valid(event: tuple[Seconds, int, int, Any, int]) -> bool:
    return event[1] >= REPAIR or event[3].version == event[4]
