"""The jobs of a run as its process sees them now, in a file of the run: `status.json`.

The process replaces it after each change, so that the cost of reading it depends only on the number
of jobs. This module imports little: `headway ps` must start fast.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from headway import private_files
from headway.core.model.units import Cores, NodeId, Seconds

FILE = "status.json"
LISTED = 1000
"""Jobs without replicas that the process of a server knows at most; the others are pending."""
FAR = f"more than {LISTED} jobs are ahead in the queue"
ENDED = frozenset({"succeeded", "failed", "cancelled", "released"})
"""Phases and outcomes of jobs that have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """Times are seconds since the start of the run; None or empty: unknown. What is left of them is
    the difference to `at_s`.
    """

    run: str
    job: str
    phase: str
    nodes: tuple[NodeId, ...] = ()
    step: float | None = None
    total_steps: float | None = None
    value: float | None = None
    cores: Cores | None = None
    """Used at the last sample."""
    share: float | None = None
    """Its part of the weights of all jobs: what it gets if all use what they can."""
    limit: Cores | None = None
    """Its ceiling; None: it has none."""
    eta_s: Seconds | None = None
    """When it is expected to finish."""
    guarantee_s: Seconds | None = None
    """When it finishes at the latest."""
    submitted_s: Seconds = 0.0
    started_s: Seconds | None = None
    finished_s: Seconds | None = None
    reason: str = ""
    """Why it waits, has its share, or has ended,"""
    decided_s: Seconds | None = None
    """by a decision at this time."""
    at_s: Seconds = 0.0
    """When this was known."""
    began: float = 0.0
    """Time of day at 0 s."""
    uid: int | None = None
    """Of the user that has submitted it; None: the server has one user."""
    user: str = ""
    """Its name, or its number."""

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    def plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in NAMES}


NAMES = tuple(field.name for field in fields(JobStatus))


def write(run: Path, jobs: Iterable[JobStatus]) -> None:
    """Replace the file as a whole. It need not survive a power cut: it is written again."""
    part = run / f"{FILE}.part"
    with open(part, "w", encoding="utf-8", opener=private_files.opener) as file:
        file.write(json.dumps([job.plain() for job in jobs]))  # much faster than `dump`
    part.replace(run / FILE)


def read(run: Path) -> list[JobStatus] | None:
    """What the process of a run wrote last; None: nothing that can be read."""
    try:
        return [from_plain(job) for job in json.loads((run / FILE).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def from_plain(plain: dict[str, Any]) -> JobStatus:
    """A job as JSON. Fields of a later version are ignored."""
    found = {name: plain[name] for name in NAMES if name in plain}
    return JobStatus(**{**found, "nodes": tuple(found.get("nodes", ()))})
