"""The Fair Sojourn Protocol (Friedman and Henderson 2003): one after another, in the order in
which fair sharing would finish them.

Where every job can fill the node and its size is known, that alone lets nobody finish later
than under fair sharing. With smaller demands an order is not enough: see `headway`.
"""

from headway.core.estimate.job_size import estimate_size
from headway.core.fairness.priority_weights import demand_of, in_order
from headway.core.fairness.reference import ReferenceJob, ReferenceJobs, advance, promise
from headway.core.model.decision import CALM, Plan
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import Seconds
from headway.policy.common.per_replica_work import part


@memory
class FspMemory:
    at: Seconds = 0.0
    shadows: ReferenceJobs


@record
class Fsp:
    name: str = "fsp"
    listens: bool = True

    def begin(self) -> FspMemory:
        return FspMemory(shadows={})

    def decide(self, snapshot: Snapshot, memory: FspMemory) -> tuple[Plan, FspMemory]:
        cores, speed = snapshot.node.capacity.cpu, snapshot.node.speed
        shadows = memory.shadows
        advance(shadows, cores, snapshot.at - memory.at)
        memory.at = snapshot.at
        for r in snapshot.running:
            if r.id not in shadows:
                job = snapshot.jobs[r.job]
                known = estimate_size(part(job.spec), r.attained, r.track.step, None, speed)
                shadows[r.id] = ReferenceJob(
                    demand=demand_of(snapshot, r), size=known.size, least=known.size, sure=True
                )
        for name in [n for n, s in shadows.items() if s.finished and n not in snapshot.replicas]:
            del shadows[name]
        promise(shadows, cores, snapshot.at)
        if not snapshot.running:
            return CALM, memory
        order = sorted(snapshot.running, key=lambda r: shadows[r.id].due)
        return Plan(decisions=in_order(snapshot, order, "first done by fair sharing")), memory
