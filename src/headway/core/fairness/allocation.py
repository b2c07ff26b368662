"""Allocate the cores of a node so that every guarantee is kept (docs/explanation/nobody-loses.md).

A job of unknown size always gets its fair share, so that it is never behind the reference world,
whenever it ends. The other jobs are served in the given order, as far as their guarantees allow.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Generic

from headway.core.fairness.deadlines import Claim, K, infeasible_set, slack
from headway.core.fairness.water_filling import LEAST_SHARE, MARGIN, share
from headway.core.model.units import Cores, CoreSeconds, Seconds

SOON: Seconds = 0.05
"""A set of guarantees whose slack lasts for less than this time is treated as tight."""
ROUNDING: Cores = 1e-9
ROUNDS = 64
"""Maximum number of rounds of a search. A few are enough, unless amounts differ by so many orders
of magnitude that rounding hides the progress."""
STEADY = 1e-6
"""A slack that falls by less than this fraction of the capacity is treated as constant."""

LATE: Seconds = 1.0
"""A guarantee that is missed by more than this is late."""

Drift = Callable[[Seconds], Mapping[K, Seconds]]
"""Delay of each guarantee if all jobs of unknown size continue for this time."""


@dataclass(slots=True, kw_only=True)
class Need:
    """What a job needs to keep its guarantee. Known size: work by a due time. Uncertain size, after
    the due time: a bound on how far it may fall behind its fair share. Unknown size: its fair
    share.
    """

    demand: Cores
    left: CoreSeconds = 0.0
    due: Seconds = inf
    sure: bool = False
    """Whether `left` is all of its remaining work."""
    equal: Cores = 0.0
    """Present fair share. A job of unknown size must get it."""
    room: CoreSeconds = inf
    """Work by which the job may still fall behind. Negative: it must catch up."""
    unknown: bool = False
    """Whether nothing is known of its size."""
    probe: bool = False
    """Whether the job is served first, to measure how much it can use."""


@dataclass(slots=True, kw_only=True)
class Allocation(Generic[K]):
    rates: dict[K, Cores]
    calm_for: Seconds
    """How long these rates can stay unchanged."""
    urgent: set[K]
    behind: set[K]


@dataclass(slots=True)
class _Tight(Generic[K]):
    """A set of guarantees that allows no delay."""

    jobs: tuple[K, ...]
    rate: Cores
    """Cores that the jobs must get together, so that none becomes late."""


def allocate(
    needs: Mapping[K, Need],
    order: Sequence[K],
    capacity: Cores,
    now: Seconds,
    most: Seconds,
    drift: Drift[K] = lambda _: {},
    *,
    whole: Cores | None = None,
) -> Allocation[K]:
    """Allocate cores: first the fair shares of jobs of unknown size, then jobs whose guarantee
    allows no delay, then jobs that are behind, then the others in order. Sets of guarantees that
    allow no delay are added until all others have slack. `whole`: the capacity for which guarantees
    are tested, if it is larger than the capacity that can be allocated now.
    """
    outlook = _Outlook(needs, whole or capacity, now, drift)
    rates = _serve(needs, order, outlook, capacity)
    calm_for, tightest = outlook.horizon(rates, most)
    for _ in range(ROUNDS + len(needs)):  # pragma: no branch - no case is known that needs all
        if tightest is None or calm_for > SOON:
            break
        outlook.add_tight(tightest)
        rates = _serve(needs, order, outlook, capacity)
        calm_for, tightest = outlook.horizon(rates, most)
    rooms = (n.room / n.equal for n in needs.values() if 0 < n.room < inf)
    return Allocation(
        rates=rates,
        calm_for=min(calm_for, min(rooms, default=inf)),
        urgent={n for t in outlook.tight for n in t.jobs},
        behind={n for n, need in needs.items() if need.room <= 0},
    )


class _Outlook(Generic[K]):
    """The guarantees now and later, and the sets of them that allow no delay.

    While a job of unknown size continues, guarantees move. At each moment they must be feasible if
    the job ended at that moment. If all sizes are known, guarantees do not move.
    """

    def __init__(
        self, needs: Mapping[K, Need], capacity: Cores, now: Seconds, drift: Drift[K]
    ) -> None:
        self.capacity, self.now, self.drift = capacity, now, drift
        self.least = capacity * min(MARGIN * LEAST_SHARE, 0.5 / max(1, len(needs)))
        """What each job gets at most while others go first. Beside jobs of unknown size, whose end
        frees more than that, it is not counted.
        """
        if any(need.unknown for need in needs.values()):
            self.least = 0.0
        self.claims = {
            n: Claim(need.left, need.demand, need.due)
            for n, need in needs.items()
            if need.due < inf
        }
        was_due = {n: c.due for n, c in self.claims.items()}
        late = self._delay_late()
        self.was_due = {n: t for n, t in was_due.items() if self.claims[n].due > t + LATE}
        """When guarantees that are late were due."""
        self.soon = self._after(SOON, {})
        self.tight: list[_Tight[K]] = []
        for jobs in dict.fromkeys(late):
            if self._slack(jobs, self.claims, 0.0) <= SOON * capacity:
                self.add_tight(jobs)

    def _delay_late(self) -> Iterable[tuple[K, ...]]:
        """Delay guarantees as little as necessary to make them feasible. Return the sets that were
        not. Only one guarantee of each set is delayed: to delay all would not help the last one.
        """
        found: list[tuple[K, ...]] = []
        for _ in range(ROUNDS + len(self.claims)):
            late = infeasible_set(self.claims, self.capacity, self.now, self.least)
            if not late:
                break
            found.append(late[0])
            claims = [self.claims[n] for n in late[0]]
            short = max(1e-9, -self._slack(late[0], self.claims, 0.0))
            gain, delayed = self._best_to_delay(claims)
            delayed.due = max(delayed.due, self.now) + short / gain
        return found

    def _best_to_delay(self, claims: Sequence[Claim]) -> tuple[Cores, Claim]:
        """Return the claim for which the delay is shortest: the one that can use most of the
        capacity that claims with later due times leave.
        """
        free, gains = self.capacity, []
        for claim in sorted(claims, key=lambda c: -c.due):
            gains.append((min(free, claim.demand), claim))
            free -= claim.demand
        return max(gains, key=lambda gain: gain[0])

    def add_tight(self, jobs: tuple[K, ...]) -> None:
        fall = self._slack(jobs, self.claims, 0.0) - self._slack(jobs, self.soon, SOON)
        self.tight.append(_Tight(jobs, fall / SOON))

    def horizon(
        self, rates: Mapping[K, Cores], most: Seconds
    ) -> tuple[Seconds, tuple[K, ...] | None]:
        """Return how long these rates can stay before a further set of guarantees allows no delay,
        and that set. Test at a time whether all sets are feasible. If one is not, test again at the
        time at which its slack is used up.
        """
        time, tightest = self._first_end(rates, most) if self.least else most, None
        known = {t.jobs for t in self.tight}
        for _ in range(ROUNDS):
            if time <= SOON:
                break
            then = self._after(time, rates)
            late = infeasible_set(
                {n: c for n, c in then.items() if c.left > 1e-9},
                self.capacity,
                self.now + time,
                self.least,
            )
            ends = [(self._used_up(jobs, then, time), jobs) for jobs in late if jobs not in known]
            back, first = min(ends, key=lambda end: end[0], default=(inf, None))
            if back >= time * (1 - 1e-9):
                break
            time, tightest = back, first
        return time, tightest

    def _first_end(self, rates: Mapping[K, Cores], most: Seconds) -> Seconds:
        """Return when the first job that is served will be done: until then slack falls evenly."""
        ends = (c.left / rates[n] for n, c in self.claims.items() if rates.get(n, 0.0) > 0)
        return min([most, *(end for end in ends if end > 2 * SOON)])

    def _used_up(self, jobs: tuple[K, ...], then: Mapping[K, Claim], time: Seconds) -> Seconds:
        """Return when a set of guarantees has no slack left, if its slack falls linearly."""
        first, last = self._slack(jobs, self.claims, 0.0), self._slack(jobs, then, time)
        fall = first - last
        return max(0.0, time * first / fall) if fall > STEADY * self.capacity * time else inf

    def _after(self, time: Seconds, rates: Mapping[K, Cores]) -> dict[K, Claim]:
        """One that is late moves only when it would have been that late anyway."""
        later = self.drift(time)
        found = {
            n: Claim(c.left - rates.get(n, 0.0) * time, c.demand, c.due + later.get(n, 0.0))
            for n, c in self.claims.items()
        }
        for n, due in self.was_due.items():
            found[n].due = max(self.claims[n].due, due + later.get(n, 0.0))
        return found

    def _slack(self, jobs: tuple[K, ...], claims: Mapping[K, Claim], after: Seconds) -> CoreSeconds:
        others = [c for n, c in claims.items() if n not in jobs and c.left > 1e-9]
        return slack([claims[n] for n in jobs], self.capacity, self.now + after, others, self.least)


class _Share(Generic[K]):
    """The cores of a node, allocated job by job."""

    def __init__(self, needs: Mapping[K, Need], order: Sequence[K], capacity: Cores) -> None:
        self.needs, self.left = needs, capacity
        self.rates = dict.fromkeys(order, 0.0)

    def raise_to(self, name: K, most: Cores) -> None:
        more = min(min(most, self.needs[name].demand) - self.rates[name], self.left)
        if more > ROUNDING:
            self.rates[name] += more
            self.left -= more

    def divide(self, names: Sequence[K], most: Sequence[Cores]) -> None:
        """Raise several rates at once, equally if the cores do not suffice for all."""
        more = [max(0.0, m - self.rates[n]) for n, m in zip(names, most, strict=True)]
        for name, cores in zip(names, share(self.left, more, [1.0] * len(more)), strict=True):
            self.raise_to(name, self.rates[name] + cores)


def _serve(
    needs: Mapping[K, Need], order: Sequence[K], outlook: _Outlook[K], capacity: Cores
) -> dict[K, Cores]:
    node = _Share(needs, order, capacity)
    unknown = [n for n in order if needs[n].unknown]
    for name in order:
        if _goes_first(needs[name], outlook.now):
            node.raise_to(name, inf)
    node.divide(unknown, [needs[n].equal for n in unknown])
    _serve_tight(node, order, outlook.tight)
    for owed in (1.0, 2.0):  # their share, then as much again to catch up
        for name, need in needs.items():
            if need.room <= 0:
                node.raise_to(name, owed * need.equal)
    for name in order:
        if not needs[name].unknown:
            node.raise_to(name, inf)
    node.divide(unknown, [needs[n].demand for n in unknown])
    return node.rates


def _serve_tight(node: _Share[K], order: Sequence[K], tight: Sequence[_Tight[K]]) -> None:
    """Give each set the cores that it must get. Subsets are served first, then sets in the order in
    which they ran out of slack.
    """
    inside = {n: [i for i, t in enumerate(tight) if n in t.jobs] for n in order}
    urgent = [n for n in order if inside[n]]
    for name in sorted(urgent, key=lambda n: (-len(inside[n]), inside[n][0])):
        sets = [tight[i] for i in inside[name]]
        due = min([t.rate - sum([node.rates[n] for n in t.jobs]) for t in sets])
        node.raise_to(name, node.rates[name] + due)


def _goes_first(need: Need, now: Seconds) -> bool:
    """Return whether a job goes before jobs whose guarantees allow no delay: because it is overdue,
    or so close to its end that they lose at most a tenth of a second.
    """
    almost_done = need.left / need.demand <= 2 * SOON
    return need.probe or (need.sure and (almost_done or now >= need.due))
