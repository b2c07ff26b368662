"""Timeouts and delays of the controller."""

from dataclasses import dataclass

from headway.core.model.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Timeouts and delays of the controller, and what it must know of its platform."""

    can_suspend: bool = True
    """Whether the platform can suspend running jobs; otherwise they cannot be paused."""
    can_scale: bool = True
    """Whether the platform can start single replicas of a running job."""
    reserves: bool = False
    """Whether the platform holds room on the target of a move before the replica is stopped."""
    reserve_timeout: Seconds = 120.0
    """For that room; less if the platform says that there is none."""
    start_timeout: Seconds = 900.0
    """For a replica to run after its start; large images take their time."""
    stuck_timeout: Seconds = 30.0
    """For a replica to run after the platform has said why it cannot."""
    unschedulable_timeout: Seconds = 10.0
    """For a replica to get its node after the platform has said that it does not."""
    avoid_node: Seconds = 60.0
    """A node on which a replica was unschedulable is not used for its job for this time."""
    kill_interval: Seconds = 1.0
    """Between two kills of a replica that has not exited within its grace period."""
    first_backoff: Seconds = 1.0
    longest_backoff: Seconds = 300.0
    retry_command: Seconds = 1.0
    """Until an `Admit`, `Persist`, `Stop` or `DeleteJob` that failed is tried again."""
    retry_removal: Seconds = 0.02
    removal_timeout: Seconds = 10.0
    """Until what an ended replica left is given up."""
    review_pending: Seconds = 30.0
    """Pending jobs are reconsidered after this time even if nothing happened."""
