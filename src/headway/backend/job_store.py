"""Job states as files: `jobs/NAME/state.json` in the run directory, replaced atomically.

Records of Headway about attempts are in `records/NAME/REPLICA`. The folder `jobs/NAME/REPLICA`
belongs to the job, which can write anything there: Headway does not trust its content.
"""

import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from headway import failpoint
from headway.backend import durable
from headway.backend.procfs import boot_id
from headway.backend.worker import Worker
from headway.controller import commands, events
from headway.controller.job_state import JobState, from_plain, to_plain
from headway.core.model.job import Phase
from headway.core.model.units import JobId, ReplicaId
from headway.errors import BackendError, reason_of
from headway.metrics import job_files

log = logging.getLogger("headway")
STATE = "state.json"


class JobStore:
    def __init__(self, run: Path) -> None:
        self._jobs, self._records, self._boot = run / "jobs", run / "records", run / "boot"
        self.data = run.parent.parent
        """The data folder."""

    def replica(self, replica: ReplicaId) -> Path:
        """Return the folder of a replica."""
        return self._jobs / replica.job / replica.name

    def records(self, replica: ReplicaId) -> Path:
        """Return the folder of Headway's records of a replica."""
        return self._records / replica.job / replica.name

    def rebooted(self) -> bool:
        """Return whether the machine was booted since the last call for this run."""
        now = boot_id()
        before = self._boot.read_text() if self._boot.exists() else ""
        if before != now:
            durable.make(self._boot.parent)
            durable.write(self._boot, now)
        return before not in ("", now)

    def attempts(self, job: JobId) -> list[tuple[ReplicaId, int]]:
        """Return the attempts of a job of which there are records."""
        found = []
        for replica, name in sorted(_files(self._records / job)):
            kind, _, number = name.partition(".")
            if kind == "claim" and number.isdecimal():
                found.append((ReplicaId.named(job, replica), int(number)))
        return found

    def execute(self, command: commands.JobCommand, disk: Worker) -> list[events.Event]:
        """Execute a command about a job. States are saved in another thread, because a disk can
        block.
        """
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
        """Save a state. It is durable when this returns."""
        folder = self._jobs / job
        try:
            durable.make(folder)
            durable.write(folder / STATE, json.dumps(to_plain(state)))
        except OSError as error:
            why = f"state of job {job} was not stored: {reason_of(error)}"
            raise BackendError(why) from None

    def load(self, jobs: Iterable[JobId], *, repair: bool = False) -> dict[JobId, JobState]:
        """Load states. A job whose state cannot be read has failed. `repair`: store this state."""
        found = {}
        for job in jobs:
            try:
                text = (self._jobs / job / STATE).read_text(encoding="utf-8")
                found[job] = from_plain(json.loads(text))
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                reason = f"its stored state cannot be read: {error}"
                log.warning("job %s: %s", job, reason)
                found[job] = JobState(phase=Phase.FAILED, reason=reason, finished_at=0.0)
                if repair:
                    with suppress(BackendError):
                        self.save(job, found[job])
        return found


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the folders of a folder, and the names in each. Faster than `Path.glob`: a run can have
    thousands of jobs.
    """
    with suppress(FileNotFoundError), os.scandir(folder) as replicas:
        for replica in replicas:
            with suppress(NotADirectoryError), os.scandir(replica.path) as files:
                yield from ((replica.name, file.name) for file in files)


def prepare(folder: Path, attempt: int) -> None:
    """Prepare the folder of a replica for an attempt."""
    folder.mkdir(parents=True, exist_ok=True)
    job_files.make_folder(folder, "checkpoint")
    failpoint.hit("replica.attempt")
    job_files.replace_file(folder, "attempt", str(attempt))
    job_files.remove_file(folder, "ask")
