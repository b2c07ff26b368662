"""Divides the declared CPU requests of pods among them by weight. Their sum stays the same."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.backend.kubernetes.platform.pod_cpu import Cpu

LEAST_REQUEST = 2
"""Smallest request that has an effect on the weight of a cgroup."""
LEAST_LIMIT = 10
"""The smallest quota that a kubelet sets."""


@dataclass(frozen=True, slots=True)
class Member:
    """A pod that shares with others. Amounts in thousandths of a core."""

    weight: float
    limit: int | None = None
    """Decided limit; None: no limit."""
    declared: int = 0
    """The request of its owner."""
    least: int = LEAST_REQUEST
    gap: int = 1
    """Difference by which the request stays below the limit: equal amounts could change the pod to
    Guaranteed, which Kubernetes refuses."""


def divide(total: int, members: Sequence[Member]) -> list[Cpu]:
    """Return requests in proportion to the weights that add up to `total`, each below the limit of
    its pod. If the limits are too low for the sum, no request is below the declared one.

    >>> [c.request for c in divide(800, [Member(3.0), Member(1.0)])]
    [600, 200]
    >>> divide(800, [Member(3.0, limit=501), Member(1.0)])
    [Cpu(request=500, limit=501), Cpu(request=300, limit=None)]
    >>> divide(400, [Member(1.0, limit=100, declared=400)])
    [Cpu(request=400, limit=401)]
    >>> sum(c.request for c in divide(100, [Member(1.0), Member(1.0), Member(1.0)]))
    100
    """
    limits = _limits(total, members)
    caps = [
        total if limit is None else limit - m.gap for m, limit in zip(members, limits, strict=True)
    ]
    given = [0.0] * len(members)
    fixed: dict[int, float] = {}
    while len(fixed) < len(members):
        left = total - sum(fixed.values())
        open_ = [i for i in range(len(members)) if i not in fixed]
        weight = sum(members[i].weight for i in open_)
        for i in open_:
            given[i] = left * members[i].weight / weight
        below = [i for i in open_ if given[i] < members[i].least]
        above = [i for i in open_ if given[i] > caps[i]]
        short = sum(members[i].least - given[i] for i in below)
        spare = sum(given[i] - caps[i] for i in above)
        bound = above if spare > short else below  # the larger error first: the other may vanish
        if not bound:
            break
        fixed |= {i: caps[i] if bound is above else members[i].least for i in bound}
    given = [fixed.get(i, value) for i, value in enumerate(given)]
    return [Cpu(r, limit) for r, limit in zip(_whole(given, total), limits, strict=True)]


def _limits(total: int, members: Sequence[Member]) -> list[int | None]:
    limits = [
        None if m.limit is None else max(m.limit, LEAST_LIMIT, m.least + m.gap) for m in members
    ]
    room = sum(limit - m.gap for m, limit in zip(members, limits, strict=True) if limit is not None)
    if None in limits or room >= total:
        return limits
    return [max(m.declared + m.gap, limit or 0) for m, limit in zip(members, limits, strict=True)]


def _whole(given: Sequence[float], total: int) -> list[int]:
    """Round to integers with the same sum: those that lose most by rounding down are rounded up."""
    down = [int(value + 1e-9) for value in given]
    missing = min(total, round(sum(given))) - sum(down)
    order = sorted(range(len(given)), key=lambda i: (down[i] - given[i], i))
    for i in order[: max(0, missing)]:
        down[i] += 1
    return down
