"""Commands of the controller to a platform.

A platform executes the commands for a replica in their order, and reports the result as an event.
Commands are idempotent: after a crash, a command may be repeated.
"""

from dataclasses import dataclass
from typing import TypeAlias

from headway.controller.job_state import JobState
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds


@dataclass(frozen=True, slots=True)
class OfJob:
    """Base of commands and events about a job."""

    job: JobId


@dataclass(frozen=True, slots=True)
class Attempt:
    """Base of commands and events about one attempt of a replica."""

    replica: ReplicaId
    attempt: int

    @property
    def job(self) -> JobId:
        return self.replica.job


class Admit(OfJob):
    """Accept a job that is due. Answered by `Admitted`."""


@dataclass(frozen=True, slots=True)
class Persist(OfJob):
    """Store the state of a job durably. Answered by `Persisted`."""

    version: int
    state: JobState


@dataclass(frozen=True, slots=True)
class Assignment(Attempt):
    """Node and rank of a replica of a gang."""

    node: NodeId
    rank: int


@dataclass(frozen=True, slots=True)
class Start(OfJob):
    """Start these replicas. Answered by `ReplicaRunning` for each, or `CommandFailed`.

    `gang` lists all replicas of the job by rank, including those that already run. An attempt that
    was started before is not started again.
    """

    replicas: tuple[Assignment, ...]
    gang: tuple[ReplicaId, ...]


@dataclass(frozen=True, slots=True)
class Proceed(OfJob):
    """Start the training: each replica of the gang holds capacity on its node. Sent only to
    platforms that report `ReplicaPrepared`. Answered by `ReplicaRunning` for each replica, or
    `CommandFailed`.
    """

    replicas: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Reserve(OfJob):
    """Reserve capacity for the next attempt of a replica that will move. Sent only to platforms
    that can do this (`Config.reserves`). Answered by `ReplicaPrepared`, or `CommandFailed`.
    """

    replicas: tuple[Assignment, ...]
    gang: tuple[ReplicaId, ...]


@dataclass(frozen=True, slots=True)
class Stop(Attempt):
    """Ask a replica to exit (SIGTERM). `ReplicaExited` follows."""

    grace: Seconds


class Kill(Attempt):
    """Stop a replica at once (SIGKILL). Answered by `ReplicaExited`."""


class Release(Attempt):
    """Restore the original limits of an adopted replica, which continues. Answered by
    `ReplicaExited` with code 0.
    """


class Remove(Attempt):
    """Remove the remains of an attempt: processes, cgroup, container or pod. Answered
    by `Removed`.
    """


@dataclass(frozen=True, slots=True)
class RequestCheckpoint(Attempt):
    """Report the newest complete checkpoint, now and whenever it changes, until cancelled.

    `ask`: also ask the training script for a new one. Answered by `CheckpointRead`.
    """

    ask: bool


class CancelCheckpoint(Attempt):
    """Cancel `RequestCheckpoint`."""


@dataclass(frozen=True, slots=True)
class ApplyShare(Attempt):
    """Set limit and weight of a replica. Answered by `ShareInEffect`."""

    limit: Cores | None
    weight: float


class DeleteJob(OfJob):
    """Delete a finished job whose TTL has expired from the platform. Answered by `JobDeleted`."""


ReplicaCommand: TypeAlias = (
    Stop | Kill | Release | Remove | RequestCheckpoint | CancelCheckpoint | ApplyShare
)
JobCommand: TypeAlias = Admit | Persist | Reserve | Proceed | DeleteJob
Command: TypeAlias = JobCommand | Start | ReplicaCommand
Commands: TypeAlias = list[Command]
