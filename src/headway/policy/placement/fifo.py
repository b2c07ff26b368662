"""Strict first come, first served: whole gangs, packed; no job starts before an earlier one."""

from headway.core.model.decision import CALM, Place, Plan
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot, Trigger
from headway.core.model.units import JobId
from headway.policy.common.packing import Packing


@record
class Fifo:
    about = "strict first come, first served; whole gangs, packed"
    name: str = "fifo"
    listens: bool = False

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        head = next(iter(snapshot.queue), None)
        if head is None or not _may_fit(snapshot, head):
            return CALM, memory
        packing, places = Packing(snapshot), []
        for job in snapshot.waiting:
            where = packing.place(job)
            if not where:
                break
            places.append(Place(job=job.id, where=where, reason="first in the queue"))
        return (Plan(decisions=tuple(places)) if places else CALM), memory


def _may_fit(s: Snapshot, head: JobId) -> bool:
    """Return whether the head of the queue or free capacity changed. A backend that may have
    refused a job observes its nodes from time to time, with the trigger NODE.
    """
    changed = s.changed
    return s.trigger is Trigger.NODE or bool(changed.nodes or changed.ended) or head in changed.jobs
