"""What a platform reports to the controller.

Events are idempotent: each says what is, not what to do. An event of an attempt that the
controller no longer tracks changes nothing, except that a running one is removed as an orphan.
"""

from dataclasses import dataclass
from typing import TypeAlias

from headway.controller.commands import Attempt, Command, OfJob
from headway.controller.job_state import NO_CHECKPOINT, Checkpoint, JobState
from headway.core.model.capabilities import Capabilities
from headway.core.model.job import JobSpec
from headway.core.model.node import Node
from headway.core.model.snapshot import Request
from headway.core.model.units import Cores, JobId, NodeId, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job as the controller first learns of it."""

    id: JobId
    spec: JobSpec
    submitted_at: Seconds
    adopted: bool = False
    """Its replicas are adopted: they are never stopped and never restarted, and the
    end of one means nothing for the others. The job ends with its last replica."""
    node: NodeId | None = None
    """An adopted job that already runs: where."""
    time_limit: Seconds | None = None
    """For the job from its first start to its end."""
    ttl: Seconds | None = None
    """How long it is kept after it has ended."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job exists on the platform, with the state that was persisted for it, if any."""

    job: NewJob
    state: JobState | None = None


class Admitted(OfJob):
    """The platform has accepted a job that was due."""


@dataclass(frozen=True, slots=True)
class JobChanged(OfJob):
    """Its spec was changed. That counts while the job has no replicas."""

    spec: JobSpec


@dataclass(frozen=True, slots=True)
class JobRejected(OfJob):
    """The platform cannot run it, whatever happens."""

    reason: str


@dataclass(frozen=True, slots=True)
class JobDeleted(OfJob):
    """It was deleted on the platform."""

    reason: str


@dataclass(frozen=True, slots=True)
class JobSuspended(OfJob):
    """Its spec says that it is not to run, or is to run again. Unlike a request to pause, that
    needs no checkpoint: the user has decided.
    """

    suspended: bool


@dataclass(frozen=True, slots=True)
class JobRequested(OfJob):
    """A user has asked for something by changing its spec."""

    request: Request


@dataclass(frozen=True, slots=True)
class JobRestricted(OfJob):
    """What the platform can do with this job; None: whatever it can do with any."""

    capabilities: Capabilities | None


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node joined or changed. A lost node has `up=False`."""

    node: Node


@dataclass(frozen=True, slots=True)
class Persisted(OfJob):
    version: int


class ReplicaPrepared(Attempt):
    """It holds its node, and waits for `Proceed`."""


class ReplicaRunning(Attempt):
    """It runs."""


@dataclass(frozen=True, slots=True)
class ReplicaWaiting(Attempt):
    """The platform cannot start it yet, and says why; "": that has passed."""

    reason: str
    unschedulable: bool = False
    """Its node has no room for it, or does not accept it: not the job's own fault."""


@dataclass(frozen=True, slots=True)
class ReplicaNotice(Attempt):
    """A fact about a running replica that a user should read in `explain`."""

    notice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaExited(Attempt):
    code: int
    reason: str = ""
    """Why, in the platform's words; "": the exit code says all."""
    permanent: bool = False
    """A retry would fail in the same way."""
    disrupted: bool = False
    """Not its own fault (lost node, preemption): not counted as a failure."""
    checkpoint: Checkpoint = NO_CHECKPOINT
    """The newest complete one after the exit."""
    at: Seconds | None = None
    """When, if that was earlier than now."""


class ReplicaReported(Attempt):
    """The training script reported progress for the first time in this attempt."""


@dataclass(frozen=True, slots=True)
class CheckpointRead(Attempt):
    """The newest complete checkpoint, while one is requested."""

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class ShareInEffect(Attempt):
    """Limit and weight of a replica, whether or not they were decided. Before it runs: those that
    it starts with.
    """

    limit: Cores | None
    weight: float


class Removed(Attempt):
    """Nothing is left of it."""


@dataclass(frozen=True, slots=True)
class CommandFailed:
    """A command was not carried out and left nothing behind; a failed `Start` may have started
    some of its replicas, which are reported as any other.
    """

    command: Command
    reason: str
    permanent: bool = False
    """A retry would fail in the same way."""
    disrupted: bool = False
    """Not the job's own fault: not counted as a failure."""


@dataclass(frozen=True, slots=True)
class ReplicaFound(Attempt):
    """What the platform holds of one attempt when Headway starts."""

    running: bool
    exited: ReplicaExited | None = None
    """None and not running: created, but not started yet."""
    limit: Cores | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Loaded:
    """All that an earlier process left."""

    states: dict[JobId, JobState]
    replicas: tuple[ReplicaFound, ...]


JobEvent: TypeAlias = (
    Admitted | JobChanged | JobRejected | JobSuspended | JobRequested | JobRestricted | JobDeleted
)
ReplicaEvent: TypeAlias = (
    ReplicaPrepared
    | ReplicaRunning
    | ReplicaWaiting
    | ReplicaNotice
    | ReplicaExited
    | ReplicaReported
    | CheckpointRead
    | ShareInEffect
)
Event: TypeAlias = (
    JobSeen | JobEvent | NodeChanged | Persisted | ReplicaEvent | Removed | CommandFailed
)
