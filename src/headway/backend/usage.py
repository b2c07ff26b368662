"""What a replica has used, as every platform tells it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UsageSample:
    """What a replica has used since it began, and holds now."""

    cpu: float = 0.0
    """Core-seconds."""
    memory: int = 0
    """Bytes of its own now (what is cached of files is nobody's own)."""
    block_io: int = 0
    """Bytes read and written."""
    periods: int = 0
    throttled: int = 0
    """Of the periods, those in which its ceiling held it back."""
