"""Events that a platform reports to the controller.

Events are idempotent: each describes a state. An event of an attempt that the controller does not
track has no effect, except that a running attempt is removed as an orphan.
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
    """A job that the controller does not know yet."""

    id: JobId
    spec: JobSpec
    submitted_at: Seconds
    adopted: bool = False
    """Whether its replicas were running already. Headway never stops or restarts them. The end of
    one does not affect the others; the job ends with its last replica."""
    node: NodeId | None = None
    """Node of an adopted job."""
    time_limit: Seconds | None = None
    """Maximum time from the first start of the job to its end."""
    ttl: Seconds | None = None
    """Time for which the job is kept after it has ended."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job exists on the platform. `state`: its persisted state, if any."""

    job: NewJob
    state: JobState | None = None


class Admitted(OfJob):
    """The platform has accepted a job that was due."""


@dataclass(frozen=True, slots=True)
class JobChanged(OfJob):
    """The spec of a job was changed. If it has replicas, only the nodes of its tasks count."""

    spec: JobSpec


@dataclass(frozen=True, slots=True)
class JobRejected(OfJob):
    """The platform can never run the job."""

    reason: str


@dataclass(frozen=True, slots=True)
class JobDeleted(OfJob):
    """The job was deleted on the platform."""

    reason: str


@dataclass(frozen=True, slots=True)
class JobSuspended(OfJob):
    """`suspend` of the spec was set or reset. Unlike a request to pause, it needs no checkpoint."""

    suspended: bool


@dataclass(frozen=True, slots=True)
class JobRequested(OfJob):
    """A user has changed the spec of a job in a way that is a request."""

    request: Request


@dataclass(frozen=True, slots=True)
class JobRestricted(OfJob):
    """The capabilities for a job have changed; None: those of the platform."""

    capabilities: Capabilities | None


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node joined or changed. A lost node has `up=False`."""

    node: Node
    exists: bool = True
    """False: it was removed for good, and is forgotten when it has no more replicas."""


@dataclass(frozen=True, slots=True)
class Persisted(OfJob):
    version: int


class ReplicaPrepared(Attempt):
    """The replica holds capacity on its node and waits for `Proceed`."""


class ReplicaRunning(Attempt):
    """The replica runs."""


@dataclass(frozen=True, slots=True)
class ReplicaWaiting(Attempt):
    """The platform cannot start the replica yet. `reason`: why; "": it can now."""

    reason: str
    unschedulable: bool = False
    """Whether its node lacks capacity or does not accept it, which is not the fault of the job."""


@dataclass(frozen=True, slots=True)
class ReplicaNotice(Attempt):
    """A message about a running replica, shown by `headway explain`."""

    notice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaExited(Attempt):
    code: int
    reason: str = ""
    """Reason as given by the platform; "": the exit code is the reason."""
    permanent: bool = False
    """A retry would fail in the same way."""
    disrupted: bool = False
    """Whether the cluster caused the exit (lost node, preemption). Not counted as a failure."""
    checkpoint: Checkpoint = NO_CHECKPOINT
    """The newest complete checkpoint after the exit."""
    at: Seconds | None = None
    """Time of the exit; None: now."""


class ReplicaReported(Attempt):
    """The training script reported progress for the first time in this attempt."""


@dataclass(frozen=True, slots=True)
class CheckpointRead(Attempt):
    """The newest complete checkpoint, reported while `RequestCheckpoint` is active."""

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class ShareInEffect(Attempt):
    """Present limit and weight of a replica. Before it runs: those at its start."""

    limit: Cores | None
    weight: float


class Removed(Attempt):
    """Everything that an attempt left is removed."""


@dataclass(frozen=True, slots=True)
class CommandFailed:
    """A command failed without any effect. Exception: a failed `Start` may have started some of its
    replicas, which are reported as usual.
    """

    command: Command
    reason: str
    permanent: bool = False
    """A retry would fail in the same way."""
    disrupted: bool = False
    """Whether the job is not at fault. Not counted as a failure."""


@dataclass(frozen=True, slots=True)
class ReplicaFound(Attempt):
    """State of one attempt on the platform when Headway starts."""

    running: bool
    exited: ReplicaExited | None = None
    """None if not running: the attempt was created but not started."""
    limit: Cores | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything that an earlier process left: persisted states and existing replicas."""

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
