"""Decide whether all guarantees can still be kept: the arithmetic behind "nobody loses".

A claim is work that must be done by a due time, at a limited rate. A set of claims is feasible if
some schedule does all of the work in time. The level algorithm finds one backward from the last due
time: a claim joins at its due time, and the claim that needs longest at its full rate is served
first. If work is left at the present, no schedule can do it all, and the claims with work left form
an infeasible set.
"""

from bisect import insort
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from headway.core.model.units import Cores, CoreSeconds, Seconds

K = TypeVar("K", bound=Hashable)
_EQUAL: Seconds = 1e-12
ROUNDING: Seconds = 1e-7
"""A level below this is a rounding error."""


@dataclass(slots=True)
class Claim:
    left: CoreSeconds
    demand: Cores
    """The most cores that it can use."""
    due: Seconds


@dataclass(slots=True)
class _Group:
    """Claims that need the same time at their full rate; their levels fall together."""

    level: Seconds
    demand: Cores
    members: list[object]


def infeasible_set(claims: Mapping[K, Claim], capacity: Cores, now: Seconds) -> list[tuple[K, ...]]:
    """Return sets of claims that are infeasible together, each a subset of the next.

    >>> both = {"x": Claim(5.0, 1.0, 10.0), "y": Claim(4.0, 1.0, 9.0)}
    >>> infeasible_set(both, 1.0, now=0.0)
    []
    >>> infeasible_set(both, 1.0, now=1.5)
    [('x', 'y')]
    """
    groups: list[_Group] = []  # by level, the lowest first
    at = now
    for name, claim in sorted(claims.items(), key=lambda item: -item[1].due):
        due = max(claim.due, now)
        _serve(groups, capacity, at - due)
        insort(groups, _Group(claim.left / claim.demand, claim.demand, [name]), key=_level)
        _merge(groups)
        at = due
    _serve(groups, capacity, at - now)
    # A claim with a higher level has always been served before those with lower levels.
    left: set[object] = set()
    found = []
    for g in reversed(groups):
        if g.level > ROUNDING:
            left.update(g.members)
            found.append(tuple(name for name in claims if name in left))
    return found


def _serve(groups: list[_Group], capacity: Cores, time: Seconds) -> None:
    while groups and time > 0:
        time -= _fall(groups, capacity, time)


def _level(group: _Group) -> Seconds:
    return group.level


def _merge(groups: list[_Group]) -> None:
    """Merge neighbours with equal levels, and drop groups without work."""
    i = len(groups) - 1
    while i > 0:
        low, high = groups[i - 1], groups[i]
        if high.level - low.level <= _EQUAL:
            low.demand += high.demand
            low.members += high.members
            del groups[i]
        i -= 1
    while groups and groups[0].level <= _EQUAL:
        del groups[0]


def _fall(groups: list[_Group], capacity: Cores, most: Seconds) -> Seconds:
    """Serve the highest levels until two levels meet, one is done, or `most` has passed."""
    served: list[tuple[_Group, float]] = []  # with the rate at which each level falls
    for g in reversed(groups):
        if capacity <= 0:
            break
        speed = min(1.0, capacity / g.demand)
        served.append((g, speed))
        capacity -= speed * g.demand
    step = most
    for i, (g, speed) in enumerate(served):
        below = groups[len(groups) - 2 - i] if i < len(groups) - 1 else None
        slower = served[i + 1][1] if i + 1 < len(served) else 0.0
        if speed > slower:
            gap = g.level - (below.level if below else 0.0)
            step = min(step, gap / (speed - slower))
    for g, speed in served:
        g.level -= speed * step
    _merge(groups)
    return step


def slack(claims: Sequence[Claim], capacity: Cores, now: Seconds) -> CoreSeconds:
    """Return the most service that claims can get before they are due, minus what they need."""
    served, since = 0.0, now
    demand = sum(c.demand for c in claims)
    for claim in sorted(claims, key=lambda c: c.due):
        if claim.due > since:
            served += (claim.due - since) * min(capacity, demand)
            since = claim.due
        demand -= claim.demand
    return served - sum(c.left for c in claims)


# -- the allocation ----------------------------------------------------------------------------

SOON: Seconds = 0.05
"""A set of guarantees whose slack lasts less than this has none."""


ALMOST_DONE: Seconds = 0.5
"""An overdue job that needs at most this much time goes first."""


@dataclass(slots=True, kw_only=True)
class Need:
    """What keeps the guarantee of a job: work by a due time; or, after that if its size is
    uncertain, a bound on how far it falls behind its fair share.
    """

    demand: Cores
    left: CoreSeconds = 0.0
    due: Seconds = inf
    sure: bool = False
    """Whether `left` is all of its remaining work."""
    equal: Cores = 0.0
    """Its fair share now."""
    room: CoreSeconds = inf
    """How much further it may fall behind; negative: it must catch up."""


@dataclass(slots=True, kw_only=True)
class Allocation(Generic[K]):
    rates: dict[K, Cores]
    calm_for: Seconds
    """How long these rates can stay unchanged."""
    urgent: set[K]
    behind: set[K]


def allocate(
    needs: Mapping[K, Need], order: Sequence[K], capacity: Cores, now: Seconds, most: Seconds
) -> Allocation[K]:
    """Allocate cores: first to jobs whose guarantee allows no delay, then to jobs that are behind,
    then in order. Tight sets of guarantees join the first group until none is without slack.
    """
    claims = _claims(needs, capacity, now)
    almost_done = [n for n in order if _almost_done(needs[n], now)]
    behind = {n: need.equal for n, need in needs.items() if need.room <= 0}
    rooms = (n.room / n.equal for n in needs.values() if 0 < n.room < inf)
    tight: list[tuple[K, ...]] = []
    while True:
        rates = _serve_in_order(needs, order, almost_done, tight, behind, capacity)
        calm_for, tightest = _horizon(claims, rates, capacity, now, most)
        if tightest is None or calm_for > SOON or tightest in tight:
            break
        tight.append(tightest)
    return Allocation(
        rates=rates,
        calm_for=min(calm_for, min(rooms, default=inf)),
        urgent={n for t in tight for n in t},
        behind=set(behind),
    )


def _almost_done(need: Need, now: Seconds) -> bool:
    """Return whether it is almost done. It then goes before jobs whose guarantees allow no delay:
    they lose a tenth of a second or, if it is overdue, less than it has already lost.
    """
    needs = need.left / need.demand
    return need.sure and (needs <= 2 * SOON or (needs <= ALMOST_DONE and now - need.due > needs))


def _claims(needs: Mapping[K, Need], capacity: Cores, now: Seconds) -> dict[K, Claim]:
    """Return the guarantees, delayed as little as necessary to be feasible."""
    claims = {
        n: Claim(need.left, need.demand, need.due) for n, need in needs.items() if need.due < inf
    }
    while late := infeasible_set(claims, capacity, now):
        _delay([claims[n] for n in late[0]], capacity, now)
    return claims


def _delay(claims: list[Claim], capacity: Cores, now: Seconds) -> None:
    """Delay infeasible claims together, by as little as possible."""
    full = min(capacity, sum(c.demand for c in claims))
    short = max(1e-6, -slack(claims, capacity, now) / full)
    for claim in claims:
        claim.due = max(claim.due, now) + short


def _serve_in_order(
    needs: Mapping[K, Need],
    order: Sequence[K],
    almost_done: list[K],
    tight: list[tuple[K, ...]],
    behind: dict[K, Cores],
    capacity: Cores,
) -> dict[K, Cores]:
    left = capacity
    rates = dict.fromkeys(order, 0.0)

    def give(name: K, most: Cores) -> None:
        nonlocal left
        more = min(max(0.0, most - rates[name]), left)
        rates[name] += more
        left -= more

    for name in almost_done:
        give(name, needs[name].demand)
    inside = {n: [i for i, t in enumerate(tight) if n in t] for n in order}
    urgent = [n for n in order if inside[n]]
    # A subset goes first; of two disjoint sets, the one that ran out of slack first.
    for name in sorted(urgent, key=lambda n: (-len(inside[n]), inside[n][0])):
        give(name, needs[name].demand)
    for owed in (1.0, 2.0):  # their share, then as much again to catch up
        for name, equal in behind.items():
            give(name, min(owed * equal, needs[name].demand))
    for name in order:
        give(name, needs[name].demand)
    return rates


def _horizon(
    claims: Mapping[K, Claim],
    rates: Mapping[K, Cores],
    capacity: Cores,
    now: Seconds,
    most: Seconds,
) -> tuple[Seconds, tuple[K, ...] | None]:
    """Return how long these rates can last before a set of guarantees allows no delay, and the set.

    Newton's method: test at a time whether all are feasible; if a set is not, go back to when its
    slack was used up, and test again.
    """
    time, tightest = most, None
    while time > SOON:
        then = {
            n: Claim(left, c.demand, c.due)
            for n, c in claims.items()
            if (left := c.left - rates[n] * time) > 1e-9
        }
        late = infeasible_set(then, capacity, now + time)
        ends = [
            (_used_up([claims[n] for n in w], [rates[n] for n in w], capacity, now), w)
            for w in late
        ]
        back, first = min(ends, key=lambda end: end[0], default=(inf, None))
        if back >= time * (1 - 1e-9):
            break
        time, tightest = back, first
    return time, tightest


def _used_up(claims: list[Claim], rates: list[Cores], capacity: Cores, now: Seconds) -> Seconds:
    """Return the time until a set of guarantees has no slack left at these rates."""
    short = min(capacity, sum(c.demand for c in claims)) - sum(rates)
    return max(0.0, slack(claims, capacity, now) / short) if short > 1e-9 else inf
