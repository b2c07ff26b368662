"""The record of a replica, and of its transfer."""

from dataclasses import dataclass
from enum import Enum, auto
from math import inf

from headway.controller.job_state import NO_CHECKPOINT, Checkpoint, ReplicaState
from headway.core.model.job import Phase, Replica
from headway.core.model.units import Cores, NodeId, ReplicaId, Seconds


class Stage(Enum):
    WAITING = auto()
    """Waits until the chief of its gang has saved a checkpoint."""
    RESERVING = auto()
    """Waits until capacity on the target node is reserved."""
    REQUESTED = auto()
    """Waits until its present checkpoint is read."""
    SAVING = auto()
    """Waits for a newer checkpoint."""
    STOPPING = auto()
    """Waits until the process has exited."""
    ARRIVING = auto()
    """Restarted; waits for the first report."""


@dataclass(slots=True)
class Transfer:
    """Progress of a replica that is moved, suspended or restarted."""

    to: NodeId | None
    """Target node; None: the replica restarts with its job."""
    stage: Stage = Stage.REQUESTED
    baseline: Checkpoint = NO_CHECKPOINT
    """Newest checkpoint at the begin of the transfer."""
    reserved: int = 0
    """Attempt that reserves capacity on the target node; 0: none."""
    waiting_for: str = ""
    """Why this attempt has no capacity yet."""
    unschedulable: bool = False
    """Whether `waiting_for` is a reason of the target node."""

    @property
    def leaves(self) -> bool:
        """Whether the replica still runs on its node and has not been asked to stop."""
        return self.stage is Stage.RESERVING or self.saving

    @property
    def stopping(self) -> bool:
        return self.stage is Stage.STOPPING

    @property
    def saving(self) -> bool:
        return self.stage in (Stage.REQUESTED, Stage.SAVING)

    @property
    def arriving(self) -> bool:
        return self.stage is Stage.ARRIVING


@dataclass(slots=True, eq=False)
class ReplicaRecord:
    id: ReplicaId
    node: NodeId
    attempt: int
    phase: Phase = Phase.STARTING
    limit: Cores | None = None
    weight: float = 1.0
    in_effect: tuple[Cores | None, float] = (None, 1.0)
    """The share that the platform has confirmed."""
    started: bool = False
    """Whether `Start` was sent."""
    prepared: bool = False
    """Whether it holds capacity on its node and waits for the others of its gang."""
    running: bool = False
    stop_failed: bool = False
    """Whether `Stop` failed. It is sent again at the deadline."""
    transfer: Transfer | None = None
    came_from: NodeId | None = None
    """Previous node. Its capacity is held until the replica has reported on the new node."""
    deadline: Seconds = inf
    """When `overdue` of `lifecycle` or `transfer` acts: it kills a replica that stops, restarts or
    fails a job that starts, and gives up a transfer."""
    waiting_for: str = ""
    """Why the platform cannot run it yet."""
    unschedulable: bool = False
    """Whether `waiting_for` is a reason of its node."""

    @property
    def arriving(self) -> bool:
        """Whether it was restarted and runs, but has not reported yet."""
        return self.running and self.transfer is not None and self.transfer.arriving

    def to_core(self) -> Replica:
        bound_for = self.transfer.to if self.transfer else None
        if self.came_from is not None:
            bound_for = self.node
        here = self.came_from or self.node
        limit, weight = self.in_effect if self.running else (self.limit, self.weight)
        return Replica(
            id=self.id,
            job=self.id.job,
            task=self.id.task,
            node=here,
            phase=self.phase,
            bound_for=None if bound_for == here else bound_for,
            limit=limit,
            weight=weight,
        )

    def state(self) -> ReplicaState:
        t = self.transfer if self.transfer and self.transfer.stopping else None
        return ReplicaState(
            replica=self.id,
            node=self.node,
            attempt=self.attempt,
            came_from=self.came_from,
            starting=not self.running,
            leaving=self.phase is Phase.STOPPING,
            stopping=t is not None,
            to=t.to if t else None,
            baseline=t.baseline if t else NO_CHECKPOINT,
            reserved=self.transfer.reserved if self.transfer else 0,
        )
