"""Decide whether all guarantees can still be kept (docs/explanation/nobody-loses.md).

A claim is work that must be done by a due time, at a limited rate. A set of claims is feasible if
some schedule does all of the work in time. The level algorithm finds one backward from the last due
time: a claim joins at its due time, and the claim that needs longest at its full rate is served
first. If work is left at the present, no schedule can do it all, and the claims with work left form
an infeasible set.
"""

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

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
    """Claims that need the same time at their full rate. Their levels fall together."""

    level: Seconds
    demand: Cores
    members: list[object]


def infeasible_set(
    claims: Mapping[K, Claim], capacity: Cores, now: Seconds, least: Cores = 0.0
) -> list[tuple[K, ...]]:
    """Return sets of claims that are infeasible together, each a subset of the next. `least`: what
    each claim gets at every moment, also while others go first.

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
        always = _always(claim, now, least)
        capacity -= always
        demand = claim.demand - always
        level = (claim.left - always * (due - now)) / demand
        i = bisect_right(groups, level, key=_level)
        groups.insert(i, _Group(level, demand, [name]))
        _merge(groups, i, i + 1)
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


def _always(claim: Claim, now: Seconds, least: Cores) -> Cores:
    """Return what a claim gets at every moment until it is due; no more than it needs."""
    time, most = claim.due - now, min(least, claim.demand / 2)
    return most if most * time <= claim.left else claim.left / time


def _serve(groups: list[_Group], capacity: Cores, time: Seconds) -> None:
    # Each round ends a level, or all of the time.
    for _ in range(4 * len(groups) + 4):  # pragma: no branch - no case is known that needs all
        if not groups or time <= 0:
            return
        time -= _fall(groups, capacity, time)


def _level(group: _Group) -> Seconds:
    return group.level


def _merge(groups: list[_Group], first: int, last: int) -> None:
    """Merge each of these groups with the one below it if their levels are equal, and drop groups
    without work.
    """
    for i in range(min(last, len(groups) - 1), max(first, 1) - 1, -1):
        low, high = groups[i - 1], groups[i]
        if high.level - low.level <= _EQUAL:
            low.demand += high.demand
            low.members += high.members
            del groups[i]
    while groups and groups[0].level <= _EQUAL:
        del groups[0]


def _fall(groups: list[_Group], capacity: Cores, most: Seconds) -> Seconds:
    """Serve the highest levels until two levels meet, one is done, or `most` has passed."""
    served: list[tuple[_Group, float]] = []  # with the rate at which each level falls
    for g in reversed(groups):
        if capacity <= 0:
            break
        speed = 1.0 if g.demand <= capacity else capacity / g.demand
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
    _merge(groups, len(groups) - len(served), len(groups))
    return step


def slack(
    claims: Sequence[Claim],
    capacity: Cores,
    now: Seconds,
    others: Sequence[Claim] = (),
    least: Cores = 0.0,
) -> CoreSeconds:
    """Return the service that claims can get at most before they are due, minus what they need.
    `others` get `least` meanwhile, until they are due.
    """
    served, since = 0.0, now
    demand = sum([c.demand for c in claims])
    events = [(c.due, c.demand, 0.0) for c in claims]
    for c in others:
        always = _always(c, now, least)
        capacity -= always
        events.append((c.due, 0.0, always))
    for due, ends, frees in sorted(events):
        if due > since:
            served += (due - since) * min(capacity, demand)
            since = due
        demand -= ends
        capacity += frees
    return served - sum([c.left for c in claims])
