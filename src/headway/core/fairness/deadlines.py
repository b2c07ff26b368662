"""Can every promise still be kept? The arithmetic behind "nobody loses".

A claim is work that must be done by a certain time, at no more than a certain rate. A set of
claims can be met if some schedule does all of it in time. Looking backward from the last due
time, each claim joins when its time comes, and whoever would need longest to finish is served
first (the level algorithm): if that leaves anything undone at present, nothing could do it all,
and the claims left over together ask for more than there is.
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
"""A level below this is rounding, not work."""


@dataclass(slots=True)
class Claim:
    left: CoreSeconds
    demand: Cores
    """The most cores that it can use at once."""
    due: Seconds


@dataclass(slots=True)
class _Group:
    """Claims that need equally long at full rate; they fall together."""

    level: Seconds
    demand: Cores
    members: list[object]


def infeasible_set(claims: Mapping[K, Claim], capacity: Cores, now: Seconds) -> list[tuple[K, ...]]:
    """Sets of claims that cannot be met together, each part of the next; none if all can be.

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
    # Whoever is left with a higher level was always served before the lower ones.
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
    """Make one of neighbours that have met, and drop what is done."""
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
    """Serve the highest levels first until two of them meet, one is done, or time is up."""
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
    """What a set of claims could at most be served until its due times, less what it needs."""
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
"""A set of promises whose slack is used up sooner than this has none."""


ENDING: Seconds = 0.5
"""Who is late and needs no more than this goes before all others."""


@dataclass(slots=True, kw_only=True)
class Need:
    """What keeps one job's promise: so much work by a due time; or, where it is past that and its
    size uncertain, no more than so much behind its fair share.
    """

    demand: Cores
    left: CoreSeconds = 0.0
    due: Seconds = inf
    sure: bool = False
    """Is that all that is left of it?"""
    equal: Cores = 0.0
    """Its fair share at present."""
    room: CoreSeconds = inf
    """How much further it may fall behind; below 0: it must catch up."""


@dataclass(slots=True, kw_only=True)
class Allocation(Generic[K]):
    rates: dict[K, Cores]
    calm_for: Seconds
    """How long these rates may stay as they are."""
    urgent: set[K]
    behind: set[K]


def allocate(
    needs: Mapping[K, Need], order: Sequence[K], capacity: Cores, now: Seconds, most: Seconds
) -> Allocation[K]:
    """Cores for each: first whose promise allows no delay, then what is owed to those behind, then
    in order. Sets of promises are added to the first until none runs out at once.
    """
    claims = _claims(needs, capacity, now)
    ending = [n for n in order if _ends(needs[n], now)]
    behind = {n: need.equal for n, need in needs.items() if need.room <= 0}
    rooms = (n.room / n.equal for n in needs.values() if 0 < n.room < inf)
    tight: list[tuple[K, ...]] = []
    while True:
        rates = _in_turn(needs, order, ending, tight, behind, capacity)
        calm_for, who = _horizon(claims, rates, capacity, now, most)
        if who is None or calm_for > SOON or who in tight:
            break
        tight.append(who)
    return Allocation(
        rates=rates,
        calm_for=min(calm_for, min(rooms, default=inf)),
        urgent={n for t in tight for n in t},
        behind=set(behind),
    )


def _ends(need: Need, now: Seconds) -> bool:
    """Does it need next to nothing more? Then it ends now, and does not wait for others whose
    promises allow no delay: they lose a tenth of a second; or, if it is late, less than it has
    lost already.
    """
    needs = need.left / need.demand
    return need.sure and (needs <= 2 * SOON or (needs <= ENDING and now - need.due > needs))


def _claims(needs: Mapping[K, Need], capacity: Cores, now: Seconds) -> dict[K, Claim]:
    """What was promised, or as little later as can still be kept."""
    claims = {
        n: Claim(need.left, need.demand, need.due) for n, need in needs.items() if need.due < inf
    }
    while late := infeasible_set(claims, capacity, now):
        _delay([claims[n] for n in late[0]], capacity, now)
    return claims


def _delay(claims: list[Claim], capacity: Cores, now: Seconds) -> None:
    """Nothing can meet these all: let them be late together, by as little as possible."""
    full = min(capacity, sum(c.demand for c in claims))
    short = max(1e-6, -slack(claims, capacity, now) / full)
    for claim in claims:
        claim.due = max(claim.due, now) + short


def _in_turn(
    needs: Mapping[K, Need],
    order: Sequence[K],
    ending: list[K],
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

    for name in ending:
        give(name, needs[name].demand)
    inside = {n: [i for i, t in enumerate(tight) if n in t] for n in order}
    urgent = [n for n in order if inside[n]]
    # A set within a set goes first; of two that are apart, the one that ran out first.
    for name in sorted(urgent, key=lambda n: (-len(inside[n]), inside[n][0])):
        give(name, needs[name].demand)
    for owed in (1.0, 2.0):  # their share, and then as much again to catch up
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
    """How long these rates may go on before some set of promises allows no further delay.

    Newton's method: ask at a time whether all can still be met; if a set cannot, go back to when
    that set's slack was used up, and ask again there.
    """
    time, who = most, None
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
        back, whose = min(ends, key=lambda end: end[0], default=(inf, None))
        if back >= time * (1 - 1e-9):
            break
        time, who = back, whose
    return time, who


def _used_up(claims: list[Claim], rates: list[Cores], capacity: Cores, now: Seconds) -> Seconds:
    """When a set of promises will have no slack left, at these rates."""
    short = min(capacity, sum(c.demand for c in claims)) - sum(rates)
    return max(0.0, slack(claims, capacity, now) / short) if short > 1e-9 else inf
