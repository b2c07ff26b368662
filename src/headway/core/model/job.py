"""What a user submits, and the replicas that it runs as."""

from collections.abc import Container
from dataclasses import replace
from enum import StrEnum

from headway.core.estimate.step_rate import Speed
from headway.core.model.capabilities import Capabilities
from headway.core.model.report import EMPTY, MetricHistory, Usage
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
    """Of a job and of a replica; a job is as far as its slowest replica."""

    PENDING = "pending"
    """In the queue: it holds no capacity and may be placed."""
    STARTING = "starting"
    """Placed: its capacity is held, it does not train yet."""
    RUNNING = "running"
    """It trains."""
    MIGRATING = "migrating"
    """Being moved: it saves, stops, and starts on another node; capacity is held on both."""
    SUSPENDING = "suspending"
    """It saves and stops; then it is pending again."""
    PAUSED = "paused"
    """Stopped by a user: it holds no capacity until the user resumes it."""
    BACKOFF = "backoff"
    """Failed, and to be tried again after a delay: it holds no capacity until then."""
    STOPPING = "stopping"
    """Being ended: scaled away, cancelled, or the rest of a gang that failed."""
    SUCCEEDED = "succeeded"
    """Exited with code 0."""
    FAILED = "failed"
    """Ended without success, and not tried again."""
    CANCELLED = "cancelled"
    """Ended because a user or a decision said so."""

    def __init__(self, value: str) -> None:
        self.ended = value in ("succeeded", "failed", "cancelled")
        self.in_transit = value in ("migrating", "suspending", "stopping")
        """No decision is taken about it until it arrives."""


class Mode(StrEnum):
    """How a job saves itself."""

    NONE = "none"
    SIGTERM = "sigterm"
    SDK = "sdk"


class Elastic(StrEnum):
    """How a task of a running job changes its number of replicas."""

    RESTART = "restart"
    """The job saves a checkpoint, stops and starts in its new size."""
    INDEPENDENT = "independent"
    """Replicas join and leave one by one."""


class Direction(StrEnum):
    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"

    @property
    def sign(self) -> float:
        return -1.0 if self is Direction.MINIMIZE else 1.0


@record
class Task:
    """A named role in a job; its replicas are alike."""

    name: str = "main"
    replicas: int = 1
    least: int = 1
    most: int = 1
    request: Resources = NOTHING
    limit: Cores | None = None
    elastic: Elastic = Elastic.RESTART
    nodes: tuple[NodeId, ...] | None = None
    """The only ones that its replicas may go to; None: any."""


@record
class Estimate:
    """An amount and how far off it may be, as a part of it (0.1: within a tenth)."""

    value: float
    error: float = 0.0


@record
class Expected:
    """What is known of a job before it runs: declared, calibrated, or seen in an earlier run."""

    work: Estimate
    demand: Cores | None = None
    """The most cores that it can use at once."""


@record
class JobSpec:
    tasks: tuple[Task, ...] = (Task(),)
    kind: str = ""
    """What this is a run of (a command, a model): jobs of one kind are of like size."""
    direction: Direction = Direction.MINIMIZE
    total_steps: float | None = None
    expected: Expected | None = None
    speed: Speed | None = None
    """How fast it is with which workers. None: unknown; in the simulator the rates of its
    replicas add up."""
    checkpoint: Mode = Mode.NONE
    grace: Seconds = 30.0
    priority: int = 0
    backoff_limit: int = 3

    @property
    def gpus(self) -> float:
        """Of all that it asks to be started with."""
        return sum([t.replicas * t.request.gpu for t in self.tasks])

    def task(self, name: str) -> Task:
        if len(self.tasks) == 1:
            return self.tasks[0]
        return next(t for t in self.tasks if t.name == name)


def holding(spec: JobSpec, memory: Bytes | None) -> JobSpec:
    """A job that declares no memory is taken to need what its like once held.

    >>> holding(JobSpec(), 100.0).tasks[0].request.memory
    100.0
    """
    if not memory or all(t.request.memory for t in spec.tasks):
        return spec
    return replace(spec, tasks=tuple(_asking(t, memory) for t in spec.tasks))


def _asking(task: Task, memory: Bytes) -> Task:
    asked = task.request
    request = Resources(cpu=asked.cpu, memory=asked.memory or memory, gpu=asked.gpu)
    return replace(task, request=request)


@record
class Job:
    id: JobId
    spec: JobSpec
    submitted_at: Seconds
    phase: Phase = Phase.PENDING
    reason: str = ""
    """Why it ended, where it did not simply succeed."""
    remaining: Estimate | None = None
    """Work left in core-seconds; None: unknown."""
    step_cost: CoreSeconds | None = None
    checkpoint_age: Seconds | None = None
    capabilities: Capabilities | None = None
    """What can be done with it, where that is less than the platform can do."""
    truth: CoreSeconds | None = None
    """The work really left. Set by the simulator alone, read by the oracle `srpt` alone."""

    @property
    def priority(self) -> int:
        return self.spec.priority


@record
class Replica:
    id: ReplicaId
    job: JobId
    task: str = "main"
    node: NodeId | None = None
    phase: Phase = Phase.RUNNING
    bound_for: NodeId | None = None
    """Where it is moving to; room is kept for it there and here until it has arrived."""
    limit: Cores | None = None
    weight: float = 1.0
    usage: Usage | None = None
    attained: CoreSeconds = 0.0
    """Work done so far, by what it used and the speed of its nodes."""
    track: MetricHistory = EMPTY


def gang(job: Job) -> tuple[ReplicaId, ...]:
    """The replicas that a job asks to be started with."""
    return tuple(ReplicaId.of(job.id, t.name, i) for t in job.spec.tasks for i in range(t.replicas))


def missing(job: Job, there: Container[ReplicaId]) -> tuple[ReplicaId, ...]:
    """Those of its gang that are not there."""
    return tuple(name for name in gang(job) if name not in there)
