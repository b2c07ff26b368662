"""The five kinds of decision, each one atomic action with its reason. Plans, and outcomes."""

from typing import TypeAlias

from headway.core.model.serialization import record
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds, Where


@record
class SetShare:
    """Set the limit of a replica in cores (None: no limit) and its weight under contention."""

    replica: ReplicaId
    limit: Cores | None = None
    weight: float = 1.0
    reason: str = ""


@record
class Place:
    """Start a job: each replica of its gang on a node. Either all replicas start or none."""

    job: JobId
    where: Where
    partial: bool = False
    """Start these replicas now and the others by later decisions, as a scheduler does that places
    pod by pod. The job holds its capacity until all of its replicas have started."""
    reason: str = ""


@record
class Move:
    """Migrate a replica: checkpoint, stop, start on another node, resume."""

    replica: ReplicaId
    to: NodeId
    reason: str = ""


@record
class Scale:
    """Add and remove replicas of a task, within its bounds."""

    job: JobId
    task: str
    add: Where = ()
    remove: tuple[ReplicaId, ...] = ()
    reason: str = ""

    @property
    def change(self) -> str:
        """Which replicas come and go.

        >>> first, second = ReplicaId("a/x/worker-0"), ReplicaId("a/x/worker-1")
        >>> Scale(job="a/x", task="worker", add=((second, "n"),), remove=(first,)).change
        'add worker-1 on n; remove worker-0'
        """
        added = ", ".join(f"{replica.name} on {node}" for replica, node in self.add)
        taken = ", ".join(replica.name for replica in self.remove)
        parts = (f"add {added}" if added else "", f"remove {taken}" if taken else "")
        return "; ".join(filter(None, parts))


@record
class Suspend:
    """Suspend a job: checkpoint, release the capacity, return to the queue."""

    job: JobId
    reason: str = ""


Decision: TypeAlias = SetShare | Place | Move | Scale | Suspend


@record
class Plan:
    """The decisions of one cycle, and when to run the next one if nothing happens."""

    decisions: tuple[Decision, ...] = ()
    wake_after: Seconds | None = None
    look: tuple[NodeId, ...] = ()
    """Nodes whose replicas must report before the next cycle."""


CALM = Plan()


@record
class Started:
    """The action is in progress. The phase in the next observation shows its state."""

    decision: Decision


@record
class Applied:
    decision: Decision


@record
class Refused:
    """`check` or the platform has declined the decision. The next cycle decides again."""

    decision: Decision
    why: str


@record
class Failed:
    """The platform has tried and failed."""

    decision: Decision
    why: str


Outcome: TypeAlias = Started | Applied | Refused | Failed


def subject(decision: Decision) -> JobId | ReplicaId:
    """Return the replica or job that a decision changes."""
    if isinstance(decision, SetShare | Move):
        return decision.replica
    return decision.job


def job_of(decision: Decision) -> JobId:
    """Return the job that a decision changes, or the job of its replica."""
    if isinstance(decision, SetShare | Move):
        return decision.replica.job
    return decision.job


def outcome(decision: Decision, why: str) -> Outcome:
    """Return the outcome. `why`: why the decision is refused; "": a share is applied, and any other
    decision is started.
    """
    if why:
        return Refused(decision=decision, why=why)
    if isinstance(decision, SetShare):
        return Applied(decision=decision)
    return Started(decision=decision)
