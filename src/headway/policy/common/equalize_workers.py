"""Equal speed for the workers of a synchronous job: they wait for the slowest, so that what a
faster node gives beyond it is lost to everybody else there.
"""

from collections.abc import Iterable

from headway.core.estimate.step_rate import SERVER, equal_limits
from headway.core.model.decision import SetShare
from headway.core.model.job import Phase
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import SLACK, Cores, JobId
from headway.policy.common.rate_model import cores


def even(s: Snapshot, names: Iterable[JobId]) -> list[SetShare]:
    """Ceilings for the workers of those among these jobs that run on nodes of unlike speed."""
    found: list[SetShare] = []
    for name in names:
        job = s.jobs.get(name)
        if job is None or job.phase is not Phase.RUNNING:
            continue
        if job.spec.speed is None or not job.spec.speed.waits:
            continue
        workers = [r for r in s.placed(name) if r.task != SERVER]
        nodes = [s.nodes[r.node] for r in workers if r.node is not None and r.node in s.nodes]
        if len(nodes) < len(workers) or any(r.phase is not Phase.RUNNING for r in workers):
            continue
        limits: list[Cores | None] = [job.spec.task(r.task).limit for r in workers]
        if len({(n.speed, limit) for n, limit in zip(nodes, limits, strict=True)}) > 1:
            able = zip(workers, nodes, strict=True)
            limits[:] = equal_limits([(cores(job, r.task, n, None), n.speed) for r, n in able])
        found += [
            SetShare(replica=r.id, limit=limit, weight=r.weight, reason="as fast as the slowest")
            for r, limit in zip(workers, limits, strict=True)
            if not _same(r.limit, limit)
        ]
    return found


def _same(a: Cores | None, b: Cores | None) -> bool:
    return a == b if a is None or b is None else abs(a - b) <= SLACK
