"""How far a replica is with being moved, suspended or restarted."""

from dataclasses import dataclass
from enum import Enum, auto

from headway.controller.job_state import NO_CHECKPOINT, Checkpoint
from headway.core.model.units import NodeId


class Stage(Enum):
    WAITING = auto()
    """For the chief of its gang to save."""
    REQUESTED = auto()
    """For the checkpoint that it has now."""
    SAVING = auto()
    """For a newer one."""
    STOPPING = auto()
    ARRIVING = auto()
    """Started again; for its first report."""


@dataclass(slots=True)
class Transfer:
    to: NodeId | None
    """None: it is not started again by itself; its job is."""
    stage: Stage = Stage.REQUESTED
    baseline: Checkpoint = NO_CHECKPOINT
    """Its newest checkpoint when the transfer began."""

    @property
    def stopping(self) -> bool:
        return self.stage is Stage.STOPPING

    @property
    def saving(self) -> bool:
        return self.stage in (Stage.REQUESTED, Stage.SAVING)

    @property
    def arriving(self) -> bool:
        return self.stage is Stage.ARRIVING
