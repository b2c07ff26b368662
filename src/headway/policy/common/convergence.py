"""Which jobs hardly learn any more, for those who give and take replicas."""

from headway.core.estimate.category import Category, by_growth
from headway.core.estimate.progress import progress
from headway.core.model.serialization import memory
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import JobId, Seconds


@memory
class Stage:
    """How far a job's learning is: SpeCon's categories, for the job and not for a replica."""

    category: Category = Category.GROWING
    growth: float | None = None
    judged_at: Seconds = 0.0


def judge(s: Snapshot, stages: dict[JobId, Stage], interval: Seconds, threshold: float) -> None:
    """Look at every job that has been heard through two intervals since it was judged last."""
    for gone in [name for name in stages if name not in s.jobs]:
        del stages[gone]
    for name, job in s.jobs.items():
        stage = stages.get(name)
        if name in s.queue or (stage and stage.judged_at > s.at - interval):
            continue
        track = next((r.track for r in s.placed(name) if r.track.windows), None)
        seen = track and progress(track, s.at, interval, sign=job.spec.direction.sign)
        if not seen:
            continue
        stage = stages.setdefault(name, Stage())
        before, stage.growth, stage.judged_at = stage.growth, seen.growth, s.at
        shrinking = before is not None and (seen.growth < before or seen.growth == 0)
        stage.category = by_growth(stage.category, seen.growth, threshold, shrinking=shrinking)


def converged(stages: dict[JobId, Stage], name: JobId) -> bool:
    stage = stages.get(name)
    return stage is not None and stage.category is Category.CONVERGED
