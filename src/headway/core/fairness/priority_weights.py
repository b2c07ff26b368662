"""Convert an order to weights, for policies that serve one job after another."""

from collections.abc import Sequence

from headway.core.fairness.water_filling import one_after_another, weights_for
from headway.core.model.decision import SetShare
from headway.core.model.job import Replica
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import Cores

SAME = 0.01
"""A weight or limit that differs by less than this fraction is not changed."""


def in_order(snapshot: Snapshot, order: Sequence[Replica], reason: str) -> tuple[SetShare, ...]:
    """Set weights by which the first replica gets all the CPU that it can use, then the next."""
    cores = snapshot.node.available
    caps = [demand_of(snapshot, r) for r in order]
    weights = weights_for(one_after_another(caps, cores), caps)
    return tuple(
        SetShare(replica=r.id, limit=snapshot.ceiling(r), weight=weight, reason=reason)
        for r, weight in zip(order, weights, strict=True)
        if differs(r, snapshot.ceiling(r), weight)
    )


def differs(r: Replica, limit: Cores | None, weight: float) -> bool:
    """Return whether a new share differs enough to be set."""
    return abs(weight - r.weight) > SAME * r.weight or not same_limit(r.limit, limit)


def same_limit(a: Cores | None, b: Cores | None) -> bool:
    """Compare limits; a platform may round them."""
    return a == b if a is None or b is None else abs(a - b) <= SAME * b


def demand_of(snapshot: Snapshot, r: Replica) -> Cores:
    """Return the maximum number of cores that a replica can use: as declared, its limit, or the
    node.
    """
    expected = snapshot.jobs[r.job].spec.expected
    declared = expected.demand if expected else None
    known = [c for c in (declared, snapshot.ceiling(r)) if c is not None]
    return min([snapshot.node.capacity.cpu, *known])
