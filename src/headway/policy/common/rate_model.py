"""Predict the rate of a job from its replicas and their nodes, and the time that it still needs."""

from collections.abc import Iterable
from math import inf

from headway.core.estimate.step_rate import SERVER, distances, steps_per_second
from headway.core.model.job import Job, Replica
from headway.core.model.node import Node
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import Cores, CoreSeconds, Seconds, Where

Layout = list[tuple[str, Node, Cores | None]]
"""Task, node and limit of each replica."""


def layout_of(snapshot: Snapshot, replicas: Iterable[Replica]) -> Layout:
    nodes = snapshot.nodes
    return [(r.task, nodes[r.node], r.limit) for r in replicas if r.node and r.node in nodes]


def layout_at(snapshot: Snapshot, where: Where) -> Layout:
    return [(name.task, snapshot.nodes[node], None) for name, node in where]


def rate(job: Job, layout: Layout) -> float:
    """Return work per second if each replica gets what it can use; 0: no progress, or unknown."""
    spec = job.spec
    if spec.speed is None:
        return sum(cores(job, task, node, limit) * node.speed for task, node, limit in layout)
    if not spec.total_steps or spec.expected is None:
        return 0.0
    workers = [(t, n, limit) for t, n, limit in layout if t != SERVER]
    servers = [n for t, n, _ in layout if t == SERVER]
    far = distances(spec.speed, [n for _, n, _ in workers], servers)
    rates = [cores(job, t, n, limit) * n.speed for t, n, limit in workers]
    steps = steps_per_second(spec.speed, list(zip(rates, far, strict=True)), len(servers))
    return steps * spec.expected.work.value / spec.total_steps


def cores(job: Job, task: str, node: Node, limit: Cores | None) -> Cores:
    """Return the cores that a replica can use: as declared, as requested, or the whole node."""
    declared = job.spec.expected.demand if job.spec.expected else None
    requested = job.spec.task(task).request.cpu
    ceiling = job.spec.task(task).limit if limit is None else limit
    most = declared or requested or node.capacity.cpu
    return min(most, node.capacity.cpu, inf if ceiling is None else ceiling)


def left(job: Job) -> CoreSeconds | None:
    """Return an upper bound of the remaining work, by the last report; None: unknown."""
    known = job.remaining or (job.spec.expected.work if job.spec.expected else None)
    return None if known is None or known.error == inf else known.value * (1 + known.error)


def seconds(job: Job, layout: Layout) -> Seconds | None:
    """Return the time that the remaining work takes; None: unknown."""
    work, speed = left(job), rate(job, layout)
    return None if work is None or speed <= 0 else work / speed
