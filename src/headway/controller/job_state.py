"""What is persisted of a job, so that the next process continues where this one stopped."""

from dataclasses import asdict, dataclass
from typing import Any

from headway.core.model.job import Phase
from headway.core.model.units import NodeId, ReplicaId, Seconds, Where


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Names the newest complete checkpoint of a replica."""

    mark: str = ""
    """Changes with each new checkpoint; "": there is none."""
    verified: bool = False
    """`LATEST` names it. Otherwise only the exit code tells whether its files are complete."""


NO_CHECKPOINT = Checkpoint()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    replica: ReplicaId
    node: NodeId
    attempt: int
    came_from: NodeId | None = None
    starting: bool = False
    """It was not running yet: if it is absent after a crash, it is started."""
    leaving: bool = False
    """It is being stopped for good."""
    stopping: bool = False
    """It is being stopped as part of a transfer: to `to`, or into the queue (None)."""
    to: NodeId | None = None
    baseline: Checkpoint = NO_CHECKPOINT
    """Its newest checkpoint before the transfer."""
    reserved: int = 0
    """The attempt that holds its room on the node that it moves to; 0: none."""


@dataclass(slots=True, kw_only=True, eq=False)
class JobFields:
    """What is persisted of a job as its record has it."""

    phase: Phase = Phase.PENDING
    target: Phase | None = None
    """What a job that is being stopped becomes."""
    reason: str = ""
    attempt: int = 0
    """The last number given to a start; each start of a replica gets a new one."""
    failures: int = 0
    paused: bool = False
    move_to: NodeId | None = None
    """The node to which a user asked to move it, until that is done or has failed."""
    sizes: tuple[tuple[str, int], ...] = ()
    """Numbers of replicas that a user asked for, by task; the job starts with them from then on."""
    scale_to: tuple[str, int] | None = None
    """What a user asked for last, until it is done or has failed."""
    short_of: tuple[str, int] | None = None
    """A task and the number of replicas that it had before the cluster took some of them, until it
    has them again."""
    moves: int = 0
    started_at: Seconds | None = None
    finished_at: Seconds | None = None
    gang: tuple[ReplicaId, ...] = ()
    """All replicas of the last start, by rank."""
    restart_as: Where = ()
    """A job that is being scaled by a restart: the gang it becomes."""
    not_moved: str = ""
    """Why it was not moved, suspended or restarted when that was last decided."""


@dataclass(slots=True, kw_only=True)
class JobState(JobFields):
    movable: bool = True
    replicas: tuple[ReplicaState, ...] = ()


def to_plain(state: JobState) -> dict[str, Any]:
    return asdict(state)


def from_plain(plain: dict[str, Any]) -> JobState:
    """The inverse of `to_plain`, also after a trip through JSON."""
    fields = dict(plain)
    fields["phase"] = Phase(fields["phase"])
    fields["target"] = None if fields["target"] is None else Phase(fields["target"])
    fields["gang"] = tuple(ReplicaId(r) for r in fields["gang"])
    fields["replicas"] = tuple(_replica(r) for r in fields["replicas"])
    fields["restart_as"] = tuple((ReplicaId(r), NodeId(n)) for r, n in fields["restart_as"])
    fields["sizes"] = tuple((str(task), int(n)) for task, n in fields.get("sizes", ()))
    if fields.get("scale_to") is not None:
        fields["scale_to"] = tuple(fields["scale_to"])
    if fields.get("short_of") is not None:
        fields["short_of"] = tuple(fields["short_of"])
    return JobState(**fields)


def _replica(plain: dict[str, Any]) -> ReplicaState:
    known = {"replica": ReplicaId(plain["replica"]), "baseline": Checkpoint(**plain["baseline"])}
    return ReplicaState(**{**plain, **known})
