"""A workload as jobs to run on this machine: commands, environments, and what is known of each."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path

from headway.backend.lines import Lines
from headway.core.job import Estimate, Expected, JobSpec, Task, holding
from headway.core.node import Node
from headway.core.size import ONE_RUN
from headway.core.units import Bytes, JobId, NodeId, Resources, Seconds
from headway.errors import ConfigError
from headway.spec.expand import expand
from headway.spec.manifest import Checkpoint, TaskSpec, TrainingJobSpec
from headway.spec.models import profile_of, training_of
from headway.spec.reading import read_manifest
from headway.spec.workload import JobEntry, Profile, Workload

POOLS = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "TF_NUM_INTRAOP_THREADS",
)  # fmt: skip
"""Where libraries look for the size of their thread pools."""


MACHINE = NodeId("machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    argv: tuple[str, ...]
    where: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    memory: Bytes | None = None
    """The most it may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJob:
    id: JobId
    at: Seconds
    spec: JobSpec
    commands: Mapping[str, Command]
    """By task."""
    metric: str = "loss"
    pattern: str | None = None
    adopted: int | None = None
    """A process that is already running, and is only looked after."""
    log: Path | None = None
    """Where it writes, if that is not `out.log` in its folder."""


def to_jobs(
    workload: Workload, path: Path, *, peaks: Mapping[str, Bytes], seed: int | None = None
) -> list[LocalJob]:
    """`peaks`: the most memory that earlier jobs of a kind held."""
    written = expand(workload, seed)
    return [_job(written, job, path, peaks) for job in written.jobs]


def _job(workload: Workload, job: JobEntry, path: Path, peaks: Mapping[str, Bytes]) -> LocalJob:
    beside, manifest, steps = path.parent, job.spec, None
    if job.manifest:
        manifest = read_manifest(beside / job.manifest).spec
        beside = (beside / job.manifest).parent
    if job.model:
        profile = job.profile or profile_of(workload, job.model)
        manifest, steps = _training(job.model, profile), profile.steps
    if manifest is None:
        raise ConfigError(
            f"job {job.name!r} is a profile alone, which only the simulator can run",
            where=str(path),
            hint="give it `model:`, or a manifest with a command",
        )
    for task in manifest.tasks:
        if not task.command:
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
    return LocalJob(
        id=JobId(job.name),
        at=job.at,
        spec=spec,
        commands={t.name: _command(t, beside) for t in manifest.tasks},
        metric=manifest.metric.name,
        pattern=pattern,
    )


def _training(model: str, profile: Profile) -> TrainingJobSpec:
    """A built-in model, sized by its profile, as the command that really trains it."""
    name, batches = training_of(model, profile)
    command = [sys.executable, "-m", "headway.models", name, "--steps", f"{profile.steps:.0f}"]
    command += ["--batches", str(batches), "--demand", f"{min(1.0, profile.demand):g}"]
    alone = dict.fromkeys(POOLS, "1")  # its matrices are too small to be worth two threads
    task = TaskSpec(command=tuple(command), env=alone)
    return TrainingJobSpec(tasks=(task,), checkpoint=Checkpoint(mode="sdk"))


def _size(measured: Profile) -> Expected:
    return Expected(work=Estimate(value=measured.work, error=ONE_RUN), demand=measured.demand)


def _command(task: TaskSpec, beside: Path) -> Command:
    return Command(
        argv=task.command,
        where=str((beside / task.working_dir).resolve()),
        env=task.env,
        memory=task.resources.limits.memory,
    )


def _check_pattern(pattern: str | None, job: str, path: Path) -> None:
    try:
        Lines("loss", pattern)
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


def environment(command: Command, pools: int, told: Mapping[str, str]) -> dict[str, str]:
    """Ours, then what the user set, then what Headway tells; a pool size the user set stays."""
    base = {k: v for k, v in os.environ.items() if not k.startswith("HEADWAY_")}
    sizes = {name: str(pools) for name in POOLS if name not in base}
    return {**base, **sizes, "PYTHONUNBUFFERED": "1", **command.env, **told}


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of the machine that is a node."""

    node: Node
    cpus: tuple[int, ...] | None = None
    """Where its jobs run; None: anywhere."""
    ceiling: float | None = None
    """Cores, where it is less than its CPUs."""


def cut(nodes: tuple[Node, ...], cpus: Sequence[int]) -> list[Cut]:
    """Lay the nodes side by side over the machine's CPUs, from the last one down.

    Each node has CPUs of its own where it can: below a ceiling alone, weights would not hold, for
    what runs on a CPU that nobody else wants uses up the ceiling unhindered.

    >>> a, b = (Node(id=NodeId(n), capacity=Resources(cpu=0.5)) for n in "ab")
    >>> [(c.cpus, c.ceiling) for c in cut((a, b), [0, 1])]
    [((1,), 0.5), ((1,), 0.5)]
    """
    down, offset, found = sorted(cpus, reverse=True), 0.0, []
    for node in nodes:
        cores = node.capacity.cpu
        first, last = int(offset + 1e-9), ceil(offset + cores - 1e-9)
        whole = last - first == len(down)
        inside = None if whole else tuple(sorted(down[first:last]))
        ceiling = None if abs(last - first - cores) < 1e-9 else cores
        found.append(Cut(node, inside, ceiling))
        offset += cores
    return found


def fit_nodes(
    nodes: tuple[Node, ...] | None, cores: float, memory: Bytes
) -> tuple[tuple[Node, ...], float]:
    """The nodes to cut out of this machine, and the factor by which their CPU was scaled down.

    None: one node, the machine.
    """
    if nodes is None:
        return (Node(id=MACHINE, capacity=Resources(cpu=cores, memory=memory)),), 1.0
    asked = sum(n.capacity.cpu for n in nodes)
    factor = min(1.0, cores / asked)
    most = memory / len(nodes)
    return tuple(
        replace(
            n,
            capacity=Resources(
                cpu=n.capacity.cpu * factor, memory=min(n.capacity.memory, most), gpu=0.0
            ),
        )
        for n in nodes
    ), factor
