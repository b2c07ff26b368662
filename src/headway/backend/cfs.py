"""Units of the fair scheduler of Linux, in which cgroup version 1 and Docker express shares."""

from headway.core.model.units import Cores

PERIOD = 100_000
"""Default period of a quota, in microseconds."""
NORMAL = 1024
"""CPU shares for weight 1."""


def cpu_shares(weight: float) -> int:
    return min(262144, max(2, round(NORMAL * weight)))


def cpu_quota(cores: Cores, period: int = PERIOD) -> int:
    """Return a quota, at least the smallest one that the kernel accepts."""
    return max(1000, round(cores * period))
