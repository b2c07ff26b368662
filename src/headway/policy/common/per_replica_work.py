"""The work of one replica of a gang: each does an equal part of the job.

Policies for one node see replicas. Declared and learned sizes are about whole jobs.
"""

from dataclasses import replace

from headway.core.estimate.job_size import Known
from headway.core.estimate.step_rate import SERVER
from headway.core.model.job import Estimate, JobSpec


def working_replicas(spec: JobSpec) -> int:
    """Return how many replicas do the work: no parameter servers, if its step costs are known."""
    counts = [t.replicas for t in spec.tasks if spec.speed is None or t.name != SERVER]
    return max(1, sum(counts))


def per_replica(spec: JobSpec) -> JobSpec:
    """Return the job with the size of what one of its replicas does.

    >>> from headway.core.model.job import Expected, Task
    >>> declared = Expected(work=Estimate(value=90.0, error=0.1))
    >>> per_replica(JobSpec(tasks=(Task(replicas=3),), expected=declared)).expected.work
    Estimate(value=30.0, error=0.1)
    """
    count = working_replicas(spec)
    if count == 1 or spec.expected is None:
        return spec
    work = spec.expected.work
    each = Estimate(value=work.value / count, error=work.error)
    return replace(spec, expected=replace(spec.expected, work=each))


def known_per_replica(known: Known | None, count: int) -> Known | None:
    """Return what one of `count` replicas does of a job of this kind."""
    if known is None or count == 1:
        return known
    return Known(work=known.work / count, least=known.least / count, most=known.most / count)
