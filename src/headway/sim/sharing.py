"""Who gets how much CPU on a node: exact, fluid, work-conserving, no time slices."""

from collections.abc import Sequence

from headway.core.units import Cores


def share(capacity: Cores, caps: Sequence[Cores], weights: Sequence[float]) -> list[Cores]:
    """Water-filling: in proportion to weight, but to nobody more than its cap (the smaller of
    its ceiling and of what it can use); what the capped leave goes to the others.

    >>> share(1.0, [1.0, 1.0, 0.2], [1.0, 1.0, 1.0])
    [0.4, 0.4, 0.2]
    >>> share(1.0, [0.25, 1.0], [1.0, 1.0])
    [0.25, 0.75]
    >>> share(4.0, [1.0, 2.0], [1.0, 9.0])
    [1.0, 2.0]
    """
    if sum(caps) <= capacity:
        return list(caps)
    left, weight = capacity, sum(weights)
    given = [0.0] * len(caps)
    # Lowest cap for its weight first: once one is not capped, none after it is.
    for i in sorted(range(len(caps)), key=lambda i: caps[i] / weights[i]):
        given[i] = min(caps[i], left * weights[i] / weight)
        left -= given[i]
        weight -= weights[i]
    return given
