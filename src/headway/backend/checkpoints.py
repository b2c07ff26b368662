"""Checkpoints in the folder of a replica: find the newest complete one, and request a new one."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headway import failpoint
from headway.controller.commands import RequestCheckpoint
from headway.controller.events import CheckpointRead
from headway.controller.job_state import NO_CHECKPOINT, Checkpoint
from headway.core.model.job import Mode
from headway.core.model.units import ReplicaId, Seconds
from headway.metrics import job_files

LOOK: Seconds = 0.05
"""Interval between two checks for a requested checkpoint."""
MAX_NOTE = 4096
"""Maximum size of `LATEST` in bytes."""


def newest(folder: Path, mode: Mode) -> Checkpoint:
    """Return the checkpoint that `LATEST` names. Without it, in other modes than `sdk`, the newest
    file identifies the checkpoint.
    """
    with suppress(OSError):
        note = job_files.read_file(folder, "checkpoint/LATEST", MAX_NOTE)
        return Checkpoint(note.decode(errors="replace"), verified=True)
    if mode is Mode.SDK:
        return NO_CHECKPOINT
    found = job_files.files(folder, "checkpoint")
    newest_file = max(((s.st_mtime_ns, s.st_size) for s in found), default=None)
    return NO_CHECKPOINT if newest_file is None else Checkpoint(str(newest_file))


@dataclass(slots=True)
class _Requested:
    attempt: int
    folder: Path
    mode: Mode
    last: Checkpoint


@dataclass(slots=True)
class CheckpointWatch:
    """Requested checkpoints, checked until they appear or are cancelled."""

    _requested: dict[ReplicaId, _Requested] = field(default_factory=dict)

    def request(self, command: RequestCheckpoint, folder: Path, mode: Mode) -> CheckpointRead:
        now = newest(folder, mode)
        self._requested[command.replica] = _Requested(command.attempt, folder, mode, now)
        if command.ask:
            failpoint.hit("checkpoint.ask")
            job_files.replace_file(folder, "ask", "")
        return CheckpointRead(command.replica, command.attempt, now)

    def cancel(self, replica: ReplicaId, folder: Path) -> None:
        """Cancel a request."""
        self._requested.pop(replica, None)
        job_files.remove_file(folder, "ask")

    def timeout(self, timeout: Seconds) -> Seconds:
        """Return how long a poll may wait."""
        return min(timeout, LOOK) if self._requested else timeout

    def changed(self) -> list[CheckpointRead]:
        events = []
        for name, r in self._requested.items():
            now = newest(r.folder, r.mode)
            if now != r.last:
                r.last = now
                events.append(CheckpointRead(name, r.attempt, now))
        return events
