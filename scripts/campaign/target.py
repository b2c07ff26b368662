"""Where the runs of a trial take place."""

import sys
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Target:
    """A platform: variables and options for Headway, and the interpreter of its jobs."""

    name: str
    env: dict[str, str]
    options: tuple[str, ...] = ()
    nodes: tuple[dict[str, Any], ...] = ({"name": "a", "cpu": 1}, {"name": "b", "cpu": 1})
    python: str = sys.executable
    ledger: bool = True
    """Whether jobs see the folder of the ledger; otherwise they use their own."""
    engine: str = ""
    """The URL of the Docker engine."""
    points: dict[str, int] = field(default_factory=dict)
    """How often each failpoint is hit in an undisturbed run."""
