"""What a run achieved, and how it compares."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, pstdev
from typing import Any

from headway.core.units import Seconds
from headway.sim.state import JobState
from headway.sim.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    name: str
    submitted_s: Seconds
    started_s: Seconds | None
    finished_s: Seconds
    steps: float
    moves: int
    outcome: str

    @property
    def completion_s(self) -> Seconds:
        return self.finished_s - self.submitted_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One policy, one seed. `faster`, `slower` and `worst_ratio` are against the first policy."""

    policy: str
    backend: str
    seed: int
    jobs: int
    mean_completion_s: float
    median_completion_s: float
    p95_completion_s: float
    makespan_s: float
    mean_time_to_quality_s: float | None
    mean_waiting_s: float
    utilization: float
    moves: int
    faster: int
    slower: int
    worst_ratio: float
    per_job: tuple[JobResult, ...]


FIGURES = (
    "mean_completion_s", "median_completion_s", "p95_completion_s", "makespan_s",
    "mean_time_to_quality_s", "mean_waiting_s", "utilization", "moves", "faster", "slower",
    "worst_ratio",
)  # fmt: skip


def summarise(world: World, policy: str, baseline: Result | None) -> Result:
    """The world at its end, as figures."""
    per_job = tuple(_job(j) for j in sorted(world.finished, key=lambda j: j.index))
    completions = sorted(j.completion_s for j in per_job)
    first = min(j.submitted_s for j in per_job)
    makespan = max(j.finished_s for j in per_job) - first
    used = sum(j.done + j.wasted for j in world.finished)
    capacity = sum(n.node.capacity.cpu * n.node.speed for n in world.nodes.values())
    quality = [j.quality_at - j.arrival.at for j in world.finished if j.quality_at is not None]
    faster, slower, worst = _against(per_job, baseline.per_job if baseline else per_job)
    return Result(
        policy=policy,
        backend="sim",
        seed=world.scenario.seed,
        jobs=len(per_job),
        mean_completion_s=fmean(completions),
        median_completion_s=median(completions),
        p95_completion_s=percentile(completions, 0.95),
        makespan_s=makespan,
        mean_time_to_quality_s=fmean(quality) if quality else None,
        mean_waiting_s=fmean(
            (j.finished_s if j.started_s is None else j.started_s) - j.submitted_s for j in per_job
        ),
        utilization=used / (capacity * makespan) if makespan else 0.0,
        moves=sum(j.moves for j in per_job),
        faster=faster,
        slower=slower,
        worst_ratio=worst,
        per_job=per_job,
    )


def _job(j: JobState) -> JobResult:
    return JobResult(
        name=j.arrival.id,
        submitted_s=j.arrival.at,
        started_s=j.started_at,
        finished_s=j.arrival.at if j.finished_at is None else j.finished_at,
        steps=j.arrival.steps * j.done / j.arrival.work,
        moves=j.moves,
        outcome=j.phase.value,
    )


def _against(ours: Sequence[JobResult], theirs: Sequence[JobResult]) -> tuple[int, int, float]:
    """Jobs that finish earlier, jobs that are losers (later than 1.01 times the
    other's completion plus a second), and the worst ratio.
    """
    faster = slower = 0
    worst = 0.0
    for mine, other in zip(ours, theirs, strict=True):
        faster += mine.completion_s * 1.01 + 1 < other.completion_s
        slower += mine.completion_s > 1.01 * other.completion_s + 1
        if other.completion_s > 0:
            worst = max(worst, mine.completion_s / other.completion_s)
    return faster, slower, worst


def percentile(ordered: Sequence[float], q: float) -> float:
    """Between the two nearest, in proportion.

    >>> percentile([1.0, 2.0, 3.0], 0.75)
    2.5
    """
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def to_json(results: Sequence[Result]) -> dict[str, Any]:
    """One object a policy: its figures, or over several seeds their mean, sd, min and max."""
    first = results[0]
    head = {"policy": first.policy, "backend": first.backend}
    if len(results) == 1:
        figures = {name: getattr(first, name) for name in FIGURES}
        jobs = [{k: getattr(j, k) for k in JobResult.__slots__} for j in first.per_job]
        return {**head, "seed": first.seed, "jobs": first.jobs, **figures, "per_job": jobs}
    seeds = [r.seed for r in results]
    spread = {name: over_seeds([getattr(r, name) for r in results]) for name in FIGURES}
    return {**head, "seed": seeds, "jobs": first.jobs, **spread}


def over_seeds(values: Sequence[float | None]) -> dict[str, float] | None:
    known = [v for v in values if v is not None]
    if not known:
        return None
    return {"mean": fmean(known), "sd": pstdev(known), "min": min(known), "max": max(known)}
