"""Fair sharing, the papers' NA: the same weight for all replicas, and no limit but the user's.

It is what a plain Docker engine does, and the baseline for all other policies.
"""

from headway.core.fairness.priority_weights import same_limit
from headway.core.model.decision import CALM, Plan, SetShare
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot


@record
class Fair:
    about = "fair sharing as in plain Docker: the same weight for all, no limits"
    name: str = "fair"
    listens: bool = False

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        free = []
        for r in snapshot.adjustable:
            own = snapshot.ceiling(r)
            if r.weight != 1.0 or not (r.limit is own or same_limit(r.limit, own)):
                free.append(SetShare(replica=r.id, limit=own, reason="the same weight for all"))
        return (Plan(decisions=tuple(free)) if free else CALM), memory
