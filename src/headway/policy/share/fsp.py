"""The Fair Sojourn Protocol (Friedman and Henderson 2003): one job after another, in the order in
which fair sharing would finish them.

If each job can use the whole node and its size is known, no job finishes later than under fair
sharing. With smaller demands an order is not enough: see `headway`.
"""

from headway.core.estimate.job_size import estimate_size
from headway.core.fairness.priority_weights import demand_of, in_order
from headway.core.fairness.reference import ReferenceJob, ReferenceJobs, advance, set_guarantees
from headway.core.model.decision import CALM, Plan
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import Cores, Seconds
from headway.policy.common.per_replica_work import per_replica


@memory
class FspMemory:
    at: Seconds = 0.0
    cores: Cores = 0.0
    """Available since the last decision."""
    reference: ReferenceJobs


@record
class Fsp:
    about = "one job after another, in the order in which fair sharing would finish them"
    name: str = "fsp"
    listens: bool = True

    def begin(self) -> FspMemory:
        return FspMemory(reference={})

    def decide(self, snapshot: Snapshot, memory: FspMemory) -> tuple[Plan, FspMemory]:
        cores, speed = snapshot.node.available, snapshot.node.speed
        reference, ours = memory.reference, snapshot.adjustable
        advance(reference, memory.cores or cores, snapshot.at - memory.at)
        memory.at, memory.cores = snapshot.at, cores
        for r in ours:
            if r.id not in reference:
                spec = per_replica(snapshot.jobs[r.job].spec)
                known = estimate_size(spec, r.progress, None, speed)
                reference[r.id] = ReferenceJob(
                    demand=demand_of(snapshot, r),
                    size=known.size,
                    least=known.size,
                    sure=True,
                    owner=spec.owner,
                )
        for name in [n for n, j in reference.items() if j.finished and n not in snapshot.replicas]:
            del reference[name]
        set_guarantees(reference, cores, snapshot.at)
        if not ours:
            return CALM, memory
        order = sorted(ours, key=lambda r: reference[r.id].due)
        why = "order of completion under fair sharing"
        return Plan(decisions=in_order(snapshot, order, why)), memory
