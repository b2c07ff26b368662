"""Remove the directories of runs that have ended. By default all are kept."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time

from headway.core.model.units import Seconds
from headway.errors import ConfigError
from headway.runtime.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class EndedRun:
    id: str
    path: Path
    age: Seconds
    """Since it ended."""
    size: int
    """Bytes on disk."""


def ended_runs(data: Path) -> list[EndedRun]:
    """The runs that have ended, the last to end first. Others can be resumed and are never here."""
    found = []
    for path in (data / "runs").glob("*/result.json"):
        if not path.parent.is_symlink():
            age = max(0.0, time() - path.stat().st_mtime)
            found.append(EndedRun(path.parent.name, path.parent, age, _size(path.parent)))
    return sorted(found, key=lambda run: (run.age, run.id))


def select(runs: list[EndedRun], *, older_than: Seconds = 0.0, keep: int = 0) -> list[EndedRun]:
    """Those that ended at least so long ago, but none of the last `keep`."""
    return [run for run in runs[keep:] if run.age >= older_than]


def remove(run: EndedRun) -> bool:
    """False: a Headway process uses it."""
    folder = RunDirectory(run.path)
    try:
        folder.lock()
    except ConfigError:
        return False
    folder.discard()
    return True


def _size(folder: Path) -> int:
    total = 0
    for top, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(f"{top}/{name}").st_size
    return total
