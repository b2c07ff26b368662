"""Capacity reserved for the head of the queue: when and where it will be free.

Other jobs may start where they do not touch it; or in it, if they are predicted to end before it is
needed, or if they can be suspended when the rest of it is free (backfilled jobs).
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

from headway.core.cycle.free_capacity import slots
from headway.core.model.job import Job, JobSpec, Replica
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NOTHING, JobId, NodeId, ReplicaId, Resources, Seconds, Where
from headway.policy.common.node_search import NodeSearch

Free = TypeVar("Free", bound=NodeSearch)
Placer = Callable[[Free, Job, bool], Where | None]
"""Free capacity, job, and whether it may start with fewer replicas."""


@record
class Release:
    """Capacity that a replica would release when it ends, is removed or is suspended."""

    replica: ReplicaId
    node: NodeId
    request: Resources


@record
class Reserved:
    """A place that the head of the queue will have."""

    job: JobId
    where: Where
    at: Seconds | None = None
    """When it is predicted to be free; None: unknown."""
    covered: tuple[Release, ...] = ()
    """The part of it that running jobs are predicted to release until then."""
    awaits: tuple[JobId, ...] = ()
    """Jobs that are releasing capacity for it."""

    @property
    def firm(self) -> bool:
        """Whether no other job may use it meanwhile."""
        return bool(self.awaits)


def held_by(snapshot: Snapshot, replicas: Iterable[Replica]) -> list[Release]:
    """Return the capacity that replicas hold: on their nodes, and where they migrate to."""
    return [
        Release(replica=r.id, node=node, request=snapshot.request(r))
        for r in replicas
        for node in (r.node, r.bound_for)
        if node is not None
    ]


def held_at(spec: JobSpec, where: Where) -> list[Release]:
    """Return the capacity that replicas will hold once they are placed."""
    return [
        Release(replica=name, node=node, request=spec.task_of(name).request) for name, node in where
    ]


def until_fits(
    free: Free, job: Job, releases: Iterable[Sequence[Release]], place: Placer[Free]
) -> tuple[int, Where] | None:
    """Return how many of the releases are needed until the job fits, and its place then. Each
    release is the capacity that becomes free at one time.

    Slots are counted first, which costs one node for each release. The full search runs only when
    there are enough of them.
    """
    trial = free.copy()
    needs = [(t.request, t.replicas) for t in job.spec.tasks]
    counts = [trial.slots(request) for request, _ in needs]
    for done, some in enumerate(chain(((),), releases)):
        for release in some:
            before = trial.node(release.node)
            trial.give(release.node, release.request)
            after = trial.node(release.node)
            if before is not None and after is not None:
                for i, (request, _) in enumerate(needs):
                    had, has = slots(before, request), slots(after, request)
                    counts[i] += 0.0 if had == has else has - had  # both may be infinite
        if all(have >= need for have, (_, need) in zip(counts, needs, strict=True)):
            where = place(trial.copy(), job, False)
            if where is not None:
                return done, where
    return None


def reserved_now(
    spec: JobSpec, where: Where, released: Sequence[Release]
) -> tuple[tuple[NodeId, Resources], ...]:
    """Return the part of a reservation that later releases do not cover: it is taken from the
    capacity that is free now.
    """
    claim: dict[NodeId, Resources] = {}
    for name, node in where:
        claim[node] = claim.get(node, NOTHING) + spec.task_of(name).request
    for release in released:
        claim[release.node] = claim[release.node] - release.request
    return tuple((node, _positive(amount)) for node, amount in claim.items())


def _positive(r: Resources) -> Resources:
    return Resources(cpu=max(0.0, r.cpu), memory=max(0.0, r.memory), gpu=max(0.0, r.gpu))
