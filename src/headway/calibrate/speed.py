"""Measure how fast a distributed job is, by workers, CPU of each worker, and placement."""

import csv
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from headway.backend.foreign_load import NOTICEABLE
from headway.calibrate.others import Others
from headway.calibrate.speed_fit import Point, fit_speed, left_out_error
from headway.core.estimate.step_rate import SERVER, Speed
from headway.core.model.job import Phase
from headway.core.model.units import Cores, Seconds
from headway.errors import ConfigError
from headway.runtime.foreign_use import describe_foreign
from headway.runtime.start import begin
from headway.runtime.usage_sampler import UsageSampler
from headway.spec.link import LinkSpec
from headway.spec.manifest import TaskSpec, TrainingJobSpec
from headway.spec.profile import Profile
from headway.spec.runnable import RunnableJob
from headway.spec.speed import SpeedSpec
from headway.spec.workload import JobEntry, Workload, make_workload

POLL: Seconds = 0.05
"""Interval of polling for steps."""
WARM_UP: Seconds = 1.0
"""Time after the first step that is not measured: workers may still join."""
SHORTEST: Seconds = 0.5
"""Least time of a measurement."""
MOST_WORKERS = 4
Setting = tuple[int, Cores, bool]
"""The number of workers, the cores of each, and whether they are on another node than the server,
or, in a ring, on several nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedMeasurement:
    """The measured speed of one kind of distributed job."""

    jobs: tuple[str, ...]
    points: tuple[Point, ...]
    profile: Profile
    speed: Speed
    foreign: Cores
    """Cores that processes outside Headway used."""

    @property
    def errors(self) -> list[float]:
        """Relative error of the model at each point."""
        return [p.error(self.speed) for p in self.points]

    def plain(self) -> dict[str, Any]:
        known = self.profile.model_dump(mode="json", exclude_none=True)
        points = [asdict(p) | {"predicted": p.predicted(self.speed)} for p in self.points]
        return {
            "jobs": self.jobs,
            "points": points,
            **known,
            "foreign_cores": round(self.foreign, 3),
        }


def is_distributed(job: RunnableJob) -> bool:
    return len(job.spec.tasks) > 1 or job.spec.tasks[0].most > 1


def plan_points(
    most: int, cores: Cores, *, limit: Cores | None = None, ring: bool = False
) -> list[Setting]:
    """Return what to measure. Workers use half of the cores together, so that the server has
    enough; some no more than a smaller `limit`, with which the job is to run. A ring of one worker
    is on one node.

    >>> plan_points(2, 8.0, ring=True)
    [(1, 1.0, False), (2, 1.0, False), (1, 2.0, False), (2, 2.0, False), (2, 1.0, True)]
    >>> plan_points(1, 8.0, limit=0.5)
    [(1, 0.5, False), (1, 2.0, False), (1, 0.5, True), (1, 2.0, True)]
    """
    counts = sorted({1, min(2, most), min(MOST_WORKERS, most)})
    few, small, large = counts[:2], min(cores / 8, limit or cores), cores / 4
    near = [(w, small, False) for w in counts] + [(w, large, False) for w in few]
    far = [(w, small, True) for w in few if w > 1 or not ring]
    return near + far + ([] if ring else [(1, large, True)])


def measure_speed(
    listed: Workload, job: RunnableJob, names: tuple[str, ...], path: Path, seconds: Seconds
) -> SpeedMeasurement:
    """Run this job of a workload alone at each point, and fit the model."""
    entry = next(j for j in listed.jobs if j.name == job.id)
    if job.manifest is None:
        raise ConfigError(f"job {job.id!r} has no command", where=str(path))
    worker = next(t for t in job.manifest.tasks if t.name != SERVER)
    kind = _kind(job.manifest, worker)
    whole, limit = float(len(os.sched_getaffinity(0))), worker.resources.limits.cpu
    plan = plan_points(worker.most, whole, limit=limit, ring=kind == "ring")
    each = max(SHORTEST, seconds / len(plan))
    demand = (entry.profile or Profile(work=1.0)).demand
    points, foreign = [], []
    for count, cores, far in plan:
        rate, others = _rate(job, (count, cores, far), listed.link, path, each)
        foreign.append(others)
        most = min(cores, demand)
        points.append(Point(workers=count, cores=most, far=far, steps_per_s=rate))
    speed = fit_speed(kind, points)
    return SpeedMeasurement(
        jobs=names,
        points=tuple(points),
        profile=_profile(entry, job, speed, left_out_error(kind, points)),
        speed=speed,
        foreign=fmean(foreign),
    )


def _kind(manifest: TrainingJobSpec, worker: TaskSpec) -> str:
    if all(t.name != SERVER for t in manifest.tasks):
        return "ring"
    return "async" if worker.elastic.one_by_one else "sync"


def _profile(entry: JobEntry, job: RunnableJob, speed: Speed, error: float) -> Profile:
    costs = {
        "compute": speed.compute,
        "fixed": speed.fixed,
        "transfer_s": speed.transfer,
        "per_server_s": speed.per_server,
        "latency_s": speed.latency,
        "penalty": speed.penalty,
        "error": error,
    }
    rounded = {name: float(f"{cost:.4g}") for name, cost in costs.items()}
    written = SpeedSpec.model_validate({"kind": speed.kind, **rounded})
    known = entry.profile.model_dump(exclude={"work", "speed"}) if entry.profile else {}
    known |= {"steps": job.spec.total_steps or known.get("steps", 1000), "speed": written}
    return Profile.model_validate(known)


def write_points(path: Path, found: SpeedMeasurement) -> None:
    head = ("workers", "cores", "placement", "steps_per_s", "predicted")
    rows = [
        (p.workers, p.cores, "other" if p.far else "same", p.steps_per_s, p.predicted(found.speed))
        for p in found.points
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def describe(found: SpeedMeasurement) -> str:
    speed, error = found.profile.speed, fmean(found.errors)
    loss = speed.error if speed and speed.error else 0.0
    said = (
        f"{', '.join(found.jobs)}: speed fitted to {len(found.points)} rates, mean error "
        f"{error:.0%}, worst {max(found.errors):.0%}; {loss:.0%} for a rate that was left out"
    )
    if found.foreign <= NOTICEABLE:
        return said
    used = describe_foreign(found.foreign, len(os.sched_getaffinity(0)))
    return f"{said}. {used}: repeat the measurement on an idle machine"


# -- one point -------------------------------------------------------------------------------------


def _rate(
    job: RunnableJob, at: Setting, link: LinkSpec | None, path: Path, seconds: Seconds
) -> tuple[float, Cores]:
    """Return the steps per second, and the cores that others used meanwhile."""
    watch, others = _Steps(seconds), Others()
    with TemporaryDirectory() as data:
        run = begin(workload_at(job, at, link), path, "gang", data=Path(data))
        run.go(watch.look)
        if run.interrupted:
            raise KeyboardInterrupt
        record = run.backend.controller.jobs[job.id]
        foreign = others.used(run.backend.totals(job.id).used)
    rate = watch.rate()
    if record.phase is Phase.FAILED or rate is None:
        raise ConfigError(
            f"job {job.id!r} cannot be measured with {at[0]} workers: "
            f"{record.reason or 'it made too few steps'}",
            where=str(path),
            hint="check that it runs (headway run), or give it more steps",
        )
    return rate, foreign


def workload_at(job: RunnableJob, at: Setting, link: LinkSpec | None = None) -> Workload:
    """Return the job alone with so many workers, each limited to so many cores. If they are to be
    on another node, requests allow no other placement: the workers fill their node, and the server
    the other one; in a ring, each worker fills a node.
    """
    count, cores, far = at
    whole = float(len(os.sched_getaffinity(0)))
    manifest = job.manifest or TrainingJobSpec()
    ring = all(t.name != SERVER for t in manifest.tasks)
    rest = whole - count * cores
    parts = [cores] * count if ring else [rest, count * cores]
    tasks = []
    for task in manifest.tasks:
        served = task.name == SERVER
        number, request = (1, rest) if served else (count, cores)
        resources: dict[str, Any] = {"requests": {"cpu": request if far else 0.0}}
        if not served:
            resources["limits"] = {"cpu": cores}
        tasks.append(
            {
                **task.model_dump(mode="json", by_alias=True, exclude_unset=True),
                **dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), number),
                "resources": resources,
                "workingDir": job.commands[task.name].where,
            }
        )
    nodes = [{"name": f"node-{i}", "cpu": c} for i, c in enumerate(parts if far else [whole])]
    spec = manifest.model_dump(mode="json", by_alias=True, exclude_unset=True)
    entry = {"name": job.id, "spec": {**spec, "tasks": tasks}}
    return make_workload(nodes=nodes, link=link, jobs=[entry])


@dataclass(slots=True)
class _Steps:
    """Records the steps of the chief over time, and ends the run after enough steps."""

    seconds: Seconds
    seen: list[tuple[Seconds, float]] = field(default_factory=list)
    first: Seconds | None = None

    def look(self, meter: UsageSampler, now: Seconds) -> None:
        meter.due = now + POLL
        steps = [now_of.step for now_of in meter.latest.values() if now_of.step is not None]
        if not steps:
            return
        self.first = now if self.first is None else self.first
        step = max(steps)
        if now >= self.first + WARM_UP and (not self.seen or step > self.seen[-1][1]):
            self.seen.append((now, step))
        if now >= self.first + WARM_UP + self.seconds and len(self.seen) > 1:
            meter.backend.cancel("measured")

    def rate(self) -> float | None:
        """Return the steps per second between the first and the last that were seen."""
        if len(self.seen) < 2:
            return None
        (began, first), (ended, last) = self.seen[0], self.seen[-1]
        return (last - first) / (ended - began)
