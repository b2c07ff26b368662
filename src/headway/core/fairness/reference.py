"""The reference world: what plain fair sharing would have given every job on a node by now.

It is kept beside the real one by policies that measure themselves against it. A job's finish in
it is a promise (docs/explanation/nobody-loses.md).
"""

from math import inf

from headway.core.fairness.water_filling import share
from headway.core.model.serialization import memory
from headway.core.model.units import NOTHING, Cores, CoreSeconds, ReplicaId, Resources, Seconds

_DONE = 1e-9


@memory
class ReferenceJob:
    """A replica in the reference world. Amounts are core-seconds of this node."""

    demand: Cores
    weight: float = 1.0
    size: CoreSeconds = inf
    """What it is taken to be."""
    least: CoreSeconds = inf
    """What it is at least: before that it cannot finish here."""
    sure: bool = False
    """It finishes here when it reaches its size. Of an unsure one the end is seen in the real
    world only."""
    done: CoreSeconds = 0.0
    due: Seconds = inf
    """The promise: when it reaches `least` here if nobody else arrives."""
    request: Resources = NOTHING
    left: bool = False
    """It has ended in the real world, and runs on here to its true size."""

    @property
    def finished(self) -> bool:
        return self.sure and self.done >= self.size * (1 - _DONE)


ReferenceJobs = dict[ReplicaId, ReferenceJob]


def advance(shadows: ReferenceJobs, capacity: Cores, time: Seconds) -> None:
    """Let the reference world go on for a while."""
    live = [s for s in shadows.values() if not s.finished]
    while live and time > 0:
        rates = share(capacity, [s.demand for s in live], [s.weight for s in live])
        ends = ((s.size - s.done) / r for s, r in zip(live, rates, strict=True) if s.sure)
        step = min(time, min(ends, default=inf))
        for s, rate in zip(live, rates, strict=True):
            s.done += rate * step
        time -= step
        live = [s for s in live if not s.finished]


def promise(shadows: ReferenceJobs, capacity: Cores, now: Seconds) -> None:
    """Set everybody's due time, were no one else to arrive."""
    live = [(s, s.done) for s in shadows.values() if not s.finished]
    for s, _ in live:
        s.due = inf
    at = now
    while live:
        rates = share(capacity, [s.demand for s, _ in live], [s.weight for s, _ in live])
        goals = [_goal(s, done) for s, done in live]
        steps = [(g - done) / r for (_, done), g, r in zip(live, goals, rates, strict=True)]
        step = min(steps)
        if step == inf:
            return
        at += step
        rest = []
        for (s, done), goal, rate, mine in zip(live, goals, rates, steps, strict=True):
            reached = goal if mine <= step * (1 + _DONE) else done + rate * step
            if reached >= s.least and s.due == inf:
                s.due = at
            if reached < s.size:
                rest.append((s, reached))
        live = rest


def _goal(s: ReferenceJob, done: CoreSeconds) -> CoreSeconds:
    """The next thing that happens to it: it reaches its least, then its size."""
    if done < s.least:
        return s.least
    return s.size if done < s.size else inf


def fair_rates(shadows: ReferenceJobs, capacity: Cores) -> dict[ReplicaId, Cores]:
    """What each gets there at present; 0 for who is done."""
    live = {name: s for name, s in shadows.items() if not s.finished}
    rates = share(capacity, [s.demand for s in live.values()], [s.weight for s in live.values()])
    return dict.fromkeys(shadows, 0.0) | dict(zip(live, rates, strict=True))
