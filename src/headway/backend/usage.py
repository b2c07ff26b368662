"""Usage of a replica, the same on every platform."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UsageSample:
    """Usage since the start of a replica, and memory that it holds now."""

    cpu: float = 0.0
    """Core-seconds."""
    memory: int = 0
    """Bytes, without the page cache."""
    block_io: int = 0
    """Bytes read and written."""
    network_io: int | None = None
    """Bytes received and sent; None: not counted, as on one machine."""
    periods: int = 0
    throttled: int = 0
    """Periods in which its limit throttled it."""
