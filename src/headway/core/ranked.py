"""What policies that serve one job after another have in common: an order becomes weights."""

from collections.abc import Sequence

from headway.core.decision import SetShare
from headway.core.job import Job, Replica
from headway.core.sharing import one_after_another, weights_for
from headway.core.snapshot import Snapshot
from headway.core.units import Cores

SAME_WEIGHT = 0.01
"""A weight that differs by less than this part is left as it is."""


def in_order(snapshot: Snapshot, order: Sequence[Replica], reason: str) -> tuple[SetShare, ...]:
    """Weights under which the first gets all that it can use, then the next."""
    cores = snapshot.node.capacity.cpu
    caps = [demand_of(snapshot.jobs[r.job], cores) for r in order]
    weights = weights_for(one_after_another(caps, cores), caps)
    return tuple(
        SetShare(replica=r.id, weight=weight, reason=reason)
        for r, weight in zip(order, weights, strict=True)
        if differs(r, weight)
    )


def differs(r: Replica, weight: float) -> bool:
    """Is it worth a write?"""
    return r.limit is not None or abs(weight - r.weight) > SAME_WEIGHT * r.weight


def demand_of(job: Job, cores: Cores) -> Cores:
    """What one of its replicas can use at once, as far as it is told."""
    told = job.spec.expected.demand if job.spec.expected else None
    return cores if told is None else min(cores, told)
