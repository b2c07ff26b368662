"""Adopt processes as jobs."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from headway.backend import procfs
from headway.core.model.job import JobSpec
from headway.core.model.units import JobId
from headway.errors import ConfigError, Denied
from headway.spec.runnable import RunnableJob


def to_jobs(pids: Sequence[int]) -> list[RunnableJob]:
    return [_job(pid) for pid in dict.fromkeys(pids)]


def _job(pid: int) -> RunnableJob:
    if procfs.stat(pid) is None:
        raise ConfigError(
            f"no process has the pid {pid}", where="/proc", hint="look it up with ps or pgrep"
        )
    if why := _protected(pid):
        raise ConfigError(
            f"process {pid} cannot be adopted: {why}",
            where=f"/proc/{pid}",
            hint="adopt the process that trains; look it up with ps or pgrep",
        )
    try:
        os.kill(pid, 0)
    except PermissionError:
        raise Denied(
            f"permission denied: process {pid}", hint="run Headway as its owner, or as root"
        ) from None
    name = Path(f"/proc/{pid}/comm").read_text().strip().lower()
    clean = "".join(c if c.isascii() and c.isalnum() else "-" for c in name).strip("-") or "process"
    return RunnableJob(
        id=JobId(f"{clean}-{pid}"), at=0.0, spec=JobSpec(), commands={}, adopted=pid, log=_log(pid)
    )


def _protected(pid: int) -> str:
    """Return why Headway must not limit this process; "": it may."""
    if pid == 1:
        return "it is the init process"
    if procfs.is_kernel_thread(pid):
        return "it is a thread of the kernel"
    if pid == os.getpid():
        return "it is this Headway process"
    if pid in procfs.ancestors(os.getpid()):
        return "this Headway process is a descendant of it"
    return ""


def _log(pid: int) -> Path | None:
    """Return the file to which its output is redirected; None: it is not redirected."""
    with suppress(OSError):
        there = Path(f"/proc/{pid}/fd/1").resolve(strict=True)
        return there if there.is_file() else None
    return None
