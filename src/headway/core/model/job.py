"""Jobs and their replicas."""

from collections.abc import Container
from dataclasses import replace
from enum import StrEnum

from headway.core.estimate.step_rate import Speed
from headway.core.model.capabilities import Capabilities
from headway.core.model.report import BEGIN, EMPTY, MetricHistory, Progress, Usage
from headway.core.model.serialization import record
from headway.core.model.units import (
    NOTHING,
    Bytes,
    Cores,
    CoreSeconds,
    JobId,
    NodeId,
    ReplicaId,
    Resources,
    Seconds,
)


class Phase(StrEnum):
    """Phase of a job or a replica. The texts describe jobs."""

    PENDING = "pending"
    """In the queue. It holds no capacity and can be placed."""
    STARTING = "starting"
    """Placed. It holds capacity, but not all of its replicas run yet."""
    RUNNING = "running"
    """All of its replicas run."""
    MIGRATING = "migrating"
    """Saves a checkpoint, stops and starts again: on another node, on which it holds capacity too,
    or with another number of replicas."""
    SUSPENDING = "suspending"
    """Saves a checkpoint, stops and returns to the queue."""
    PAUSED = "paused"
    """Stopped by a user. It holds no capacity until the user resumes it."""
    BACKOFF = "backoff"
    """Failed or interrupted. It holds no capacity and is retried after a delay."""
    STOPPING = "stopping"
    """Its replicas are being stopped. The next phase is decided already; a job that would be
    retried succeeds instead if its chief completes."""
    SUCCEEDED = "succeeded"
    """The chief exited with code 0."""
    FAILED = "failed"
    """Ended without success. It is not retried."""
    CANCELLED = "cancelled"
    """Ended by a user."""

    def __init__(self, value: str) -> None:
        self.ended = value in ("succeeded", "failed", "cancelled")
        self.in_transit = value in ("migrating", "suspending", "stopping")
        """Policies decide nothing about the job or replica in this phase."""


class Mode(StrEnum):
    """How a job saves a checkpoint."""

    NONE = "none"
    SIGTERM = "sigterm"
    SDK = "sdk"


class Elastic(StrEnum):
    """How a task of a running job changes its number of replicas."""

    RESTART = "restart"
    """The job saves a checkpoint, stops and starts with the new number."""
    INDEPENDENT = "independent"
    """Replicas join and leave one by one."""
    TORCHRUN = "torchrun"
    """Each replica is a torchrun agent. Agents join and leave one by one. After each change, they
    restart the training processes from the last checkpoint."""

    @property
    def one_by_one(self) -> bool:
        """Whether single replicas start and stop while the others run."""
        return self is not Elastic.RESTART


class Direction(StrEnum):
    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"

    @property
    def sign(self) -> float:
        return -1.0 if self is Direction.MINIMIZE else 1.0


@record
class Task:
    """A named role in a job; its replicas are identical."""

    name: str = "main"
    replicas: int = 1
    least: int = 1
    most: int = 1
    request: Resources = NOTHING
    limit: Cores | None = None
    elastic: Elastic = Elastic.RESTART
    nodes: tuple[NodeId, ...] | None = None
    """Nodes on which its replicas can run; None: any node."""
    image: str = ""
    """Container image."""


@record
class Estimate:
    """An amount and its relative error. 0.1 means: within 10 %."""

    value: float
    error: float = 0.0


@record
class Expected:
    """What is known of a job before it runs: it is declared, calibrated or measured in earlier
    runs.
    """

    work: Estimate
    demand: Cores | None = None
    """Maximum number of cores that the job can use."""


@record
class JobSpec:
    tasks: tuple[Task, ...] = (Task(),)
    kind: str = ""
    """The command or model that the job runs. Jobs of the same kind have similar sizes."""
    direction: Direction = Direction.MINIMIZE
    total_steps: float | None = None
    expected: Expected | None = None
    speed: Speed | None = None
    """Cost model of a step. If it is None (unknown), the simulator adds up the rates of the
    replicas."""
    checkpoint: Mode = Mode.NONE
    grace: Seconds = 30.0
    priority: int = 0
    class_value: int = 0
    """Value of the PriorityClass on Kubernetes. It orders the queue before `priority`, and, unlike
    `priority`, does not change fair shares."""
    backoff_limit: int = 3
    owner: str = ""
    """The user that has submitted the job, as `UID:NAME`; "": there is only one user. Users have
    equal fair shares, which their jobs divide."""

    @property
    def gpus(self) -> float:
        """GPUs that all replicas request at the start."""
        return sum([t.replicas * t.request.gpu for t in self.tasks])

    def task(self, name: str) -> Task:
        if len(self.tasks) == 1:
            return self.tasks[0]
        return next(t for t in self.tasks if t.name == name)

    def task_of(self, replica: ReplicaId) -> Task:
        """Return the task of a replica. Faster than `task`: with one task, no name is split."""
        return self.tasks[0] if len(self.tasks) == 1 else self.task(replica.task)


def holding(spec: JobSpec, memory: Bytes | None) -> JobSpec:
    """Return the spec with `memory` as the memory request of each task that declares none.

    >>> holding(JobSpec(), 100.0).tasks[0].request.memory
    100.0
    """
    if not memory or all(t.request.memory for t in spec.tasks):
        return spec
    requests = [replace(t.request, memory=t.request.memory or memory) for t in spec.tasks]
    pairs = zip(spec.tasks, requests, strict=True)
    return replace(spec, tasks=tuple(replace(t, request=request) for t, request in pairs))


@record
class Job:
    id: JobId
    spec: JobSpec
    submitted_at: Seconds
    phase: Phase = Phase.PENDING
    reason: str = ""
    """Why the job ended, if it did not succeed."""
    remaining: Estimate | None = None
    """Work left in core-seconds; None: unknown."""
    capabilities: Capabilities | None = None
    """Capabilities for this job; None: those of the platform."""
    draw: int | None = None
    """Seed for random choices about this job. Set only by the simulator, read only by `spread`."""
    truth: CoreSeconds | None = None
    """Actual work left. Set only by the simulator, read only by the oracle `srpt`."""

    @property
    def priority(self) -> int:
        return self.spec.priority

    @property
    def precedence(self) -> tuple[int, int]:
        """Sort key of the queue: the highest is first. Jobs with equal keys keep their order."""
        return self.spec.class_value, self.spec.priority

    @property
    def rank(self) -> tuple[int, int, Seconds]:
        """Sort key by which a suspended job returns to its position: the lowest rank is first."""
        return -self.spec.class_value, -self.spec.priority, self.submitted_at


@record
class Replica:
    id: ReplicaId
    job: JobId
    task: str = "main"
    node: NodeId | None = None
    phase: Phase = Phase.RUNNING
    bound_for: NodeId | None = None
    """Target node of a migration. The replica holds capacity on both nodes until it arrives."""
    limit: Cores | None = None
    weight: float = 1.0
    usage: Usage | None = None
    attained: CoreSeconds = 0.0
    """Work done so far: CPU used, times the speed of the node."""
    progress: Progress = BEGIN
    history: MetricHistory = EMPTY


def gang(job: Job) -> tuple[ReplicaId, ...]:
    """Return the replicas with which a job starts."""
    tasks = job.spec.tasks
    return tuple([ReplicaId.of(job.id, t.name, i) for t in tasks for i in range(t.replicas)])


def missing(job: Job, there: Container[ReplicaId]) -> tuple[ReplicaId, ...]:
    """Return the replicas of the gang that are not in `there`."""
    return tuple(name for name in gang(job) if name not in there)
