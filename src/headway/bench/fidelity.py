"""Accuracy of the simulator: each job is measured alone, a run of all jobs is predicted from these
measurements only, and then the run is made several times.

Delivered time excludes what other programs take from the machine: it is the core-seconds that all
jobs receive between a job's submission and its end.
"""

import tempfile
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from statistics import fmean

from headway.bench.figure import Figure
from headway.bench.local import undisturbed
from headway.calibrate import calibrate
from headway.core.model.decision import Move
from headway.core.model.units import JobId, Seconds
from headway.demo import run_once
from headway.errors import ConfigError
from headway.papers.observed import MOVED, REBALANCED
from headway.policy.registry import build
from headway.report.run_timeline import Integral, RunTimeline, read_timeline, world_timeline
from headway.runtime import journal
from headway.runtime.result import JobResult, Result
from headway.runtime.run import Run
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.sim.summary import summary
from headway.spec.load import read_workload

ARMS = (
    ("fidelity-one.yaml", "flowcon:interval=10"),
    ("fidelity-four.yaml", "specon:interval=5,threshold=0.05,unconverged=0+even+fair"),
)
"""The papers' intervals of 20 to 60 s, shortened as the runs are, by a factor of about four.
Placement is `even`, so that both worlds place the jobs in the same way."""
DEFAULT = "even"
LONGEST = 40.0
"""Seconds; a job is not measured longer alone."""
MEAN, WORST = 0.15, 0.25
"""Largest relative error of a prediction: mean over the repetitions, and at worst."""
Times = dict[str, Seconds]
"""Predicted or measured times of a run, by their names."""


def bench_fidelity() -> list[Figure]:
    """Predicted and measured times of each arm, and their relative error."""
    figures = []
    for name, policy in ARMS:
        with as_file(files("headway") / "data" / name) as source:
            figures += compare(source, policy)
    return figures


def compare(source: Path, policy: str, repetitions: int = 5, seconds: float = 30) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        measured = data / source.name
        calibrate(read_workload(source), source, measured, seconds=seconds, most=LONGEST)
        predicted, moves = _predict(measured, policy)
        real, marks = [], []
        for _ in range(repetitions):
            result, run = undisturbed(lambda: run_once(source, policy, data))
            _require_all_steps(result, run)
            real.append(times(result.per_job, read_timeline(run.folder)))
            marks.append(_move_marks(run))
        found = _errors(policy.partition(":")[0], predicted, real)
        if moves or any(marks):
            default, _ = run_once(source, DEFAULT, data)
            mean = fmean(r["mean completion"] for r in real)
            found += move_figures(moves, marks, mean / default.mean_completion_s)
    return found


def _predict(measured: Path, policy: str) -> tuple[Times, int]:
    scenario = to_scenario(read_workload(measured), path=measured)
    world = simulate(scenario, build(policy), record=True)
    result = summary(world, policy, None)
    return times(result.per_job, world_timeline(world)), result.moves


def times(jobs: Sequence[JobResult], run: RunTimeline) -> Times:
    """Times of a run, elapsed and delivered."""
    used = [Integral(line) for line in run.shares.values()]

    def delivered(since: Seconds, until: Seconds) -> float:
        return sum(job.at(until) - job.at(since) for job in used)

    first, last = min(j.submitted_s for j in jobs), max(j.finished_s for j in jobs)
    return {
        "mean completion": fmean(j.completion_s for j in jobs),
        "makespan": last - first,
        "mean completion delivered": fmean(delivered(j.submitted_s, j.finished_s) for j in jobs),
        "makespan delivered": delivered(first, last),
    }


def _errors(name: str, predicted: Times, real: Sequence[Times]) -> list[Figure]:
    """Errors of each prediction, relative to the measurement."""
    figures = []
    for what, value in predicted.items():
        errors = [abs(value / r[what] - 1) for r in real]
        label = f"{name}: {what}"
        figures += [
            Figure(f"{label}, predicted", value, "s"),
            Figure(f"{label}, measured", fmean(r[what] for r in real), "s"),
            Figure(f"{label}, relative error, mean", fmean(errors), "", MEAN),
            Figure(f"{label}, relative error, worst", max(errors), "", WORST),
        ]
    return figures


def _move_marks(run: Run) -> list[str]:
    """The mark of each planned move."""
    lines = journal.read(run.folder.journal)
    made = [d.reason for x in lines for d in x["plan"].decisions if isinstance(d, Move)]
    return [mark for reason in made for mark in (MOVED, REBALANCED) if mark in reason]


def _require_all_steps(result: Result, run: Run) -> None:
    for job in result.per_job:
        wanted = run.backend.controller.jobs[JobId(job.name)].spec.total_steps
        if job.outcome != "succeeded" or job.steps != wanted:
            text = f"job {job.name} {job.outcome} after {job.steps:g} of {wanted} steps"
            raise ConfigError(text, where=str(run.folder.path))


def move_figures(
    predicted: int, marks: Sequence[Sequence[str]], against_default: float
) -> list[Figure]:
    """The moves of each run by their marks, and mean completion relative to the default policy."""
    every = [mark for run in marks for mark in run]
    return [
        Figure("moves predicted", predicted, ""),
        Figure("moves made, mean", len(every) / len(marks), ""),
        Figure(f"all runs: moves {MOVED}", every.count(MOVED), ""),
        Figure(f"all runs: moves {REBALANCED}", every.count(REBALANCED), ""),
        Figure("runs without both kinds of move", sum(len(set(run)) < 2 for run in marks), ""),
        Figure("mean completion against the default", against_default, "x"),
    ]
