"""Job states as files: `jobs/NAME/state.json` in a run's folder, replaced as a whole."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from headway import failpoint
from headway.controller.job_state import JobState, from_plain, to_plain
from headway.core.model.units import JobId, ReplicaId

STATE = "state.json"


class JobStore:
    def __init__(self, run: Path) -> None:
        self._jobs = run / "jobs"

    def replica(self, replica: ReplicaId) -> Path:
        """The folder of a replica."""
        return self._jobs / replica.job / replica.name

    def save(self, job: JobId, state: JobState) -> None:
        """Durable when this returns: file and directory are synced."""
        folder = self._jobs / job
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{STATE}.part"
        with part.open("w", encoding="utf-8") as file:
            json.dump(to_plain(state), file)
            file.flush()
            os.fsync(file.fileno())
        failpoint.hit()
        part.replace(folder / STATE)
        _sync(folder)

    def load(self, jobs: Iterable[JobId]) -> dict[JobId, JobState]:
        found = {}
        for job in jobs:
            with suppress(FileNotFoundError):
                text = (self._jobs / job / STATE).read_text(encoding="utf-8")
                found[job] = from_plain(json.loads(text))
        return found


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
