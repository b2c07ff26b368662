"""Job states as files: `jobs/NAME/state.json` in a run's folder, replaced as a whole."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from headway import failpoint
from headway.backend.worker import Worker
from headway.controller import commands, events
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

    def execute(self, command: commands.JobCommand, disk: Worker) -> list[events.Event]:
        """States are saved in another thread: a disk can block longer than the loop may wait."""
        match command:
            case commands.Admit(job=job):
                return [events.Admitted(job)]
            case commands.DeleteJob(job=job):
                return [events.JobDeleted(job, "its TTL has expired")]
            case commands.Persist(job=job, version=version, state=state):
                disk.do(
                    partial(self.save, job, state),
                    lambda _: [events.Persisted(job, version)],
                    lambda error: [events.CommandFailed(command, error.message)],
                )
        return []

    def save(self, job: JobId, state: JobState) -> None:
        """Durable when this returns: file and directory are synced."""
        folder = self._jobs / job
        part = folder / f"{STATE}.part"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            failpoint.hit("state.write")
            with part.open("w", encoding="utf-8") as file:
                json.dump(to_plain(state), file)
                file.flush()
                os.fsync(file.fileno())
            failpoint.hit("state.replace")
            part.replace(folder / STATE)
            failpoint.hit("state.sync")
            _sync(folder)
        except OSError as error:
            why = f"state of job {job} was not stored: {error.strerror}"
            raise BackendError(why) from None

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
    failpoint.hit("replica.attempt")
    (folder / "attempt").write_text(str(attempt))
    (folder / "ask").unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
