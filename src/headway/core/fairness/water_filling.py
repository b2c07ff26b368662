"""Compute how replicas share the CPU of a node, and which weights lead to given shares.

The model is fluid and exact. A fair kernel scheduler approaches it within a second.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from math import inf

from headway.core.cycle.validate import LEAST_WEIGHT
from headway.core.model.units import Cores, CoreSeconds, Seconds

LEAST_SHARE = 1.03 * LEAST_WEIGHT
"""Part of the node that a replica gets at least; a little more than `check` demands."""
MARGIN = 1.25
"""Weight of a replica that gets all that it can use, relative to what it gets."""


def share(capacity: Cores, caps: Sequence[Cores], weights: Sequence[float]) -> list[Cores]:
    """Water-filling: divide cores in proportion to weight, up to the cap of each replica (the
    smaller of its limit and its demand). The others share what capped replicas leave.

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
    # Smallest cap per weight first: after the first that is not capped, none is.
    for i in sorted(range(len(caps)), key=lambda i: caps[i] / weights[i]):
        given[i] = min(caps[i], left * weights[i] / weight)
        left -= given[i]
        weight -= weights[i]
    return given


def share_among_users(
    capacity: Cores, caps: Sequence[Cores], weights: Sequence[float], users: Sequence[str]
) -> list[Cores]:
    """Water-filling in two levels: users have equal shares, and the replicas of each divide its
    share by weight. What a user cannot use, others share. With one user it is `share`.

    >>> share_among_users(1.0, [1.0] * 3, [1.0] * 3, ["ann", "ann", "ben"])
    [0.25, 0.25, 0.5]
    >>> share_among_users(1.0, [1.0, 0.25, 0.25], [1.0, 8.0, 1.0], ["ann", "ann", "ben"])
    [0.5, 0.25, 0.25]
    """
    names = list(dict.fromkeys(users))
    if len(names) < 2:
        return share(capacity, caps, weights)
    of_user = [[i for i, user in enumerate(users) if user == name] for name in names]
    most = [sum([caps[i] for i in mine]) for mine in of_user]
    given = [0.0] * len(caps)
    for mine, cores in zip(of_user, share(capacity, most, [1.0] * len(names)), strict=True):
        rates = share(cores, [caps[i] for i in mine], [weights[i] for i in mine])
        for i, rate in zip(mine, rates, strict=True):
            given[i] = rate
    return given


def user_weights(users: Sequence[str]) -> list[float]:
    """Return weights of replicas, with mean 1, so that each of these users has the same total.

    >>> user_weights(["ann", "ann", "ann", "ben"]), user_weights(["ann", "ann"])
    ([0.6666666666666666, 0.6666666666666666, 0.6666666666666666, 2.0], [1.0, 1.0])
    """
    if len(set(users)) < 2:
        return [1.0] * len(users)
    counts = Counter(users)
    least = LEAST_SHARE * len(users)
    return [max(least, len(users) / (len(counts) * counts[user])) for user in users]


def weights_for(
    wanted: Sequence[Cores], caps: Sequence[Cores], exact: Collection[int] = (), others: int = 0
) -> list[float]:
    """Return weights, with mean 1, by which each replica gets about the cores wanted for it.

    No weight is below the minimum of `check`, so that each replica gets a little CPU. This CPU is
    taken from replicas that get less than they could use and whose index is not in `exact`, if
    there are any. A replica that gets all that it can use has a margin. `others`: number of other
    replicas on the node, with weight 1, for example because they are starting.
    """
    count = len(wanted)
    if sum(wanted) <= 0:
        return [1.0] * count
    full = [w >= cap * (1 - 1e-9) for w, cap in zip(wanted, caps, strict=True)]
    margin = [MARGIN if f else 1.0 for f in full]
    total = sum([w * m for w, m in zip(wanted, margin, strict=True)])
    least = LEAST_SHARE * total * (1 + max(0, others) / count)
    given = [max(least, w) for w in wanted]
    extra = sum(given) - sum(wanted)
    payers = [i for i in range(count) if not full[i] and i not in exact]
    if sum([given[i] - least for i in payers]) <= extra:
        payers = list(range(count))
    part = min(1.0, extra / max(extra, sum([given[i] - least for i in payers])))
    for i in payers:
        given[i] -= part * (given[i] - least)
    raw = [w * m for w, m in zip(given, margin, strict=True)]
    unit = count / sum(raw)
    return [w * unit for w in raw]


def one_after_another(caps: Sequence[Cores], capacity: Cores) -> list[Cores]:
    """Allocate cores in order, to each replica as many as it can use, until none is left.

    >>> one_after_another([0.5, 1.0, 1.0], 1.0)
    [0.5, 0.5, 0.0]
    """
    given = []
    for cap in caps:
        given.append(min(cap, capacity))
        capacity -= given[-1]
    return given


def total_completion(
    jobs: Sequence[tuple[CoreSeconds, Cores]], capacity: Cores, most: Seconds = inf
) -> Seconds:
    """Return the sum of the completion times of jobs (work left, demand) that are served in order;
    infinite if it reaches `most`.

    >>> total_completion([(40.0, 1.0), (60.0, 0.2)], 1.0)  # 40 s, then 300 s more
    380.0
    >>> total_completion([(60.0, 0.2), (40.0, 1.0)], 1.0)  # side by side: 300 s and 50 s
    350.0
    """
    lefts, demands = [left for left, _ in jobs], [demand for _, demand in jobs]
    at = total = 0.0
    while lefts:
        free, rates = capacity, []
        for demand in demands:
            if demand >= free:
                rates.append(free)
                break
            rates.append(demand)
            free -= demand
        step = lefts[0] / rates[0]
        if len(rates) > 1:
            step = min([left / rate for left, rate in zip(lefts, rates, strict=False)])
        at += step
        if total + at * len(lefts) >= most:
            return inf
        for i in range(len(rates) - 1, -1, -1):
            lefts[i] -= rates[i] * step
            if lefts[i] <= 1e-9:
                total += at
                del lefts[i], demands[i]
    return total
