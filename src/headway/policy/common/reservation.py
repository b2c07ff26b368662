"""Room kept for the first in line: when it will have enough, where, and who may use it until then.

Others may start meanwhile where that room is not touched; or in it, if they are predicted to end
before it is needed; or as guests, who can be suspended once the rest of it is free.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from headway.core.model.job import Job, JobSpec
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NOTHING, JobId, NodeId, Resources, Seconds
from headway.policy.common.free_capacity import Release, Room, Where, elastic

Placer = Callable[[Room, Job, bool], Where | None]
"""Room, job, and may it start with fewer than it asks for?"""


@record
class Reserved:
    """A place that the first in line will have."""

    job: JobId
    where: Where
    at: Seconds | None = None
    """When it will be free, by what is predicted; None: unknown."""
    covered: tuple[Release, ...] = ()
    """What of it those who run are predicted to give back until then."""
    awaits: tuple[JobId, ...] = ()
    """Jobs that were made to give room for it and are not through with that."""

    @property
    def firm(self) -> bool:
        """Nobody else may have it meanwhile."""
        return bool(self.awaits)


def smallest(job: Job) -> Job:
    """The job with no more replicas than it needs."""
    task = elastic(job.spec)
    if task is None:
        return job
    least = replace(task, replicas=task.least)
    tasks = tuple(least if t is task else t for t in job.spec.tasks)
    return replace(job, spec=replace(job.spec, tasks=tasks))


def until_fits(
    room: Room, job: Job, releases: Iterable[Sequence[Release]], place: Placer
) -> tuple[int, Where] | None:
    """How many of the releases, each of what comes free at one time, it takes until the job has
    room, and where that is then.

    Slots are counted first, at the cost of one node a replica; the whole search is made only when
    there are enough of them.
    """
    trial = room.copy()
    needs = [(t.request, t.replicas) for t in job.spec.tasks]
    counts = [trial.slots(request) for request, _ in needs]
    for done, some in enumerate(chain(((),), releases)):
        for release in some:
            before = [trial.free(release.node, request) for request, _ in needs]
            trial.give(release.node, release.request)
            for i, (request, _) in enumerate(needs):
                counts[i] += _gained(before[i], trial.free(release.node, request))
        if all(have >= need for have, (_, need) in zip(counts, needs, strict=True)):
            where = place(trial.copy(), job, False)
            if where is not None:
                return done, where
    return None


def _gained(before: float, after: float) -> float:
    return 0.0 if before == after else after - before


def kept(
    spec: JobSpec, where: Where, released: Sequence[Release]
) -> tuple[tuple[NodeId, Resources], ...]:
    """The part of a claim that what is still to come does not cover: it is taken from the room
    that is free now.
    """
    claim: dict[NodeId, Resources] = {}
    for name, node in where:
        claim[node] = claim.get(node, NOTHING) + spec.task(name.task).request
    for release in released:
        claim[release.node] = claim[release.node] - release.request
    return tuple((node, _positive(amount)) for node, amount in claim.items())


def _positive(r: Resources) -> Resources:
    return Resources(cpu=max(0.0, r.cpu), memory=max(0.0, r.memory), gpu=max(0.0, r.gpu))


def under_way(snapshot: Snapshot, job: JobId) -> bool:
    """Is it still giving room?"""
    return any(r.phase.in_transit for r in snapshot.placed(job))
