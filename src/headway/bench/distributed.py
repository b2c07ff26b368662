"""The papers' experiments with distributed jobs, scaled down to real processes on four virtual
nodes of this machine, and what the simulator predicts for them.

One job is calibrated alone. All policies then run in turn, several rounds of them.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import environ, sched_getaffinity
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import fmean
from typing import Any

from headway.bench.fidelity import MEAN, WORST
from headway.bench.figure import Figure
from headway.bench.local import undisturbed
from headway.calibrate.speed import measure_speed
from headway.core.model.units import Cores, CoreSeconds, Seconds
from headway.demo import run_once
from headway.errors import ConfigError
from headway.policy.registry import build
from headway.runtime.result import Result
from headway.runtime.run import Run
from headway.runtime.start import begin
from headway.runtime.usage_sampler import UsageSampler
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.sim.summary import summary
from headway.spec.arrivals import to_yaml
from headway.spec.runnable import POOLS, to_jobs
from headway.spec.speed import SpeedSpec
from headway.spec.workload import Workload, make_workload

POLICIES = (
    "spread",
    "dragon:starve_after=4,grow_after=4,restart=3",
    "kips:interval=2,cool_down=4,restart=3",
    "headway",
)
"""Times of the policies are shortened as the runs are."""
PAIRS = 1
NODES = 4
LINK = {"bandwidth": "16Mi"}
SAMPLES = 225
"""In a chunk: a step takes about 0.1 core-seconds, and sends 0.6 MB of gradients."""
CALIBRATED: Seconds = 16.0
"""Time of the measurement of the speed, without starts."""
WORKED = 20
"""Number of steps over which the CPU of one step is measured."""
SINGLE = dict.fromkeys(POOLS, "1")
MEASURES = {"elapsed": "makespan_s", "mean completion": "mean_completion_s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """CPU in parts of a node. `jobs`: arrival, steps, and workers (at first, at most)."""

    name: str
    worker: float
    server: float
    demand: float
    limited: bool
    """Whether a worker is limited to what it requests."""
    jobs: tuple[tuple[Seconds, int, int, int], ...]

    @property
    def steps(self) -> int:
        return sum(job[1] for job in self.jobs)


EXPERIMENTS = (
    # Eight workers fill the cluster, as the eight GPUs of E-D1 do; a GPU cannot do more.
    Experiment(
        name="E-D", worker=0.4, server=0.1, demand=0.4, limited=False,
        jobs=((0, 30, 2, 4), (1, 60, 4, 8), (2, 30, 1, 2), (3, 60, 3, 6), (4, 45, 2, 4)),
    ),
    # Workers of a quarter of a node, which could use four times as much.
    Experiment(
        name="E-K", worker=0.25, server=0.125, demand=1.0, limited=True,
        jobs=((0, 30, 3, 6), (1, 60, 3, 6), (2, 30, 3, 6), (3, 60, 3, 6), (4, 30, 3, 6)),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Measured costs of a job that runs alone."""

    speed: SpeedSpec
    start: Seconds
    step: Seconds
    work: CoreSeconds
    """CPU of a step. The fit of the speed does not always tell it from other costs."""


@dataclass(slots=True)
class Outcome:
    """The results of one policy, and the simulator's."""

    policy: str
    predicted: Result
    real: list[Result] = field(default_factory=list)

    def errors(self, what: str) -> list[float]:
        return [abs(getattr(self.predicted, what) / getattr(r, what) - 1) for r in self.real]


def bench_distributed(
    pairs: int = PAIRS, experiments: Sequence[Experiment] = EXPERIMENTS
) -> list[Figure]:
    """`pairs`: rounds of all policies."""
    figures = []
    for experiment in experiments:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "distributed.yaml"
            costs = _calibrate(experiment, path)
            written = workload(experiment, costs)
            path.write_text(to_yaml(written))
            outcomes = [Outcome(policy, predict(written, policy)) for policy in POLICIES]
            for _ in range(pairs):
                for outcome in outcomes:
                    outcome.real.append(_real(path, outcome.policy))
        figures += figures_of(experiment, costs, outcomes)
    return figures


def workload(experiment: Experiment, costs: Costs | None = None, *, count: int = NODES) -> Workload:
    """`costs`: measured; without them it can be run, but not simulated. `count`: of nodes."""
    node = cores() / NODES
    jobs = []
    for i, (at, steps, workers, most) in enumerate(experiment.jobs):
        entry: dict[str, Any] = {"name": f"job-{i}", "at": at}
        entry["spec"] = _spec(experiment, steps, workers, most)
        if costs:
            entry["measured"] = {
                "steps": steps,
                "demand": experiment.demand * node,
                "speed": costs.speed.model_dump(exclude_none=True),
            }
        jobs.append(entry)
    made: dict[str, Any] = {}
    if costs:
        start = {f"{what}_s": costs.start for what in ("start", "restore")}
        made["costs"] = {**start, "save_s": costs.step, "rescale_s": costs.start + costs.step}
    nodes = [{"name": "node", "cpu": node, "count": count}]
    return make_workload(nodes=nodes, link=LINK, jobs=jobs, **made)


def _spec(experiment: Experiment, steps: int, workers: int, most: int) -> dict[str, Any]:
    node = cores() / NODES
    command = [*_training(steps), "--demand", f"{min(1.0, experiment.demand * node):g}"]
    every = {"command": command, "env": SINGLE}
    request = {"requests": {"cpu": experiment.worker * node}}
    limit = {"limits": {"cpu": experiment.worker * node}} if experiment.limited else {}
    server = {"requests": {"cpu": experiment.server * node}}
    bounds = {"replicas": workers, "minReplicas": 1, "maxReplicas": most}
    tasks = [
        {"name": "ps", **every, "resources": server},
        {"name": "worker", **every, **bounds, "resources": {**request, **limit}},
    ]
    return {"tasks": tasks, "checkpoint": {"mode": "sdk"}, "totalSteps": steps}


def _training(steps: int) -> list[str]:
    command = [sys.executable, "-m", "headway.trainings", "ps-sync", "--steps", str(steps)]
    return [*command, "--batches", str(SAMPLES), "--epoch", "1"]


def cores() -> Cores:
    return float(len(sched_getaffinity(0)))


# -- measured, predicted, real ---------------------------------------------------------------------


def _calibrate(experiment: Experiment, path: Path) -> Costs:
    """Measure the speed of the first job with as many steps as needed, and its start."""
    _, steps, workers, most = experiment.jobs[0]
    node = cores() / NODES
    spec = _spec(experiment, 100_000, workers, most)
    demand = {"work": 1.0, "demand": experiment.demand * node}
    alone = [{"name": "job-0", "spec": spec, "profile": demand}]
    listed = make_workload(link=LINK, jobs=alone)
    (job,) = to_jobs(listed, path)
    found = measure_speed(listed, job, ("job-0",), path, CALIBRATED)
    speed = found.profile.speed
    if speed is None:
        raise ConfigError("the speed was not measured", where=str(path))
    # On one node: its processes start side by side, as when other jobs use the nodes.
    first = workload(replace(experiment, jobs=experiment.jobs[:1]), count=1)
    took, result = _first_step(first, path)
    step = (result.per_job[0].completion_s - took) / (steps - 1)
    few, many = _cpu_time(1), _cpu_time(1 + WORKED)
    work = (many - few) / WORKED
    return Costs(speed=speed, start=max(0.0, took - step), step=step, work=work)


def _cpu_time(steps: int) -> CoreSeconds:
    """Run the training in one process; return the CPU that it used."""
    command = _training(steps)
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, env={**environ, **SINGLE}, stdout=subprocess.DEVNULL, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _first_step(alone: Workload, path: Path) -> tuple[Seconds, Result]:
    """Run a job; return when its first step was done, and the result."""
    seen: list[Seconds] = []

    def look(meter: UsageSampler, now: Seconds) -> None:
        if not seen:
            meter.due = now + 0.05
            seen.extend(now for each in meter.latest.values() if each.step)

    with tempfile.TemporaryDirectory() as data:
        run = begin(alone, path, "gang", data=Path(data))
        result = run.go(look)
        if run.interrupted:
            raise KeyboardInterrupt
        _require_success(result, run)
    return seen[0], result


def predict(written: Workload, policy: str) -> Result:
    return summary(simulate(to_scenario(written), build(policy)), policy, None)


def _real(path: Path, policy: str) -> Result:
    with tempfile.TemporaryDirectory() as data:
        result, run = undisturbed(lambda: run_once(path, policy, Path(data)))
        _require_success(result, run)
    return result


def _require_success(result: Result, run: Run) -> None:
    failed = [f"job {j.name} {j.outcome}" for j in result.per_job if j.outcome != "succeeded"]
    if failed:
        text = f"under {result.policy}: {', '.join(failed)}"
        raise ConfigError(text, where=str(run.folder.path))


def figures_of(experiment: Experiment, costs: Costs, outcomes: Sequence[Outcome]) -> list[Figure]:
    name, work = experiment.name, experiment.steps * costs.work
    figures = [
        Figure(f"{name}: speed, error for a rate that was left out", costs.speed.error or 0.0, ""),
        Figure(f"{name}: start of a job", costs.start, "s"),
    ]
    for outcome in outcomes:
        label = f"{name}, {outcome.policy.partition(':')[0]}"
        for what, measure in MEASURES.items():
            found = [getattr(r, measure) for r in outcome.real]
            figures += [
                Figure(f"{label}: {what}", fmean(found), "s"),
                Figure(f"{label}: {what}, longest", max(found), "s"),
                Figure(f"{label}: {what}, predicted", getattr(outcome.predicted, measure), "s"),
            ]
        useful = fmean(work / (cores() * r.makespan_s) for r in outcome.real)
        figures.append(Figure(f"{label}: cores that made progress", useful, ""))
    for what, measure in MEASURES.items():  # over all policies and runs
        errors = [e for outcome in outcomes for e in outcome.errors(measure)]
        figures += [
            Figure(f"{name}: {what}, relative error, mean", fmean(errors), "", MEAN),
            Figure(f"{name}: {what}, relative error, worst", max(errors), "", WORST),
        ]
    return figures
