"""Which jobs have converged, for policies that add and remove replicas."""

from headway.core.estimate.category import Category, by_growth
from headway.core.estimate.progress import progress
from headway.core.model.serialization import memory
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import JobId, Seconds


@memory
class Stage:
    """SpeCon's category, for a job instead of a replica."""

    category: Category = Category.GROWING
    growth: float | None = None
    judged_at: Seconds = 0.0


def judge(s: Snapshot, stages: dict[JobId, Stage], interval: Seconds, threshold: float) -> None:
    """Update each job with reports of two intervals since the last update."""
    for gone in [name for name in stages if name not in s.jobs]:
        del stages[gone]
    for name, job in s.jobs.items():
        stage = stages.get(name)
        if name in s.queue or (stage and stage.judged_at > s.at - interval):
            continue
        history = next((r.history for r in s.placed(name) if r.history.windows), None)
        seen = history and progress(history, s.at, interval, sign=job.spec.direction.sign)
        if not seen:
            continue
        stage = stages.setdefault(name, Stage())
        before, stage.growth, stage.judged_at = stage.growth, seen.growth, s.at
        shrinking = before is not None and (seen.growth < before or seen.growth == 0)
        stage.category = by_growth(stage.category, seen.growth, threshold, shrinking=shrinking)


def converged(stages: dict[JobId, Stage], name: JobId) -> bool:
    stage = stages.get(name)
    return stage is not None and stage.category is Category.CONVERGED
