"""A gang's work is its replicas' together: each is taken to do an equal part of it.

Policies for one node see replicas. What is told of a job, and what its like once took, is about
the whole of it.
"""

from dataclasses import replace

from headway.core.estimate.job_size import Known
from headway.core.estimate.step_rate import SERVER
from headway.core.model.job import Estimate, JobSpec


def crew(spec: JobSpec) -> int:
    """How many of its replicas do its work. A parameter server does none, where it is known how
    fast the job is with which workers; else whoever belongs to it.
    """
    counts = [t.replicas for t in spec.tasks if spec.speed is None or t.name != SERVER]
    return max(1, sum(counts))


def part(spec: JobSpec) -> JobSpec:
    """The job, as large as what one of its replicas does of it.

    >>> from headway.core.model.job import Expected, Task
    >>> told = Expected(work=Estimate(value=90.0, error=0.1))
    >>> part(JobSpec(tasks=(Task(replicas=3),), expected=told)).expected.work
    Estimate(value=30.0, error=0.1)
    """
    count = crew(spec)
    if count == 1 or spec.expected is None:
        return spec
    work = spec.expected.work
    each = Estimate(value=work.value / count, error=work.error)
    return replace(spec, expected=replace(spec.expected, work=each))


def part_of(known: Known | None, count: int) -> Known | None:
    """What one of so many replicas does of a job of this kind."""
    if known is None or count == 1:
        return known
    return Known(work=known.work / count, least=known.least / count, most=known.most / count)
