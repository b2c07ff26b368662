"""Status of the jobs of a run, in the file `status.json` of the run directory.

The process of the run replaces the file after each change. The cost of reading it depends only on
the number of jobs. This module imports little, because `headway ps` must start fast.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any

from headway import private_files
from headway.core.model.units import Cores, NodeId, Seconds

FILE = "status.json"
LISTED = 1000
"""Maximum number of jobs without replicas in the file of a server. Other jobs are pending."""
FAR = f"more than {LISTED} jobs are ahead in the queue"
ENDED = frozenset({"succeeded", "failed", "cancelled", "released"})
"""Phases and outcomes of jobs that have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """Status of a job. Times are seconds since the start of the run. None or empty: unknown."""

    run: str
    job: str
    phase: str
    nodes: tuple[NodeId, ...] = ()
    step: float | None = None
    total_steps: float | None = None
    value: float | None = None
    cores: Cores | None = None
    """Usage at the last sample."""
    share: float | None = None
    """Fraction of the weights of all jobs: what the job gets if all use what they can."""
    limit: Cores | None = None
    """Limit of its replicas; None: no limit."""
    eta_s: Seconds | None = None
    """Expected time of the end."""
    guarantee_s: Seconds | None = None
    """Guaranteed latest time of the end."""
    submitted_s: Seconds = 0.0
    started_s: Seconds | None = None
    finished_s: Seconds | None = None
    reason: str = ""
    """Why the job waits, has its share, or has ended,"""
    decided_s: Seconds | None = None
    """by a decision at this time."""
    at_s: Seconds = 0.0
    """Time of this status."""
    began: float = 0.0
    """Time of day at 0 s."""
    uid: int | None = None
    """User that has submitted the job; None: the server has one user."""
    user: str = ""
    """Name of this user, or its uid."""

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    def plain(self) -> dict[str, Any]:
        """Return the job as JSON, which has no NaN and no infinity."""
        return {name: getattr(self, name) for name in NAMES} | {"value": finite(self.value)}


def finite(number: float | None) -> float | None:
    return number if number is not None and isfinite(number) else None


NAMES = tuple(field.name for field in fields(JobStatus))


def write(run: Path, jobs: Iterable[JobStatus]) -> None:
    """Replace the file atomically. It need not survive a power cut, because it is written again."""
    part = run / f"{FILE}.part"
    with open(part, "w", encoding="utf-8", opener=private_files.opener) as file:
        listed = [{**job.plain(), "value": job.value} for job in jobs]  # also NaN
        file.write(json.dumps(listed))  # much faster than `dump`
    part.replace(run / FILE)


def read(run: Path) -> list[JobStatus] | None:
    """Read the file; None: it cannot be read."""
    try:
        return [from_plain(job) for job in json.loads((run / FILE).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def from_plain(plain: dict[str, Any]) -> JobStatus:
    """Convert a job from JSON. Fields of a later version are ignored."""
    found = {name: plain[name] for name in NAMES if name in plain}
    return JobStatus(**{**found, "nodes": tuple(found.get("nodes", ()))})
