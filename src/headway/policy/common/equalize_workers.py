"""Equal rates for the workers of a synchronous job: all wait for the slowest one, so that more CPU
for the others is lost to other jobs.
"""

from collections.abc import Iterable

from headway.core.estimate.step_rate import SERVER, equal_limits
from headway.core.model.decision import SetShare
from headway.core.model.job import Job, Phase, Replica
from headway.core.model.node import Node
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import SLACK, Cores, JobId
from headway.policy.common.rate_model import cores


def equalize(s: Snapshot, names: Iterable[JobId]) -> list[SetShare]:
    """Limit the workers of those jobs that run synchronously on nodes of different speed."""
    jobs = [s.jobs[name] for name in names if name in s.jobs]
    return [d for job in jobs if _synchronous(job) and s.can(job.id).shares for d in _equal(job, s)]


def _synchronous(job: Job) -> bool:
    speed = job.spec.speed
    return job.phase is Phase.RUNNING and speed is not None and speed.waits


def _equal(job: Job, s: Snapshot) -> list[SetShare]:
    workers = [r for r in s.placed(job.id) if r.task != SERVER]
    nodes = [s.nodes[r.node] for r in workers if r.node is not None and r.node in s.nodes]
    if len(nodes) < len(workers) or any(r.phase is not Phase.RUNNING for r in workers):
        return []
    return [
        SetShare(replica=r.id, limit=limit, weight=r.weight, reason="as fast as its slowest worker")
        for r, limit in zip(workers, _limits(job, workers, nodes), strict=True)
        if not _same(r.limit, limit)
    ]


def _limits(job: Job, workers: list[Replica], nodes: list[Node]) -> list[Cores | None]:
    own: list[Cores | None] = [job.spec.task(r.task).limit for r in workers]
    if len({(n.speed, limit) for n, limit in zip(nodes, own, strict=True)}) <= 1:
        return own
    pairs = zip(workers, nodes, strict=True)
    return [*equal_limits([(cores(job, r.task, n, None), n.speed) for r, n in pairs])]


def _same(a: Cores | None, b: Cores | None) -> bool:
    return a == b if a is None or b is None else abs(a - b) <= SLACK
