"""Measure each job of a workload alone on its node, for the simulator.

Equal jobs are measured once. A job runs to its end repeatedly until enough time is measured, and
then once more with a checkpoint, a stop and a restart. Of a distributed job, the speed is measured
(`speed.py`).
"""

import csv
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from headway.backend.cpu_partition import fit_nodes
from headway.backend.foreign_load import NOTICEABLE
from headway.backend.job_store import JobStore
from headway.calibrate.others import Others
from headway.calibrate.speed import (
    SpeedMeasurement,
    is_distributed,
    measure_speed,
    write_points,
)
from headway.core.estimate.curve_fit import FEWEST, fit
from headway.core.model.decision import Suspend
from headway.core.model.job import Direction, Mode, Phase
from headway.core.model.report import MetricHistory, Window
from headway.core.model.units import Bytes, Cores, CoreSeconds, Seconds
from headway.errors import ConfigError
from headway.runtime import journal
from headway.runtime.foreign_use import describe_foreign
from headway.runtime.job_status import finite
from headway.runtime.run import Run
from headway.runtime.start import begin
from headway.runtime.usage_sampler import UsageSampler, samples
from headway.sim.compare import Progress
from headway.spec.arrivals import expand, to_yaml
from headway.spec.node_spec import NodeSpec
from headway.spec.profile import Profile
from headway.spec.runnable import RunnableJob, to_jobs
from headway.spec.workload import Workload

POLL: Seconds = 0.02
"""Interval of polling for the first report of a restarted job."""
INTERVAL: Seconds = 0.5
"""Interval of the points of the loss curve."""
INTERRUPT_AFTER: Seconds = 5.0
"""A job is interrupted after this time, or half-way if that is earlier."""
FULL = 0.9
"""A machine of which more than this part is used leaves no CPU to a job that could use more."""
POINTS = 200
"""Points of a curve, at about this number."""
Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solo:
    """One run of a job alone on its node."""

    used: CoreSeconds
    took: Seconds
    steps: float
    total: float
    """Steps of a complete run."""
    peak: Bytes
    points: Points
    """Mean value of each interval, at its middle step."""
    noise: float
    foreign: Cores = 0.0
    """Cores that processes outside Headway used."""

    @property
    def cut(self) -> bool:
        """Whether the run was stopped before its last step."""
        return self.steps < self.total


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measured profile of one kind of job with one replica."""

    jobs: tuple[str, ...]
    runs: tuple[Solo, ...]
    profile: Profile

    @property
    def foreign(self) -> Cores:
        """Cores that processes outside Headway used in the run with the least of it."""
        return min(r.foreign for r in self.runs)

    def remark(self) -> str:
        """Return a note if the job did not have the machine alone; "": it did."""
        cores = len(os.sched_getaffinity(0))
        if self.foreign <= NOTICEABLE:
            return ""
        head = f"{', '.join(self.jobs)}: {describe_foreign(self.foreign, cores)}"
        if self.foreign + self.profile.demand < FULL * cores:
            return f"{head}, which left enough CPU for the job"
        return (
            f"{head}. Work is CPU time and remains valid. Demand is that of the least disturbed "
            "runs and may still be too low; save and restore times may be too long. Repeat the "
            "measurement on an idle machine"
        )

    def plain(self) -> dict[str, Any]:
        known = self.profile.model_dump(mode="json", exclude_none=True)
        seconds = sum(r.took for r in self.runs)
        return {
            "jobs": self.jobs,
            "runs": len(self.runs),
            "seconds": seconds,
            **known,
            "foreign_cores": round(self.foreign, 3),
        }


def calibrate(
    workload: Workload,
    path: Path,
    to: Path,
    *,
    seconds: Seconds,
    most: Seconds,
    progress: Progress = lambda done, total: None,
) -> list[Measurement | SpeedMeasurement]:
    """Measure a workload and write it with the profiles to `to`, with the curves beside it."""
    listed = expand(workload, where=str(path))
    kinds = _kinds(to_jobs(listed, path))
    found: list[Measurement | SpeedMeasurement] = []
    measured: dict[str, Profile] = {}
    for done, (first, names) in enumerate(kinds):
        progress(done, len(kinds))
        if is_distributed(first):
            speed = measure_speed(listed, first, names, path, seconds)
            write_points(to.with_suffix(f".{first.id}.speed.csv"), speed)
            found.append(speed)
        else:
            probe = _Probe(_alone(listed, first), path, first, most)
            curve = to.with_suffix(f".{first.id}.csv")
            found.append(probe.measure(names, seconds, curve))
        measured.update(dict.fromkeys(names, found[-1].profile))
    jobs = tuple(j.model_copy(update={"measured": measured[j.name]}) for j in listed.jobs)
    to.write_text(to_yaml(_absolute(listed.model_copy(update={"jobs": jobs}), path, to)))
    return found


def _kinds(jobs: Sequence[RunnableJob]) -> list[tuple[RunnableJob, tuple[str, ...]]]:
    """Jobs grouped by their commands and number of steps."""
    groups: dict[str, list[RunnableJob]] = {}
    for job in jobs:
        groups.setdefault(repr((job.commands, job.spec.total_steps)), []).append(job)
    return [(same[0], tuple(j.id for j in same)) for same in groups.values()]


def _alone(listed: Workload, job: RunnableJob) -> Workload:
    """A workload of this job only, at time 0, on the largest node that fits this machine."""
    entry = next(j for j in listed.jobs if j.name == job.id)
    update: dict[str, Any] = {"jobs": (entry.model_copy(update={"at": 0.0}),)}
    if "nodes" in listed.model_fields_set:
        nodes, _ = fit_nodes(listed.to_nodes(), float(len(os.sched_getaffinity(0))), 2.0**60)
        update["nodes"] = (NodeSpec(cpu=max(n.capacity.cpu for n in nodes)),)
    return listed.model_copy(update=update)


def _absolute(workload: Workload, source: Path, to: Path) -> Workload:
    """Make paths of manifests absolute if the new file is in another directory."""
    if source.resolve().parent == to.resolve().parent:
        return workload

    jobs = list(workload.jobs)
    for i, job in enumerate(jobs):
        if job.manifest:
            where = (source.parent / job.manifest).resolve()
            jobs[i] = job.model_copy(update={"manifest": str(where)})
    return workload.model_copy(update={"jobs": tuple(jobs)})


class _Probe:
    """Runs one job alone, as often as needed."""

    def __init__(self, workload: Workload, path: Path, job: RunnableJob, most: Seconds) -> None:
        self.workload, self.path, self.job, self.most = workload, path, job, most

    def measure(self, names: tuple[str, ...], seconds: Seconds, curve: Path) -> Measurement:
        runs: list[Solo] = []
        while sum(r.took for r in runs) < seconds and not (runs and runs[-1].cut):
            runs.append(self._solo())
        whole = [r.used * r.total / r.steps for r in runs]
        quiet = least_disturbed(runs)
        demand = sum(r.used for r in quiet) / sum(r.took for r in quiet)
        points = extend(runs[0], self.job.spec.direction)
        known: dict[str, Any] = {
            "work": round(fmean(whole), 3),
            "demand": round(demand, 3),
            "steps": runs[0].total,
            "memory": max(r.peak for r in runs),
        }
        if len(points) > 1 and points[0][1] != points[-1][1]:  # otherwise there is no curve
            _write(curve, points)
            noise = fmean(r.noise for r in runs)
            known["curve"] = {"file": curve.name, "noise": round(noise, 4)}
        if self.job.spec.checkpoint is not Mode.NONE:
            save, restore = self._interrupted(runs)
            known |= {"save_s": round(save, 3), "restore_s": round(restore, 3)}
        return Measurement(jobs=names, runs=tuple(runs), profile=Profile.model_validate(known))

    def _solo(self) -> Solo:
        def enough(meter: UsageSampler, now: Seconds) -> None:
            if now > self.most:
                meter.backend.cancel("time limit of the measurement")

        others = Others()
        with TemporaryDirectory() as data:
            run = self._run(data, f"interrupted:at=2,interval={INTERVAL}", enough)
            work, totals = run.backend.controller.jobs[self.job.id], run.backend.totals(self.job.id)
            total = work.spec.total_steps or totals.step
            if work.phase is Phase.FAILED or not totals.step:
                raise ConfigError(
                    f"job {work.id!r} cannot be measured: {work.reason or 'no step was reported'}",
                    where=str(self.path),
                    hint="check that it runs: headway run",
                )
            if work.phase is Phase.CANCELLED and not work.spec.total_steps:
                raise ConfigError(
                    f"job {work.id!r} did not finish within {self.most:g} s, and its number of "
                    "steps is unknown",
                    where=str(self.path),
                    hint="set totalSteps, or raise --most",
                )
            points = _points(run)
            return Solo(
                used=totals.used,
                took=(work.finished_at or 0.0) - (work.started_at or 0.0),
                steps=totals.step,
                total=max(total, totals.step),
                peak=totals.peak,
                points=points,
                noise=_noise(run, points),
                foreign=others.used(totals.used),
            )

    def _interrupted(self, runs: Sequence[Solo]) -> tuple[Seconds, Seconds]:
        """Seconds to save and to restore. Training in between is not a cost: half a step on average
        before the checkpoint, and one step until the first report.
        """
        step = fmean(r.took / r.steps for r in runs)
        at = min(0.5, INTERRUPT_AFTER / (step * runs[0].total))
        restart = _RestartProbe()
        with TemporaryDirectory() as data:
            run = self._run(data, f"interrupted:at={at:g},interval=0.1", restart.look)
            if restart.at is None:
                raise ConfigError(
                    f"job {self.job.id!r} declares checkpoints, but saved none",
                    where=str(self.path),
                    hint="checkpoint: {mode: none}",
                )
            asked, left, started = _restart_times(run)
        return max(0.0, left - asked - step / 2), max(0.0, restart.at - started - step)

    def _run(self, data: str, policy: str, look: Callable[[UsageSampler, Seconds], None]) -> Run:
        run = begin(self.workload, self.path, policy, data=Path(data))
        run.go(look)
        if run.interrupted:
            raise KeyboardInterrupt
        return run


@dataclass(slots=True)
class _RestartProbe:
    """Ends the run at the first report of the restarted job."""

    at: Seconds | None = None

    def look(self, meter: UsageSampler, now: Seconds) -> None:
        for w in meter.backend.monitor.replicas.values():
            if w.attempt > 1:
                meter.due = now + POLL
                if w.reader.step is not None and self.at is None:
                    self.at = now
                    meter.backend.cancel("measured")


def _restart_times(run: Run) -> tuple[Seconds, Seconds, Seconds]:
    """Return when the job was asked to stop, had stopped, and was restarted."""
    (job,) = run.backend.controller.jobs.values()
    folder, began = JobStore(run.folder.path).records(job.chief()), run.folder.about["began"]
    lines = journal.read(run.folder.journal)
    made = ((x["at_s"], d) for x in lines for d in x["plan"].decisions)
    asked = next(at for at, decision in made if isinstance(decision, Suspend))
    left, started = ((folder / name).stat().st_mtime - began for name in ("exit.1", "claim.2"))
    return asked, left, started


def _points(run: Run) -> Points:
    reports = [r for line in journal.read(run.folder.journal) for r in line["seen"].reports]
    found, before = [], 0.0
    for report in reports:
        if report.step is not None and report.step > before:
            if report.value is not None:
                found.append(((before + report.step) / 2, report.value))
            before = report.step
    return found


def _noise(run: Run, points: Points) -> float:
    """Standard deviation of a printed value around the mean of its interval, relative to it."""
    sampled = [n for line in samples(run.folder.usage) for n in line["replicas"].values()]
    known = [
        (n["step"], n["value"])
        for n in sampled
        if "step" in n and finite(n.get("value")) is not None
    ]
    if len(points) < FEWEST or len(known) < FEWEST:
        return 0.0
    at, means = zip(*points, strict=True)
    level = [float(np.interp(step, at, means)) for step, _ in known]
    away = [v / m - 1 for (_, v), m in zip(known, level, strict=True) if m]
    return min(1.0, pstdev(away)) if away else 0.0


def least_disturbed(runs: Sequence[Solo]) -> Sequence[Solo]:
    """The runs in which processes outside Headway used least."""
    most = min(r.foreign for r in runs) + NOTICEABLE
    return tuple(r for r in runs if r.foreign <= most)


def extend(run: Solo, direction: Direction) -> Points:
    """The curve up to the job's last step; a cut run is extrapolated by the fitted curve."""
    points = run.points[:: max(1, len(run.points) // POINTS)]
    if not run.cut or not points:
        return points
    windows = tuple(Window(since=0, at=0, value=v, cpu=None, step=k) for k, v in points)
    found = fit(MetricHistory(windows=windows), direction.sign)
    if found is None:
        return points
    last = points[-1][0]
    after = [last + (run.total - last) * i / 20 for i in range(1, 21)]
    return [*points, *((k, -direction.sign * found.at(k)) for k in after)]


def _write(path: Path, points: Points) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("step", "value"), *points])
