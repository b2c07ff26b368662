"""Job states as files: `jobs/NAME/state.json` in a run's folder, replaced as a whole.

What a platform must know of an attempt is in `records/NAME/REPLICA`: jobs can write to the folder
`jobs/NAME/REPLICA`, which is mounted into containers, so that nothing in it is a fact.
"""

import json
import logging
from collections.abc import Iterable
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
from headway.errors import BackendError
from headway.metrics import job_files

log = logging.getLogger("headway")
STATE = "state.json"


class JobStore:
    def __init__(self, run: Path) -> None:
        self._jobs, self._records, self._boot = run / "jobs", run / "records", run / "boot"
        self.data = run.parent.parent
        """The data folder."""

    def replica(self, replica: ReplicaId) -> Path:
        """The folder of a replica."""
        return self._jobs / replica.job / replica.name

    def records(self, replica: ReplicaId) -> Path:
        """Headway's records of its attempts."""
        return self._records / replica.job / replica.name

    def rebooted(self) -> bool:
        """Whether the machine was booted since this was last called for the run."""
        now = boot_id()
        before = self._boot.read_text() if self._boot.exists() else ""
        if before != now:
            durable.make(self._boot.parent)
            durable.write(self._boot, now)
        return before not in ("", now)

    def attempts(self, job: JobId) -> list[tuple[ReplicaId, int]]:
        """Attempts of a job that were started, as far as there are records of them."""
        claims = sorted((self._records / job).glob("*/claim.*"))
        found = ((p.parent.name, p.name.partition(".")[2]) for p in claims)
        return [(ReplicaId.named(job, r), int(n)) for r, n in found if n.isdecimal()]

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
        try:
            durable.make(folder)
            durable.write(folder / STATE, json.dumps(to_plain(state)))
        except OSError as error:
            why = f"state of job {job} was not stored: {error.strerror}"
            raise BackendError(why) from None

    def load(self, jobs: Iterable[JobId], *, repair: bool = False) -> dict[JobId, JobState]:
        """A job whose state cannot be read has failed; `repair`: store that."""
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


def prepare(folder: Path, attempt: int) -> None:
    """The folder of a replica before an attempt starts."""
    folder.mkdir(parents=True, exist_ok=True)
    job_files.make_folder(folder, "checkpoint")
    failpoint.hit("replica.attempt")
    job_files.replace_file(folder, "attempt", str(attempt))
    job_files.remove_file(folder, "ask")
