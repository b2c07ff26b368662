"""What policies that serve one job after another have in common: an order becomes weights."""

from collections.abc import Sequence

from headway.core.fairness.water_filling import one_after_another, weights_for
from headway.core.model.decision import SetShare
from headway.core.model.job import Replica
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import Cores

SAME = 0.01
"""A weight or ceiling that differs by less than this part is left as it is."""


def in_order(snapshot: Snapshot, order: Sequence[Replica], reason: str) -> tuple[SetShare, ...]:
    """Weights under which the first gets all that it can use, then the next."""
    cores = snapshot.node.capacity.cpu
    caps = [demand_of(snapshot, r) for r in order]
    weights = weights_for(one_after_another(caps, cores), caps)
    return tuple(
        SetShare(replica=r.id, limit=snapshot.ceiling(r), weight=weight, reason=reason)
        for r, weight in zip(order, weights, strict=True)
        if differs(r, snapshot.ceiling(r), weight)
    )


def differs(r: Replica, limit: Cores | None, weight: float) -> bool:
    """Is it worth a write?"""
    return abs(weight - r.weight) > SAME * r.weight or not same_limit(r.limit, limit)


def same_limit(a: Cores | None, b: Cores | None) -> bool:
    """But for what a platform rounds off."""
    return a == b if a is None or b is None else abs(a - b) <= SAME * b


def demand_of(snapshot: Snapshot, r: Replica) -> Cores:
    """What it can use at once on its node, as far as it is told, and may."""
    expected = snapshot.jobs[r.job].spec.expected
    told = expected.demand if expected else None
    known = [c for c in (told, snapshot.ceiling(r)) if c is not None]
    return min([snapshot.node.capacity.cpu, *known])
