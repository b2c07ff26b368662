"""Remove the directories of ended runs and of ended jobs of a server."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from time import time

from headway.core.model.units import JobId, Seconds
from headway.errors import ConfigError
from headway.runtime.run_directory import RunDirectory
from headway.runtime.run_status import find_server, submissions_of


@dataclass(frozen=True, slots=True)
class EndedRun:
    id: str
    path: Path
    age: Seconds
    """Time since the end."""
    size: int
    """Bytes on disk."""

    def remove(self) -> bool:
        """Remove the run directory. Return False if a Headway process uses it."""
        folder = RunDirectory(self.path)
        try:
            folder.lock()
        except ConfigError:
            return False
        folder.discard()
        return True


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job of a server."""

    folder: RunDirectory
    job: str
    age: Seconds
    """Time since the end."""

    @property
    def id(self) -> str:
        return f"{self.folder.id}/{self.job}"

    @property
    def size(self) -> int:
        return sum(_size(path) for path in self.paths)

    @property
    def paths(self) -> list[Path]:
        return [self.folder.path / name / self.job for name in ("jobs", "records")]

    def remove(self) -> bool:
        """Remove output, checkpoints and records, then the submission. Return whether this has
        succeeded. No other job gets this id, because the journal has decisions about it.
        """
        for path in self.paths:
            rmtree(path, ignore_errors=True)
        if any(path.exists() for path in self.paths):
            return False
        with submissions_of(self.folder) as submissions:
            submissions.forget(JobId(self.job))
        return True


Ended = EndedRun | EndedJob


def ended_jobs(data: Path) -> list[EndedJob]:
    """Return the ended jobs of the server, the last to end first."""
    folder = find_server(data)
    if folder is None:
        return []
    began, now = float(folder.about["began"]), time()
    with submissions_of(folder) as submissions:
        ends = submissions.ends()
    found = [EndedJob(folder, job, max(0.0, now - began - end)) for job, end in ends]
    return sorted(found, key=lambda job: (job.age, job.job))


def ended_runs(data: Path) -> list[EndedRun]:
    """Return the ended runs, the last to end first. Other runs can be resumed."""
    found = []
    for path in (data / "runs").glob("*/result.json"):
        if not path.parent.is_symlink():
            age = max(0.0, time() - path.stat().st_mtime)
            found.append(EndedRun(path.parent.name, path.parent, age, _size(path.parent)))
    return sorted(found, key=lambda run: (run.age, run.id))


def select(ended: Sequence[Ended], *, older_than: Seconds, keep: int) -> list[Ended]:
    """Return those that ended at least so long ago, without the last `keep`."""
    return [each for each in ended[keep:] if each.age >= older_than]


def _size(folder: Path) -> int:
    total = 0
    for top, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(f"{top}/{name}").st_size
    return total
