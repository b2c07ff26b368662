"""First come, first served, strictly: whole gangs, packed; nobody passes the first who waits."""

from headway.core.model.decision import CALM, Place, Plan
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot, Trigger
from headway.core.model.units import JobId
from headway.policy.common.packing import Packing


@record
class Fifo:
    name: str = "fifo"
    listens: bool = False

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        first = next(iter(snapshot.queue), None)
        if first is None or not _stirred(snapshot, first):
            return CALM, memory  # who was first is still, and there is no more room
        packing, places = Packing(snapshot), []
        for job in snapshot.waiting:
            where = packing.place(job)
            if not where:
                break
            places.append(Place(job=job.id, where=where, reason="it is first in the queue"))
        return (Plan(decisions=tuple(places)) if places else CALM), memory


def _stirred(s: Snapshot, first: JobId) -> bool:
    """A backend that may have refused somebody says so by a look at its nodes now and then."""
    changed = s.changed
    asked = s.trigger is Trigger.NODE
    return asked or bool(changed.nodes or changed.ended) or first in changed.jobs
