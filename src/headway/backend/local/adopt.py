"""Foreign processes as jobs."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from headway.backend.local.enforcement import procfs
from headway.core.model.job import JobSpec
from headway.core.model.units import JobId
from headway.errors import ConfigError, Denied
from headway.spec.runnable import RunnableJob


def to_jobs(pids: Sequence[int]) -> list[RunnableJob]:
    return [_job(pid) for pid in dict.fromkeys(pids)]


def _job(pid: int) -> RunnableJob:
    if procfs.stat(pid) is None:
        raise ConfigError(f"no process has the pid {pid}", hint="look it up with ps or pgrep")
    try:
        os.kill(pid, 0)
    except PermissionError:
        raise Denied(
            f"permission denied: process {pid}", hint="run Headway as its owner, or as root"
        ) from None
    name = Path(f"/proc/{pid}/comm").read_text().strip().lower()
    clean = "".join(c if c.isalnum() else "-" for c in name).strip("-") or "process"
    return RunnableJob(
        id=JobId(f"{clean}-{pid}"), at=0.0, spec=JobSpec(), commands={}, adopted=pid, log=_log(pid)
    )


def _log(pid: int) -> Path | None:
    """The file that its output is redirected to, if any."""
    with suppress(OSError):
        there = Path(f"/proc/{pid}/fd/1").resolve(strict=True)
        return there if there.is_file() else None
    return None
