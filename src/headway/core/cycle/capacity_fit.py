"""Does a gang fit at all? The question before where it should go."""

from collections.abc import Iterable, Sequence

from headway.core.model.job import JobSpec
from headway.core.model.node import Node
from headway.core.model.units import NOTHING, Resources


def requests(spec: JobSpec) -> list[Resources]:
    """Of every replica that it asks to be started with, the largest first."""
    asked = [t.request for t in spec.tasks for _ in range(t.replicas)]
    return sorted(asked, key=lambda r: (r.gpu, r.cpu, r.memory), reverse=True)


def found_room(wanted: Iterable[Resources], nodes: Sequence[Node]) -> int:
    """How many of these find room, one after another, each on the first node that has some."""
    taken = [n.taken for n in nodes]
    count = 0
    for request in wanted:
        fits = (i for i, n in enumerate(nodes) if request.fits(taken[i], n.capacity))
        there = 0 if request is NOTHING else next(fits, None)
        if there is not None:
            taken[there] = taken[there] + request
            count += 1
    return count
