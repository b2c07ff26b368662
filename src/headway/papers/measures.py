"""Figures of an arm against the baseline, seed by seed: both had the same jobs."""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from headway.core.model.units import Seconds
from headway.papers.claims import SAME, Figure
from headway.papers.experiments import Experiment
from headway.runtime.result import JobResult, Result

Runs = dict[str, list[Result]]
"""By arm, in the order of the seeds."""


def change(ours: float, theirs: float) -> float:
    """In %.

    >>> change(75.0, 100.0)
    -25.0
    """
    return 100 * (ours / theirs - 1) if theirs else 0.0


def changes(ours: Result, baseline: Result) -> list[float]:
    """Of each job's completion, in %."""
    pairs = zip(ours.per_job, baseline.per_job, strict=True)
    return [change(a.completion_s, b.completion_s) for a, b in pairs]


def better(ours: Result, baseline: Result) -> int:
    return sum(c < -SAME for c in changes(ours, baseline))


def worse(ours: Result, baseline: Result) -> int:
    return sum(c > SAME for c in changes(ours, baseline))


def overlap(jobs: Iterable[JobResult]) -> Seconds:
    """How long all of these ran at the same time."""
    listed = list(jobs)
    began = max(j.submitted_s if j.started_s is None else j.started_s for j in listed)
    return max(0.0, min(j.finished_s for j in listed) - began)


def measured(figure: Figure, experiment: Experiment, runs: Runs) -> list[float]:
    """What is published, as it came out here; one number a seed."""
    baseline = runs[experiment.baseline]
    if figure.measure == "slope":
        return _slope(figure, experiment, runs)
    ours = runs[arm_of(figure, experiment)]
    measure = MEASURES[figure.measure]
    return [measure(a, b, figure.jobs) for a, b in zip(ours, baseline, strict=True)]


def arm_of(figure: Figure, experiment: Experiment) -> str:
    if figure.at == "baseline":
        return experiment.baseline
    return experiment.arm(figure.at)


def _slope(figure: Figure, experiment: Experiment, runs: Runs) -> list[float]:
    """By how many points a job's change rises for each second of interval, at one α: the slope
    of the line that fits best.
    """
    alpha = figure.at[0] if isinstance(figure.at, tuple) else experiment.settings[0][0]
    intervals = [s[1] for s in experiment.settings if s[0] == alpha]
    middle = fmean(intervals)
    spread = sum((i - middle) ** 2 for i in intervals)
    found = []
    for seed, base in enumerate(runs[experiment.baseline]):
        ours = [runs[experiment.arm((alpha, i))][seed] for i in intervals]
        by = [_job_change(one, base, figure.jobs) for one in ours]
        found.append(sum((i - middle) * c for i, c in zip(intervals, by, strict=True)) / spread)
    return found


Measure = Callable[[Result, Result, Sequence[str]], float]


def _named(result: Result, names: Sequence[str]) -> list[JobResult]:
    return [j for j in result.per_job if j.name in names]


def _seconds(figure: str) -> Measure:
    return lambda a, b, jobs: float(getattr(a, figure))


def _change(figure: str) -> Measure:
    return lambda a, b, jobs: change(getattr(a, figure), getattr(b, figure))


def _job_change(a: Result, b: Result, jobs: Sequence[str]) -> float:
    return change(_named(a, jobs)[0].completion_s, _named(b, jobs)[0].completion_s)


def _by(sign: int) -> Measure:
    """Mean seconds gained by those who gain (-1), or lost by those who lose (+1)."""

    def mean(a: Result, b: Result, _: Sequence[str]) -> float:
        pairs = zip(a.per_job, b.per_job, strict=True)
        by = [sign * (x.completion_s - y.completion_s) for x, y in pairs]
        told = [s for s, c in zip(by, changes(a, b), strict=True) if sign * c > SAME]
        return fmean(told) if told else 0.0

    return mean


MEASURES: dict[str, Measure] = {
    "mean_s": _seconds("mean_completion_s"),
    "mean_change": _change("mean_completion_s"),
    "median_change": _change("median_completion_s"),
    "makespan_s": _seconds("makespan_s"),
    "makespan_change": _change("makespan_s"),
    "job_s": lambda a, b, jobs: _named(a, jobs)[0].completion_s,
    "job_change": _job_change,
    "better": lambda a, b, jobs: better(a, b),
    "better_by_s": _by(-1),
    "worse_by_s": _by(1),
    "best_change": lambda a, b, jobs: min(changes(a, b)),
    "worst_change": lambda a, b, jobs: max(changes(a, b)),
    "overlap_s": lambda a, b, jobs: overlap(_named(a, jobs)),
    "overlap_change": lambda a, b, jobs: change(overlap(_named(a, jobs)), overlap(_named(b, jobs))),
}
