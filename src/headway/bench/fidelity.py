"""Does the simulator say what will happen? Jobs are measured alone, runs with all of them are
foretold from that and nothing else, and then they are run for real, several times.

Delivered time leaves out what others took from the machine meanwhile: for each job the
core-seconds that all jobs were given between its submission and its end.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from statistics import fmean

from headway.bench.figure import Figure
from headway.bench.local import undisturbed
from headway.calibrate import calibrate
from headway.core.model.decision import Move
from headway.core.model.units import JobId
from headway.demo import one
from headway.errors import ConfigError
from headway.papers.observed import MOVED, REBALANCED
from headway.policy.registry import build
from headway.report.cpu_timeline import Recorded, of_run, of_world
from headway.report.step_function import Integral, total
from headway.runtime import journal
from headway.runtime.result import JobResult, Result
from headway.runtime.run import Run
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.sim.summary import summary
from headway.spec.load import read_workload

ARMS = (
    ("fidelity-one.yaml", "flowcon:interval=10"),
    ("fidelity-four.yaml", "specon:interval=5,threshold=0.05,unconverged=0"),
)
"""The papers' intervals of 20 to 60 s, for runs that are some four times as short as theirs."""
DEFAULT = "spread"
LONG_ENOUGH = 40.0
"""No job is measured longer alone."""
MEAN, WORST = 0.15, 0.25
"""How far a prediction may be off, in the mean over the repetitions and at worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What is foretold, and measured."""

    mean_completion: float
    makespan: float
    mean_completion_delivered: float
    makespan_delivered: float


def bench_fidelity(rate: float) -> list[Figure]:
    """Each arm: what was foretold, what was measured, and how far apart they are."""
    del rate
    figures = []
    for name, policy in ARMS:
        with as_file(files("headway") / "data" / name) as source:
            figures += compared(source, policy)
    return figures


def compared(source: Path, policy: str, repetitions: int = 5, seconds: float = 30) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        measured = data / source.name
        calibrate(read_workload(source), source, measured, seconds=seconds, most=LONG_ENOUGH)
        foretold, moves = _foretold(measured, policy)
        real, said = [], []
        for _ in range(repetitions):
            result, run = undisturbed(lambda: one(source, policy, data))
            _all_steps(result, run)
            real.append(_times(result.per_job, of_run(run.folder)))
            said.append(_moves(run))
        found = _off(policy.partition(":")[0], foretold, real)
        if moves or any(said):
            default, _ = one(source, DEFAULT, data)
            found += _beside(moves, said, real, default)
    return found


def _foretold(measured: Path, policy: str) -> tuple[Times, int]:
    scenario = to_scenario(read_workload(measured), path=measured)
    world = simulate(scenario, build(policy), record=True)
    result = summary(world, policy, None)
    return _times(result.per_job, of_world(world)), result.moves


def _times(jobs: Sequence[JobResult], seen: Recorded) -> Times:
    delivered = Integral(total(seen.shares.values())).at
    first, last = min(j.submitted_s for j in jobs), max(j.finished_s for j in jobs)
    return Times(
        mean_completion=fmean(j.completion_s for j in jobs),
        makespan=last - first,
        mean_completion_delivered=fmean(
            delivered(j.finished_s) - delivered(j.submitted_s) for j in jobs
        ),
        makespan_delivered=delivered(last) - delivered(first),
    )


def _off(name: str, foretold: Times, real: Sequence[Times]) -> list[Figure]:
    """By how much each prediction was off, as a part of what was measured."""
    figures = []
    for what in Times.__slots__:
        said = getattr(foretold, what)
        off = [abs(said / getattr(r, what) - 1) for r in real]
        label = f"{name}: {what.replace('_', ' ')}"
        figures += [
            Figure(f"{label}, foretold", said, "s"),
            Figure(f"{label}, measured", fmean(getattr(r, what) for r in real), "s"),
            Figure(f"{label}, off by, mean", fmean(off), "", MEAN),
            Figure(f"{label}, off by, worst", max(off), "", WORST),
        ]
    return figures


def _moves(run: Run) -> list[str]:
    """The mark of each move that was accepted."""
    lines = journal.read(run.folder.journal)
    made = [d.reason for x in lines for d in x["plan"].decisions if isinstance(d, Move)]
    return [mark for reason in made for mark in (MOVED, REBALANCED) if mark in reason]


def _all_steps(result: Result, run: Run) -> None:
    for job in result.per_job:
        wanted = run.backend.works[JobId(job.name)].spec.total_steps
        if job.outcome != "succeeded" or job.steps != wanted:
            said = f"{job.name} {job.outcome} after {job.steps:g} of {wanted} steps"
            raise ConfigError(said, where=str(run.folder.path))


def _beside(
    moves: int, said: Sequence[list[str]], real: Sequence[Times], default: Result
) -> list[Figure]:
    """What the moves were, and what came of them against the default."""
    marks = [mark for one in said for mark in one]
    mean = fmean(r.mean_completion for r in real)
    return [
        Figure("moves foretold", moves, ""),
        Figure("moves made, mean", len(marks) / len(said), ""),
        Figure(f"all runs: moves {MOVED}", marks.count(MOVED), ""),
        Figure(f"all runs: moves {REBALANCED}", marks.count(REBALANCED), ""),
        Figure("runs without a move of either kind", sum(len(set(s)) < 2 for s in said), ""),
        Figure("mean completion against the default", mean / default.mean_completion_s, "x"),
    ]
