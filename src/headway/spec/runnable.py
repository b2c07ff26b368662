"""Convert a workload to runnable jobs: commands, environments and known properties."""

import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path

from headway.core.estimate.job_size import ONE_RUN
from headway.core.model.job import Elastic, Estimate, Expected, JobSpec, Task, holding
from headway.core.model.node import Node
from headway.core.model.units import Bytes, JobId, NodeId, Seconds
from headway.errors import ConfigError, UnknownName
from headway.spec.catalogue import profile_of, training_of
from headway.spec.load import read_manifest
from headway.spec.manifest import Checkpoint, TaskSpec, TrainingJobSpec
from headway.spec.platform_features import refuse_unsupported
from headway.spec.profile import Profile
from headway.spec.workload import JobEntry, Workload
from headway.trainings import CHUNKS, DISTRIBUTED

POOLS = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "TF_NUM_INTRAOP_THREADS",
)  # fmt: skip
"""Variables that set the size of libraries' thread pools."""
WAITING = {"GOMP_SPINCOUNT": "1000"}
"""How long a thread of OpenMP waits for the others before it sleeps. By default that is longer than
a job that shares its cores can afford (decision 0057).
"""
TORCHRUN = re.compile(r"(^|[/\s])(torchrun|torch\.distributed\.run)\b")
EPOCH = 2400
"""Samples in an epoch of a built-in distributed training, about; each worker holds all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    argv: tuple[str, ...]
    where: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    memory: Bytes | None = None
    """Memory limit."""
    image: str = ""
    """Container image."""
    user: str = ""
    """User that runs the command; "": the user of Headway or of the image."""
    capabilities: tuple[str, ...] = ()
    """Linux capabilities of a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnableJob:
    id: JobId
    at: Seconds
    spec: JobSpec
    commands: Mapping[str, Command]
    """Commands by task."""
    manifest: TrainingJobSpec | None = None
    """Spec of the custom resource on a cluster."""
    metric: str = "loss"
    pattern: str | None = None
    adopted: int | str | None = None
    """Process id or container of an adopted job."""
    node: NodeId | None = None
    """Node of an adopted job."""
    time_limit: Seconds | None = None
    """Time after which the job fails."""
    ttl: Seconds | None = None
    """Time after its end at which the job is deleted."""
    log: Path | None = None
    """Log file, if not `out.log` in the replica's directory."""


def to_jobs(
    workload: Workload,
    path: Path,
    *,
    image: str = "",
    supported: Collection[str] = (),
) -> list[RunnableJob]:
    """Return the listed jobs of a workload.

    `image`: run as containers, of this image where a task names none. `supported`: the
    platform-specific features that the platform supports.
    """
    jobs = []
    for job in workload.jobs:
        manifest, steps = _manifest(workload, job, path, image)
        refuse_unsupported(manifest, supported, job=job.name, where=str(path))
        _check_commands(manifest, job.name, path)
        kind = job.model or job.manifest or " ".join(manifest.tasks[0].command)
        memory = job.measured.memory if job.measured else None
        spec = holding(manifest.to_core(kind=kind, expected=_size(job.measured)), memory)
        if job.measured and job.measured.speed:
            spec = replace(spec, speed=job.measured.speed.to_core())
        directory = (path.parent / job.manifest).parent if job.manifest else path.parent
        found = RunnableJob(
            id=JobId(job.name),
            at=job.at,
            spec=replace(spec, total_steps=steps) if steps else spec,
            commands={t.name: _command(t, manifest, directory, image) for t in manifest.tasks},
            manifest=_with_image(manifest, image),
            metric=manifest.metric.name,
            pattern=manifest.reports.pattern or None,
            time_limit=manifest.active_deadline_seconds,
            ttl=manifest.ttl_seconds_after_finished,
        )
        jobs.append(found)
    return jobs


def _size(measured: Profile | None) -> Expected | None:
    if measured is None:
        return None
    return Expected(work=Estimate(value=measured.work, error=ONE_RUN), demand=measured.demand)


def _manifest(
    workload: Workload, job: JobEntry, path: Path, image: str
) -> tuple[TrainingJobSpec, float | None]:
    """Return the spec of a job, and its number of steps if it is a built-in model."""
    if job.model:
        profile = job.profile or profile_of(workload, job.model)
        python = "python3" if image else sys.executable
        try:
            return _training(python, job, profile), profile.steps
        except UnknownName as error:
            error.where = f"{path}, job {job.name}"
            raise
    manifest = read_manifest(path.parent / job.manifest).spec if job.manifest else job.spec
    if manifest is None:
        raise ConfigError(
            f"job {job.name!r} has only a profile, which only the simulator can run",
            where=str(path),
            hint="add `model:`, or a manifest with a command",
        )
    return manifest, None


def _check_commands(manifest: TrainingJobSpec, job: str, path: Path) -> None:
    """Raise an error if a task has no command, or a command that cannot run."""
    for task in manifest.tasks:
        if not task.command and not task.image:
            raise ConfigError(
                f"job {job!r}: task {task.name!r} has no command",
                where=str(path),
                hint="add `command: [python, train.py]`",
            )
        if "\0" in task.working_dir:
            raise ConfigError(
                f"job {job!r}: task {task.name!r} has a NUL in its working directory",
                where=str(path),
                hint="write `workingDir: path/to/directory`",
            )
        if lacks_torchrun(task):
            raise ConfigError(
                f"job {job!r}: task {task.name!r} has `elastic: torchrun`, but its command does "
                "not start torchrun",
                where=str(path),
                hint="write `command: [torchrun, train.py]`",
            )


def lacks_torchrun(task: TaskSpec) -> bool:
    """Whether each replica would train alone."""
    starts = any(TORCHRUN.search(word) for word in task.command)
    return task.elastic is Elastic.TORCHRUN and bool(task.command) and not starts


def _training(python: str, job: JobEntry, profile: Profile) -> TrainingJobSpec:
    """Return the spec that trains a built-in model, sized by its profile."""
    name, batches = training_of(job.model, profile)
    command = [python, "-m", "headway.trainings", name, "--steps", f"{profile.steps:.0f}"]
    command += ["--batches", str(batches), "--demand", f"{min(1.0, profile.demand):g}"]
    if name in DISTRIBUTED:
        command += ["--epoch", str(max(1, EPOCH // (CHUNKS * batches)))]
    single = dict.fromkeys(POOLS, "1")  # the matrices are too small for two threads
    tasks = job.distributed_tasks or (TaskSpec(),)
    own = {"command": tuple(command), "env": single}
    tasks = tuple(task.model_copy(update=own) for task in tasks)
    return TrainingJobSpec(tasks=tasks, checkpoint=Checkpoint(mode="sdk"))


def _command(task: TaskSpec, job: TrainingJobSpec, directory: Path, image: str) -> Command:
    return Command(
        argv=task.command,
        where=task.working_dir if image else str((directory / task.working_dir).resolve()),
        env=task.env,
        memory=task.resources.limits.memory,
        image=task.image or image,
        user=job.run_as,
        capabilities=job.capabilities,
    )


def _with_image(manifest: TrainingJobSpec, image: str) -> TrainingJobSpec:
    """Set the image of every task that names none."""
    tasks = tuple(t if t.image else t.model_copy(update={"image": image}) for t in manifest.tasks)
    return manifest.model_copy(update={"tasks": tasks})


def threads(task: Task, node: Node) -> int:
    """Return the size of a replica's thread pools: its limit, else its request, else the node."""
    cores = task.limit or task.request.cpu or node.capacity.cpu
    return max(1, ceil(min(cores, node.capacity.cpu) - 1e-9))


def environment(
    base: Mapping[str, str], command: Command, pools: int, replica_env: Mapping[str, str]
) -> dict[str, str]:
    """Return a replica's environment: thread pool sizes and how threads wait, `base`, the task's,
    then Headway's variables. What the user set is kept.
    """
    inherited = {k: v for k, v in base.items() if not k.startswith("HEADWAY_")}
    own = {**dict.fromkeys(POOLS, str(pools)), **waiting({**base, **command.env})}
    return {**own, **inherited, "PYTHONUNBUFFERED": "1", **command.env, **replica_env}


def waiting(given: Mapping[str, str]) -> dict[str, str]:
    """Return how threads wait, unless the user's variables say it."""
    return {} if given.keys() & {*WAITING, "OMP_WAIT_POLICY"} else dict(WAITING)
