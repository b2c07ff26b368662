"""Order jobs of known size so that their mean completion time is minimal."""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.core.fairness.deadlines import K
from headway.core.fairness.water_filling import total_completion
from headway.core.model.units import Cores, CoreSeconds, Seconds

NEXT = 8
"""Number of jobs at the head among which the best position of a narrow job is searched."""
TOLERANCE: Seconds = 0.05


@dataclass(slots=True, kw_only=True)
class Waiting:
    left: CoreSeconds
    due: Seconds
    demand: Cores
    movable: bool = True
    """Whether `left` is certain, so that its best position can be computed."""


def smith_order(jobs: Mapping[K, Waiting], now: Seconds, *, fits: Cores, cores: Cores) -> list[K]:
    """Smith's rule, from the back: last is the longest of the jobs whose guarantees allow it, then
    the same for the rest. `fits`: the capacity for which guarantees are tested.
    """
    end = now + sum([job.left for job in jobs.values()]) / fits
    rest, order = list(jobs), list[K]()
    while rest:
        able = [n for n in rest if jobs[n].due >= end - TOLERANCE]
        able = able or [max(rest, key=lambda n: jobs[n].due)]
        last = max(reversed(able), key=lambda n: jobs[n].left)
        rest.remove(last)
        order.append(last)
        end -= jobs[last].left / fits
    return _place_narrow(jobs, order[::-1], cores)


def _place_narrow(jobs: Mapping[K, Waiting], order: list[K], cores: Cores) -> list[K]:
    """Smith's rule assumes that each job can use the whole node. A job that cannot (a narrow one)
    delays others little: put it where the sum of completion times is smallest.
    """
    head, tail = order[:NEXT], order[NEXT:]
    work = {n: (jobs[n].left, jobs[n].demand) for n in head}
    best = total_completion([work[n] for n in head], cores)
    for narrow in [n for n in head if jobs[n].movable and jobs[n].demand < cores]:
        others = [n for n in head if n != narrow]
        for i in range(len(head)):
            tried = [*others[:i], narrow, *others[i:]]
            if tried == head:
                continue
            total = total_completion([work[n] for n in tried], cores, best * (1 - 1e-9))
            if total < best:
                head, best = tried, total
    return head + tail
