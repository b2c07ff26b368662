"""Timeouts and delays of the controller."""

from dataclasses import dataclass

from headway.core.model.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Timeouts and delays of the controller, and properties of its platform."""

    can_suspend: bool = True
    """Whether the platform can suspend running jobs. Otherwise they cannot be paused."""
    can_scale: bool = True
    """Whether the platform can start single replicas of a running job."""
    reserves: bool = False
    """Whether the platform reserves capacity on the target of a move before it stops the
    replica."""
    reserve_timeout: Seconds = 120.0
    """Time to get this reservation. The next two timeouts apply if the platform reports a
    reason."""
    start_timeout: Seconds = 900.0
    """Time from the start of a replica until it runs, including the pull of a large image."""
    stuck_timeout: Seconds = 30.0
    """Time until it runs, after the platform has reported why it does not."""
    unschedulable_timeout: Seconds = 10.0
    """Time until it gets its node, after the platform has reported that it is unschedulable."""
    avoid_node: Seconds = 60.0
    """Time in which a job does not use a node on which one of its replicas was unschedulable."""
    kill_interval: Seconds = 1.0
    """Interval between two kills of a replica that has not exited within its grace period."""
    first_backoff: Seconds = 1.0
    longest_backoff: Seconds = 300.0
    retry_command: Seconds = 1.0
    """Delay until a failed `Admit`, `Persist`, `Stop` or `DeleteJob` is repeated."""
    retry_removal: Seconds = 0.02
    removal_timeout: Seconds = 10.0
    """Time after which a failing removal is given up."""
    review_pending: Seconds = 30.0
    """Interval at which pending jobs are reconsidered if nothing else happens."""
