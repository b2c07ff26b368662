"""Memory that the runs on this machine have promised to their jobs and that is not in use yet.

Each run publishes the sum in a file of a common folder. Memory in use is already excluded from the
available memory that the kernel reports.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir

from headway.backend import procfs
from headway.core.model.units import Bytes
from headway.metrics import job_files

NOTICEABLE: Bytes = 16 * 2.0**20
MOST_RECORD = 1000


class PromisedMemory:
    def __init__(self, run: str, folder: Path | None = None) -> None:
        named = os.environ.get("HEADWAY_REGISTRY") or f"{gettempdir()}/headway-runs"
        self._folder = folder or Path(named)
        self._name, self._published = f"{os.getuid()}-{run}.json", 0.0

    def publish(self, promised: Bytes) -> None:
        """Publish the promised memory of this run. Small changes are not written."""
        if abs(promised - self._published) < NOTICEABLE or self._folder.is_symlink():
            return  # any user can put a link there, and Headway may run as root
        pid = os.getpid()
        line = {"pid": pid, "began": procfs.start_time(pid), "promised": promised}
        with suppress(OSError):  # without the folder, runs ignore each other
            if not self._folder.is_dir():
                self._folder.mkdir(exist_ok=True)
                self._folder.chmod(0o1777)
            job_files.replace_file(self._folder, self._name, json.dumps(line), 0o644)
            self._published = promised

    def of_others(self) -> Bytes:
        """Return the promised memory of all other live runs, of any user."""
        try:
            names = [p.name for p in self._folder.iterdir() if p.suffix == ".json"]
        except OSError:
            return 0.0
        return sum(self._promised(name) for name in names if name != self._name)

    def _promised(self, name: str) -> Bytes:
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            line = json.loads(job_files.read_file(self._folder, name, MOST_RECORD))
            pid, owner = int(line["pid"]), os.lstat(self._folder / name).st_uid
            lives = procfs.start_time(pid) == line["began"]
            if not lives or Path(f"/proc/{pid}").stat().st_uid != owner:
                job_files.remove_file(self._folder, name)  # succeeds only if it is ours
                return 0.0
            return min(max(0.0, float(line["promised"])), float(procfs.machine_memory()))
        return 0.0

    def close(self) -> None:
        job_files.remove_file(self._folder, self._name)
