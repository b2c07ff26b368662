"""What a policy can decide: five kinds, each an atomic act with its reason; what came of it."""

from typing import TypeAlias

from headway.core.model.serialization import record
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds


@record
class SetShare:
    """A replica's ceiling in cores (None: none) and its weight under contention."""

    replica: ReplicaId
    limit: Cores | None = None
    weight: float = 1.0
    reason: str = ""


@record
class Place:
    """Start a job: every replica of its gang and the node it goes to. Whole or not at all."""

    job: JobId
    where: tuple[tuple[ReplicaId, NodeId], ...]
    partial: bool = False
    """These now, the rest by further such decisions: the job keeps its room until it is whole.
    As a scheduler does that places pod by pod."""
    reason: str = ""


@record
class Move:
    """Checkpoint, stop, start elsewhere, resume."""

    replica: ReplicaId
    to: NodeId
    reason: str = ""


@record
class Scale:
    """Change a task's replicas within its bounds: which come, where, and which go."""

    job: JobId
    task: str
    add: tuple[tuple[ReplicaId, NodeId], ...] = ()
    remove: tuple[ReplicaId, ...] = ()
    reason: str = ""


@record
class Suspend:
    """Checkpoint, release the room, back into the queue."""

    job: JobId
    reason: str = ""


Decision: TypeAlias = SetShare | Place | Move | Scale | Suspend


@record
class Plan:
    """The decisions of one cycle, and when the policy wants to be woken if nothing happens."""

    decisions: tuple[Decision, ...] = ()
    wake_after: Seconds | None = None
    look: tuple[NodeId, ...] = ()
    """Nodes whose replicas it will want to have heard from by then."""


CALM = Plan()


@record
class Started:
    """Accepted and under way; it shows as a phase next time."""

    decision: Decision


@record
class Applied:
    decision: Decision


@record
class Refused:
    """The platform, or `check`, declined. The next cycle decides afresh."""

    decision: Decision
    why: str


@record
class Failed:
    """The platform tried and could not."""

    decision: Decision
    why: str


Outcome: TypeAlias = Started | Applied | Refused | Failed


def subject(decision: Decision) -> JobId | ReplicaId:
    """Whom it is about."""
    if isinstance(decision, SetShare | Move):
        return decision.replica
    return decision.job


def job_of(decision: Decision) -> JobId:
    """The job it is about, or whose replica it is about."""
    if isinstance(decision, SetShare | Move):
        return decision.replica.job
    return decision.job


def outcome(decision: Decision, why: str) -> Outcome:
    """Refused for a reason, done at once (a share), or under way."""
    if why:
        return Refused(decision=decision, why=why)
    if isinstance(decision, SetShare):
        return Applied(decision=decision)
    return Started(decision=decision)
