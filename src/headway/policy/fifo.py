"""First come, first served, strictly: whole gangs, packed; nobody passes the first who waits."""

from headway.core.decision import CALM, Place, Plan
from headway.core.record import record
from headway.core.snapshot import Snapshot
from headway.policy.packing import Packing


@record
class Fifo:
    name: str = "fifo"
    listens: bool = False

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        first = next(iter(snapshot.queue), None)
        changed = snapshot.changed
        if first is None or not (changed.nodes or changed.ended or first in changed.jobs):
            return CALM, memory  # who was first is still, and there is no more room
        packing, places = Packing(snapshot), []
        for job in snapshot.waiting:
            where = packing.place(job)
            if not where:
                break
            places.append(Place(job=job.id, where=where, reason="it is first in the queue"))
        return (Plan(decisions=tuple(places)) if places else CALM), memory
