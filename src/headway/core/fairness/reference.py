"""The reference world: what each job on a node would have got under fair sharing until now.

Policies keep it in their memory. The finish time of a job in it is its guarantee
(docs/explanation/nobody-loses.md).
"""

from collections.abc import Mapping, Sequence
from math import inf

from headway.core.estimate.job_size import TRUSTED
from headway.core.fairness.water_filling import share_among_users
from headway.core.model.serialization import memory
from headway.core.model.units import NOTHING, Cores, CoreSeconds, ReplicaId, Resources, Seconds

_DONE = 1e-9
NONE: Mapping[ReplicaId, Cores] = {}


@memory
class ReferenceJob:
    """A replica in the reference world. Amounts are core-seconds of this node."""

    demand: Cores
    weight: float = 1.0
    size: CoreSeconds = inf
    """Estimated size."""
    least: CoreSeconds = inf
    """Smallest possible size. The job cannot finish here earlier."""
    sure: bool = False
    """Whether the size is known, so that the job finishes here when it reaches its size. Otherwise
    it finishes when the real job ends."""
    done: CoreSeconds = 0.0
    due: Seconds = inf
    """The guarantee: when the job reaches `least` here if no other job arrives."""
    end: Seconds = inf
    """When the job reaches `size` here if no other job arrives."""
    request: Resources = NOTHING
    left: bool = False
    """Whether the real job has ended. It continues here up to its actual size."""
    owner: str = ""
    """User of the job. Users have equal shares, which their jobs divide by weight."""

    @property
    def finished(self) -> bool:
        return self.sure and self.done >= self.size * (1 - _DONE)

    def resize(self, size: CoreSeconds, least: CoreSeconds, *, sure: bool) -> None:
        """Set a new estimate. A job that has finished here stays finished if the estimate grows by
        no more than its error: a guarantee that has passed does not become later.
        """
        finished = self.finished
        self.size, self.least, self.sure = size, least, sure
        if finished and sure and size - self.done <= TRUSTED * size:
            self.done = size


ReferenceJobs = dict[ReplicaId, ReferenceJob]


def advance(
    jobs: ReferenceJobs, capacity: Cores, time: Seconds, used: Mapping[ReplicaId, Cores] = NONE
) -> None:
    """Advance the reference world by `time`. `used`: cores used by jobs that could have used more.
    They do not get more here.
    """
    live = [s for s in jobs.values() if not s.finished]
    caps = {id(jobs[n]): cores for n, cores in used.items()}
    while live and time > 0:
        demands = [min(s.demand, caps.get(id(s), inf)) for s in live]
        rates = _rates(capacity, demands, live)
        ends = ((s.size - s.done) / r for s, r in zip(live, rates, strict=True) if s.sure and r > 0)
        step = min(time, min(ends, default=inf))
        for s, rate in zip(live, rates, strict=True):
            s.done += rate * step
        time -= step
        live = [s for s in live if not s.finished]


def _rates(capacity: Cores, demands: Sequence[Cores], live: Sequence[ReferenceJob]) -> list[Cores]:
    """Return the rates under fair sharing: users have equal shares, which their jobs divide."""
    return share_among_users(capacity, demands, [s.weight for s in live], [s.owner for s in live])


def set_guarantees(jobs: ReferenceJobs, capacity: Cores, now: Seconds) -> None:
    """Set the due time of each job of known size, if no other job arrives and all jobs of unknown
    size end now.
    """
    unfinished = [s for s in jobs.values() if not s.finished]
    for s in unfinished:
        s.due = s.end = inf
    live = [(s, s.done) for s in unfinished if s.size < inf]
    at = now
    while live:
        rates = _rates(capacity, [s.demand for s, _ in live], [s for s, _ in live])
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
            else:
                s.end = at
        live = rest


def _goal(s: ReferenceJob, done: CoreSeconds) -> CoreSeconds:
    """Return the work at the next event of a job: it reaches `least`, then its size."""
    if done < s.least:
        return s.least
    return s.size if done < s.size else inf


def fair_rates(jobs: ReferenceJobs, capacity: Cores) -> dict[ReplicaId, Cores]:
    """Return the present rate of each job in the reference world; 0 if it is finished."""
    live = {name: s for name, s in jobs.items() if not s.finished}
    rates = _rates(capacity, [s.demand for s in live.values()], list(live.values()))
    return dict.fromkeys(jobs, 0.0) | dict(zip(live, rates, strict=True))
