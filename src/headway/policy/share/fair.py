"""Fair sharing, the papers' NA: the same weight for all replicas, and no limit but the user's. If
there are several users, each has the same weight, and its replicas divide it.

It is what a plain Docker engine does, and the baseline for all other policies.
"""

from headway.core.fairness.priority_weights import same_limit
from headway.core.fairness.water_filling import user_weights
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
        ours, free = snapshot.adjustable, []
        specs = [snapshot.spec(r) for r in ours]
        weights = user_weights([spec.owner for spec in specs])
        for r, spec, weight in zip(ours, specs, weights, strict=True):
            own = spec.task(r.task).limit
            if r.weight != weight or not (r.limit is own or same_limit(r.limit, own)):
                reason = "the same weight for all" + (" users" if weight != 1.0 else "")
                free.append(SetShare(replica=r.id, limit=own, weight=weight, reason=reason))
        return (Plan(decisions=tuple(free)) if free else CALM), memory
