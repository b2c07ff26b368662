"""Job states as files: `jobs/NAME/state.json` in a run's folder, replaced as a whole."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from headway import failpoint
from headway.backend.worker import Worker
from headway.controller.commands import Persist
from headway.controller.events import CommandFailed, Persisted
from headway.controller.job_state import JobState, from_plain, to_plain
from headway.core.model.units import JobId, ReplicaId
from headway.errors import BackendError

STATE = "state.json"


class JobStore:
    def __init__(self, run: Path) -> None:
        self._jobs = run / "jobs"

    def replica(self, replica: ReplicaId) -> Path:
        """The folder of a replica."""
        return self._jobs / replica.job / replica.name

    def persist(self, command: Persist, disk: Worker) -> None:
        """Save a state in another thread: a disk can block for longer than the loop may wait."""

        def save() -> None:
            try:
                self.save(command.job, command.state)
            except OSError as error:
                why = f"state of job {command.job} was not stored: {error.strerror}"
                raise BackendError(why) from None

        disk.do(
            save,
            lambda _: [Persisted(command.job, command.version)],
            lambda error: [CommandFailed(command, error.message)],
        )

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


def prepare(folder: Path, attempt: int) -> None:
    """The folder of a replica before an attempt starts."""
    (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
    (folder / "attempt").write_text(str(attempt))
    (folder / "ask").unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
