"""Results of a run, and their comparison with a baseline."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from statistics import fmean, median, pstdev
from typing import Any

from headway.core.estimate.progress import percentile
from headway.core.model.units import Cores, CoreSeconds, Seconds


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
class Held:
    """Allocated and useful capacity, as fractions of the cluster. None: unknown."""

    cpu_allocated: float | None = None
    """Fraction of the cluster's cores that replicas held: by request, otherwise by usage."""
    cpu_useful: float | None = None
    """Fraction of the cores that made progress: excluding partially started jobs, and time in which
    workers waited for slower or distant ones."""
    gpu_allocated: float | None = None
    gpu_useful: float | None = None
    deadlocks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Held):
    """Result of one policy with one seed. `faster`, `slower` and `worst_ratio` compare it with the
    first policy.
    """

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
    mean_running_s: float = 0.0
    """Mean time from start to finish; completion time includes waiting."""
    foreign_cores: Cores = 0.0
    """Mean number of cores that processes outside Headway used, as far as it was measured."""


FIGURES = (
    "mean_completion_s", "median_completion_s", "p95_completion_s", "makespan_s",
    "mean_time_to_quality_s", "mean_waiting_s", "utilization", "moves", "faster", "slower",
    "worst_ratio", "mean_running_s", "cpu_allocated", "cpu_useful", "gpu_allocated", "gpu_useful",
    "deadlocks", "foreign_cores",
)  # fmt: skip


def summarise(  # noqa: PLR0913 - each is one figure of the result
    per_job: tuple[JobResult, ...],
    *,
    policy: str,
    backend: str,
    seed: int,
    used: CoreSeconds,
    capacity: float,
    quality: Sequence[Seconds] = (),
    held: Held | None = None,
    foreign: Cores = 0.0,
    baseline: "Result | None" = None,
) -> Result:
    """Compute the result. `used`: work of all jobs. `capacity`: work that the cluster can do in a
    second. `quality`: known times to quality.
    """
    completions = sorted(j.completion_s for j in per_job)
    makespan = max(j.finished_s for j in per_job) - min(j.submitted_s for j in per_job)
    faster, slower, worst = _against(per_job, baseline.per_job if baseline else per_job)
    return Result(
        policy=policy,
        backend=backend,
        seed=seed,
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
        mean_running_s=fmean(
            0.0 if j.started_s is None else j.finished_s - j.started_s for j in per_job
        ),
        foreign_cores=foreign,
        **(asdict(held) if held else {}),
    )


BAND = 0.01
"""A job is faster or slower if its completion differs by more than this fraction and a second."""


def against(result: Result, baseline: Result, band: float = BAND) -> Result:
    """Return the result compared with another run of the same jobs."""
    faster, slower, worst = _against(result.per_job, baseline.per_job, band)
    return replace(result, faster=faster, slower=slower, worst_ratio=worst)


def is_slower(mine: JobResult, other: JobResult, band: float) -> bool:
    """Return whether a job took longer than another run of it, by more than `band` and a second."""
    return mine.completion_s > (1 + band) * other.completion_s + 1


def _against(
    ours: Sequence[JobResult], theirs: Sequence[JobResult], band: float = BAND
) -> tuple[int, int, float]:
    """Return the number of faster jobs, of slower jobs (completion above 1 + `band` times the
    other's plus a second), and the worst ratio.
    """
    faster = slower = 0
    worst = 0.0
    for mine, other in zip(ours, theirs, strict=True):
        faster += mine.completion_s * (1 + band) + 1 < other.completion_s
        slower += is_slower(mine, other, band)
        if other.completion_s > 0:
            worst = max(worst, mine.completion_s / other.completion_s)
    return faster, slower, worst


def to_json(results: Sequence[Result]) -> dict[str, Any]:
    """Return the figures of a policy; for several seeds their mean, sd, min and max."""
    first = results[0]
    head = {"policy": first.policy, "backend": first.backend}
    if len(results) == 1:
        figures = {name: getattr(first, name) for name in FIGURES}
        jobs = [{k: getattr(j, k) for k in JobResult.__slots__} for j in first.per_job]
        return {**head, "seed": first.seed, "jobs": first.jobs, **figures, "per_job": jobs}
    seeds = [r.seed for r in results]
    spread = {name: over_seeds([getattr(r, name) for r in results]) for name in FIGURES}
    return {**head, "seed": seeds, "jobs": first.jobs, **spread}


def from_json(plain: dict[str, Any]) -> Result:
    """Invert `to_json` for one run."""
    jobs = tuple(JobResult(**job) for job in plain["per_job"])
    known = {f.name: plain[f.name] for f in fields(Result) if f.name in plain}
    return Result(**{**known, "per_job": jobs})


def over_seeds(values: Sequence[float | None]) -> dict[str, float] | None:
    known = [v for v in values if v is not None]
    if not known:
        return None
    return {"mean": fmean(known), "sd": pstdev(known), "min": min(known), "max": max(known)}
