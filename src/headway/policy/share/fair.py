"""Fair sharing, the papers' NA: no ceiling but the user's, all weigh the same, the kernel shares.

What a plain Docker engine does, and the measure for everything else.
"""

from headway.core.fairness.priority_weights import same_limit
from headway.core.model.decision import CALM, Plan, SetShare
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot


@record
class Fair:
    name: str = "fair"
    listens: bool = False

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        free = []
        for r in snapshot.running:
            own = snapshot.ceiling(r)
            if r.weight != 1.0 or not (r.limit is own or same_limit(r.limit, own)):
                free.append(SetShare(replica=r.id, limit=own, reason="everybody alike"))
        return (Plan(decisions=tuple(free)) if free else CALM), memory
