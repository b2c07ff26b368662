"""Measures of an arm against another, seed by seed: both run the same jobs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression

from headway.core.model.units import Seconds
from headway.papers.experiments import Experiment, Load, Setting
from headway.runtime.result import JobResult, Result

NO_CHANGE = 0.1
"""A smaller change, in % or points, counts as none."""


@dataclass(frozen=True, slots=True)
class Runs:
    experiment: Experiment
    results: dict[Load, dict[str, list[Result]]]
    """By load and arm, in the order of the seeds."""

    @property
    def seeds(self) -> list[int]:
        return [r.seed for r in next(iter(self.results.values()))[self.experiment.baseline]]


def change(ours: float, theirs: float) -> float:
    """In %.

    >>> change(75.0, 100.0)
    -25.0
    """
    return 100 * (ours / theirs - 1) if theirs else 0.0


def value(result: Result, field: str) -> float:
    """A figure of a result; 0 if it is unknown."""
    return float(getattr(result, field) or 0.0)


def job_changes(ours: Result, theirs: Result) -> list[float]:
    """The change of each job's completion, in %."""
    pairs = zip(ours.per_job, theirs.per_job, strict=True)
    return [change(a.completion_s, b.completion_s) for a, b in pairs]


def count_better(changes: Iterable[float]) -> int:
    return sum(c < -NO_CHANGE for c in changes)


def overlap(jobs: Iterable[JobResult]) -> Seconds:
    """How long all of these jobs ran at the same time."""
    listed = list(jobs)
    began = max(j.submitted_s if j.started_s is None else j.started_s for j in listed)
    return max(0.0, min(j.finished_s for j in listed) - began)


def slope(runs: Runs, at: Setting, jobs: Sequence[str], *, along: int) -> list[float]:
    """By how many points a job's change rises with α (`along` 0, per %) or with the interval (1,
    per second), by seed: the slope of the least-squares line through the settings that share the
    other part of `at`.
    """
    e, arms = runs.experiment, runs.results[None]
    settings = [s for s in e.settings if s[1 - along] == at[1 - along]]
    x = [100 * s[0] if along == 0 else s[1] for s in settings]
    slopes = []
    for seed, base in enumerate(arms[e.baseline]):
        ours = [arms[e.paper_arm(s)][seed] for s in settings]
        slopes.append(linear_regression(x, [_job_change(one, base, jobs) for one in ours]).slope)
    return slopes


Measure = Callable[[Result, Result, Sequence[str]], float]
"""Our result, the other's, and the names of the jobs."""


def _named(result: Result, names: Sequence[str]) -> list[JobResult]:
    return [j for j in result.per_job if j.name in names]


def _seconds(field: str) -> Measure:
    return lambda a, b, jobs: value(a, field)


def _change(field: str) -> Measure:
    return lambda a, b, jobs: change(value(a, field), value(b, field))


def _job_change(a: Result, b: Result, jobs: Sequence[str]) -> float:
    return change(_named(a, jobs)[0].completion_s, _named(b, jobs)[0].completion_s)


def _mean_difference(sign: int) -> Measure:
    """Mean seconds that the better jobs gain (-1) or the worse jobs lose (+1)."""

    def mean(a: Result, b: Result, _: Sequence[str]) -> float:
        pairs = zip(a.per_job, b.per_job, strict=True)
        by = [sign * (x.completion_s - y.completion_s) for x, y in pairs]
        counted = [s for s, c in zip(by, job_changes(a, b), strict=True) if sign * c > NO_CHANGE]
        return fmean(counted) if counted else 0.0

    return mean


SLOPES = {"slope_by_alpha": 0, "slope_by_interval": 1}
"""Measures over several arms, and the part of a setting that varies."""
MEASURES: dict[str, Measure] = {
    "mean_s": _seconds("mean_completion_s"),
    "mean_change": _change("mean_completion_s"),
    "median_change": _change("median_completion_s"),
    "makespan_s": _seconds("makespan_s"),
    "makespan_change": _change("makespan_s"),
    "cpu_useful_change": _change("cpu_useful"),
    "gpu_useful_change": _change("gpu_useful"),
    "job_s": lambda a, b, jobs: _named(a, jobs)[0].completion_s,
    "job_change": _job_change,
    "better": lambda a, b, jobs: count_better(job_changes(a, b)),
    "better_by_s": _mean_difference(-1),
    "worse_by_s": _mean_difference(1),
    "best_change": lambda a, b, jobs: min(job_changes(a, b)),
    "worst_change": lambda a, b, jobs: max(job_changes(a, b)),
    "overlap_s": lambda a, b, jobs: overlap(_named(a, jobs)),
    "overlap_change": lambda a, b, jobs: change(overlap(_named(a, jobs)), overlap(_named(b, jobs))),
}
"""By the name that a claim has in published.yaml."""
