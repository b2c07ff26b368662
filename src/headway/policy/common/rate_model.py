"""How fast a job would be with which replicas where, and so how long it will still take."""

from collections.abc import Sequence
from math import inf

from headway.core.estimate.step_rate import SERVER, distances, steps_per_second
from headway.core.model.job import Job, Replica
from headway.core.model.node import Node
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import Cores, CoreSeconds, Seconds
from headway.policy.common.free_capacity import Where

Crew = Sequence[tuple[str, Node, Cores | None]]
"""The task, node and ceiling of each replica."""


def crew_of(
    snapshot: Snapshot, replicas: Sequence[Replica]
) -> list[tuple[str, Node, Cores | None]]:
    return [
        (r.task, snapshot.nodes[r.node], r.limit)
        for r in replicas
        if r.node is not None and r.node in snapshot.nodes
    ]


def crew_at(snapshot: Snapshot, where: Where) -> list[tuple[str, Node, Cores | None]]:
    return [(name.task, snapshot.nodes[node], None) for name, node in where]


def rate(job: Job, crew: Crew) -> float:
    """Work a second, if everybody gets what it can use; 0: it stands still, or is unknown."""
    spec = job.spec
    if spec.speed is None:
        return sum(cores(job, task, node, limit) * node.speed for task, node, limit in crew)
    if not spec.total_steps or spec.expected is None:
        return 0.0
    workers = [(t, n, limit) for t, n, limit in crew if t != SERVER]
    servers = [n for t, n, _ in crew if t == SERVER]
    far = distances(spec.speed, [n for _, n, _ in workers], servers)
    paces = [cores(job, t, n, limit) * n.speed for t, n, limit in workers]
    steps = steps_per_second(spec.speed, list(zip(paces, far, strict=True)), len(servers))
    return steps * spec.expected.work.value / spec.total_steps


def cores(job: Job, task: str, node: Node, limit: Cores | None) -> Cores:
    """What a replica can use: as told, or what it asks for, or the node."""
    told = job.spec.expected.demand if job.spec.expected else None
    asked = job.spec.task(task).request.cpu
    ceiling = job.spec.task(task).limit if limit is None else limit
    most = told or asked or node.capacity.cpu
    return min(most, node.capacity.cpu, inf if ceiling is None else ceiling)


def left(job: Job) -> CoreSeconds | None:
    """Work left at most, as when it was last heard; None: unknown."""
    told = job.remaining or (job.spec.expected.work if job.spec.expected else None)
    return None if told is None or told.error == inf else told.value * (1 + told.error)


def seconds(job: Job, crew: Crew) -> Seconds | None:
    """How long the rest takes with this crew; None: unknown."""
    work, speed = left(job), rate(job, crew)
    return None if work is None or speed <= 0 else work / speed
