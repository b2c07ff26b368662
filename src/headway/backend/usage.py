"""Usage of a replica, in the same form on every platform."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UsageSample:
    """Usage since the start of a replica, and its present memory."""

    cpu: float = 0.0
    """Core-seconds."""
    memory: int = 0
    """Bytes, without the page cache."""
    block_io: int = 0
    """Bytes read and written."""
    network_io: int | None = None
    """Bytes received and sent; None: not measured, for example for processes."""
    periods: int = 0
    throttled: int = 0
    """Number of periods in which the limit throttled the replica."""
    idle: float | None = None
    """Core-seconds in which the CPUs of the machine were idle; None: not measured."""
