"""What the controller tells a platform to do.

A platform executes the commands of one replica in the order it gets them, and reports the result
as an event. Commands are idempotent: after a crash the same command may arrive again.
"""

from dataclasses import dataclass
from typing import TypeAlias

from headway.controller.job_state import JobState
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds


@dataclass(frozen=True, slots=True)
class OfJob:
    """A job: what a command or an event is about."""

    job: JobId


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of a replica: what a command or an event is about."""

    replica: ReplicaId
    attempt: int

    @property
    def job(self) -> JobId:
        return self.replica.job


class Admit(OfJob):
    """A job is due. Answered by `Admitted`."""


@dataclass(frozen=True, slots=True)
class Persist(OfJob):
    """Store a job's state durably. Answered by `Persisted`."""

    version: int
    state: JobState


@dataclass(frozen=True, slots=True)
class Assignment(Attempt):
    """One replica of a gang: where it starts, and its rank."""

    node: NodeId
    rank: int


@dataclass(frozen=True, slots=True)
class Start(OfJob):
    """Start these replicas. Answered by `ReplicaRunning` for each, or `CommandFailed`.

    `gang` names every replica of the job by rank, also those that run already. An attempt that was
    started before is not started a second time.
    """

    replicas: tuple[Assignment, ...]
    gang: tuple[ReplicaId, ...]


@dataclass(frozen=True, slots=True)
class Proceed(OfJob):
    """Each replica of the gang holds its node: let the training begin. Sent only to platforms that
    report `ReplicaPrepared`. Answered by `ReplicaRunning` for each, or `CommandFailed`.
    """

    replicas: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Reserve(OfJob):
    """Hold the room for the next attempt of a replica that is to move: it waits on its node until
    it is started. Sent only to platforms that can do this (`Config.reserves`). Answered by
    `ReplicaPrepared`, or `CommandFailed`.
    """

    replicas: tuple[Assignment, ...]
    gang: tuple[ReplicaId, ...]


@dataclass(frozen=True, slots=True)
class Stop(Attempt):
    """Ask a replica to exit (SIGTERM). Answered, in time, by `ReplicaExited`."""

    grace: Seconds


class Kill(Attempt):
    """Stop a replica at once (SIGKILL). Answered by `ReplicaExited`."""


class Release(Attempt):
    """Restore an adopted replica's limits; it continues. Answered by `ReplicaExited`, code 0."""


class Remove(Attempt):
    """Remove what an attempt left: processes, cgroup, container, pod. Answered by `Removed`."""


@dataclass(frozen=True, slots=True)
class RequestCheckpoint(Attempt):
    """Report the newest complete checkpoint now and, until cancelled, whenever it changes.

    With `ask`, also ask the training script for a new one. Answered by `CheckpointRead`.
    """

    ask: bool


class CancelCheckpoint(Attempt):
    """Withdraw `RequestCheckpoint`."""


@dataclass(frozen=True, slots=True)
class ApplyShare(Attempt):
    """Set a replica's limit and weight. Answered by `ShareInEffect`."""

    limit: Cores | None
    weight: float


class DeleteJob(OfJob):
    """Delete a finished job from the platform: its TTL has expired. Answered by `JobDeleted`."""


ReplicaCommand: TypeAlias = (
    Stop | Kill | Release | Remove | RequestCheckpoint | CancelCheckpoint | ApplyShare
)
JobCommand: TypeAlias = Admit | Persist | Reserve | Proceed | DeleteJob
Command: TypeAlias = JobCommand | Start | ReplicaCommand
Commands: TypeAlias = list[Command]
