"""A workload as jobs to run for real: commands, environments, and what is known of each."""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path

from headway.core.estimate.job_size import ONE_RUN
from headway.core.model.job import Estimate, Expected, JobSpec, Task, holding
from headway.core.model.node import Node
from headway.core.model.units import Bytes, JobId, NodeId, Seconds
from headway.errors import ConfigError
from headway.metrics.log_parser import LogParser
from headway.spec.arrivals import expand
from headway.spec.capabilities import refuse
from headway.spec.catalogue import profile_of, training_of
from headway.spec.load import read_manifest
from headway.spec.manifest import Checkpoint, TaskSpec, TrainingJobSpec
from headway.spec.workload import JobEntry, Profile, Workload

POOLS = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "TF_NUM_INTRAOP_THREADS",
)  # fmt: skip
"""Where libraries look for the size of their thread pools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    argv: tuple[str, ...]
    where: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    memory: Bytes | None = None
    """The most it may hold."""
    image: str = ""
    """Where it runs as a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveJob:
    id: JobId
    at: Seconds
    spec: JobSpec
    commands: Mapping[str, Command]
    """By task."""
    manifest: TrainingJobSpec | None = None
    """As a cluster is told of it."""
    metric: str = "loss"
    pattern: str | None = None
    adopted: int | str | None = None
    """A process, or a container, that is already running and is only looked after."""
    node: NodeId | None = None
    """Where it already is, if it was adopted there."""
    time_limit: Seconds | None = None
    """It fails once it has run for this long."""
    ttl: Seconds | None = None
    """It is deleted this long after it has finished."""
    log: Path | None = None
    """Where it writes, if that is not `out.log` in its folder."""


def to_jobs(
    workload: Workload,
    path: Path,
    *,
    peaks: Mapping[str, Bytes],
    seed: int | None = None,
    image: str = "",
    honoured: Collection[str] = (),
) -> list[LiveJob]:
    """`peaks`: the most memory that earlier jobs of a kind held. `image`: they are to run as
    containers, of this image where they name none. `honoured`: what the platform can do of that
    which not every one can.
    """
    written = expand(workload, seed)
    return [_job(written, job, path, peaks, image, honoured) for job in written.jobs]


def _job(
    workload: Workload,
    job: JobEntry,
    path: Path,
    peaks: Mapping[str, Bytes],
    image: str,
    honoured: Collection[str],
) -> LiveJob:
    beside, manifest, steps = path.parent, job.spec, None
    if job.manifest:
        manifest = read_manifest(beside / job.manifest).spec
        beside = (beside / job.manifest).parent
    if job.model:
        profile = job.profile or profile_of(workload, job.model)
        python = "python3" if image else sys.executable
        manifest, steps = _training(python, job.model, profile), profile.steps
    if manifest is None:
        raise ConfigError(
            f"job {job.name!r} is a profile alone, which only the simulator can run",
            where=str(path),
            hint="give it `model:`, or a manifest with a command",
        )
    refuse(manifest, honoured, job=job.name, where=str(path))
    for task in manifest.tasks:
        if not task.command and not task.image:
            raise ConfigError(
                f"job {job.name!r} has no command in its task {task.name!r}",
                where=str(path),
                hint="add `command: [python, train.py]`",
            )
    kind = job.model or job.manifest or " ".join(manifest.tasks[0].command)
    known = job.measured
    spec = manifest.to_core(kind=kind, expected=_size(known) if known else None)
    if steps:
        spec = replace(spec, total_steps=steps)
    spec = holding(spec, known.memory if known else peaks.get(kind))
    pattern = manifest.reports.pattern or None
    _check_pattern(pattern, job.name, path)
    return LiveJob(
        id=JobId(job.name),
        at=job.at,
        spec=spec,
        commands={t.name: _command(t, beside, image) for t in manifest.tasks},
        manifest=_with_image(manifest, image),
        metric=manifest.metric.name,
        pattern=pattern,
        time_limit=manifest.active_deadline_seconds,
        ttl=manifest.ttl_seconds_after_finished,
    )


def _training(python: str, model: str, profile: Profile) -> TrainingJobSpec:
    """A built-in model, sized by its profile, as the command that really trains it."""
    name, batches = training_of(model, profile)
    command = [python, "-m", "headway.trainings", name, "--steps", f"{profile.steps:.0f}"]
    command += ["--batches", str(batches), "--demand", f"{min(1.0, profile.demand):g}"]
    alone = dict.fromkeys(POOLS, "1")  # its matrices are too small to be worth two threads
    task = TaskSpec(command=tuple(command), env=alone)
    return TrainingJobSpec(tasks=(task,), checkpoint=Checkpoint(mode="sdk"))


def _size(measured: Profile) -> Expected:
    return Expected(work=Estimate(value=measured.work, error=ONE_RUN), demand=measured.demand)


def _command(task: TaskSpec, beside: Path, image: str) -> Command:
    return Command(
        argv=task.command,
        where=task.working_dir if image else str((beside / task.working_dir).resolve()),
        env=task.env,
        memory=task.resources.limits.memory,
        image=task.image or image,
    )


def _with_image(manifest: TrainingJobSpec, image: str) -> TrainingJobSpec:
    """Each task names its image."""
    tasks = tuple(t if t.image else t.model_copy(update={"image": image}) for t in manifest.tasks)
    return manifest.model_copy(update={"tasks": tasks})


def _check_pattern(pattern: str | None, job: str, path: Path) -> None:
    try:
        LogParser("loss", pattern)
    except ValueError as error:
        raise ConfigError(
            f"job {job!r}: its reports.pattern cannot be used: {error}",
            where=str(path),
            hint=r"for example loss=(?P<value>\S+) at (?P<step>\d+)",
        ) from None


def threads(task: Task, node: Node) -> int:
    """Size of a replica's thread pools: what it may use, else what it asks for, else the node."""
    most = task.limit or task.request.cpu or node.capacity.cpu
    return max(1, ceil(min(most, node.capacity.cpu) - 1e-9))


def environment(
    base: Mapping[str, str], command: Command, pools: int, told: Mapping[str, str]
) -> dict[str, str]:
    """What is there, what the user set, what Headway tells; a pool size the user set stays."""
    ours = {k: v for k, v in base.items() if not k.startswith("HEADWAY_")}
    sizes = {name: str(pools) for name in POOLS if name not in base}
    return {**ours, **sizes, "PYTHONUNBUFFERED": "1", **command.env, **told}
