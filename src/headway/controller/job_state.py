"""The persisted state of a job, from which the next Headway process continues."""

from dataclasses import asdict, dataclass
from typing import Any

from headway.core.model.job import Phase
from headway.core.model.units import NodeId, ReplicaId, Seconds, Where


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The newest complete checkpoint of a replica."""

    mark: str = ""
    """Identifies the checkpoint; "": there is none."""
    verified: bool = False
    """Whether `LATEST` names it. Otherwise only the exit code shows whether its files are
    complete."""


NO_CHECKPOINT = Checkpoint()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    replica: ReplicaId
    node: NodeId
    attempt: int
    came_from: NodeId | None = None
    starting: bool = False
    """Whether it was not running yet. If it is missing after a crash, it is started."""
    leaving: bool = False
    """Whether it is being stopped and will not be restarted."""
    stopping: bool = False
    """Whether it is being stopped for a transfer: to the node `to`, or to the queue (None)."""
    to: NodeId | None = None
    baseline: Checkpoint = NO_CHECKPOINT
    """Newest checkpoint before the transfer."""
    reserved: int = 0
    """Attempt that reserves capacity on the target node; 0: none."""


@dataclass(slots=True, kw_only=True, eq=False)
class JobFields:
    """The persisted fields that a `JobRecord` has too."""

    phase: Phase = Phase.PENDING
    target: Phase | None = None
    """Next phase of a job that is being stopped."""
    reason: str = ""
    attempt: int = 0
    """Number of the last start. Each start of a replica gets a new number."""
    failures: int = 0
    paused: bool = False
    move_to: NodeId | None = None
    """Node to which a user has requested to move the job, until the move is done or has failed."""
    sizes: tuple[tuple[str, int], ...] = ()
    """Numbers of replicas, by task, that a user has requested. The next start uses them too."""
    scale_to: tuple[str, int] | None = None
    """Task and number of replicas of the last request, until it is done or has failed."""
    grown_from: tuple[str, int] | None = None
    """Task and number of replicas before a requested restart with more of them, until it runs."""
    short_of: tuple[str, int] | None = None
    """Task that has lost replicas to the cluster, and the number that it had before, until it has
    this number again."""
    moves: int = 0
    started_at: Seconds | None = None
    finished_at: Seconds | None = None
    gang: tuple[ReplicaId, ...] = ()
    """All replicas of the last start, by rank."""
    restart_as: Where = ()
    """Next gang of a job that restarts to be scaled or moved."""
    not_moved: str = ""
    """Why the last move, suspension or restart did not happen."""


@dataclass(slots=True, kw_only=True)
class JobState(JobFields):
    movable: bool = True
    replicas: tuple[ReplicaState, ...] = ()


def to_plain(state: JobState) -> dict[str, Any]:
    return asdict(state)


def from_plain(plain: dict[str, Any]) -> JobState:
    """Invert `to_plain`, also after a conversion to JSON and back."""
    fields = dict(plain)
    fields["phase"] = Phase(fields["phase"])
    fields["target"] = None if fields["target"] is None else Phase(fields["target"])
    fields["gang"] = tuple(ReplicaId(r) for r in fields["gang"])
    fields["replicas"] = tuple(_replica(r) for r in fields["replicas"])
    fields["restart_as"] = tuple((ReplicaId(r), NodeId(n)) for r, n in fields["restart_as"])
    fields["sizes"] = tuple((str(task), int(n)) for task, n in fields.get("sizes", ()))
    for name in ("scale_to", "grown_from", "short_of"):
        if fields.get(name) is not None:
            fields[name] = tuple(fields[name])
    return JobState(**fields)


def _replica(plain: dict[str, Any]) -> ReplicaState:
    known = {"replica": ReplicaId(plain["replica"]), "baseline": Checkpoint(**plain["baseline"])}
    return ReplicaState(**{**plain, **known})
