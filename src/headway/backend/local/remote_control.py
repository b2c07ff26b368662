"""Client of the launcher: the launcher starts and signals processes for the scheduler."""

import logging
import os
import signal
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from headway import private_files
from headway.backend.job_store import prepare
from headway.backend.local.channel import Channel
from headway.backend.local.enforcement.select import Group
from headway.backend.local.launcher import Files
from headway.backend.local.process_control import Started, StartRequest
from headway.backend.local.run_as import User
from headway.core.model.units import ReplicaId

LOST = 70
"""Exit code of a scheduler whose launcher has ended."""
log = logging.getLogger("headway")


class RemoteControl:
    needs_cgroups = True

    def __init__(self, channel: Channel, records: Path) -> None:
        """`records`: folder of the launcher's records."""
        self._channel, self._records, self._lock = channel, records, Lock()

    def start(self, request: StartRequest) -> Started:
        files, user = request.files, request.user
        if user is None:
            raise ValueError("the job has no submitter, as whom it could run")
        link = _run(files) / "records"
        with suppress(FileExistsError):
            link.symlink_to(self._records / link.parent.name)
        prepare(files.folder, files.attempt)
        private_files.let_pass(files.folder, request.data)
        answer, (pidfd,) = self._ask(
            "start",
            **_about(request.replica, files, user),
            argv=list(request.argv),
            env=dict(request.env),
            where=request.where,
            cpus=None if request.cpus is None else list(request.cpus),
            groups=[path.removesuffix("/cgroup.procs") for path in request.group.entrances()],
        )
        return Started(int(answer["pid"]), pidfd)

    def signal(self, group: Group, number: int, shell: int = 0) -> bool:
        folder = group.entrances()[0].removesuffix("/cgroup.procs")
        answer, _ = self._ask("signal", group=folder, signal=int(number), shell=shell)
        return bool(answer["begun"])

    def close_group(self, group: Group) -> bool:
        if group.pids():
            with suppress(ValueError):  # the group is gone
                self.signal(group, signal.SIGKILL)
        return group.close()

    def kill_left(self, replica: ReplicaId, files: Files, user: User | None) -> bool:
        if user is None:
            return False
        return bool(self._ask("kill", **_about(replica, files, user))[0]["left"])

    def _ask(self, what: str, **fields: Any) -> tuple[dict[str, Any], list[int]]:
        """Send a request. Raise the `OSError` of the launcher, or `ValueError` if it refuses."""
        with self._lock:
            try:
                self._channel.send({"do": what, **fields})
                answer, descriptors = self._channel.receive()
            except OSError as error:
                # The process may have been started. The next scheduler finds it by its claim, as
                # after any crash.
                log.error("the launcher has ended: %s", error)  # noqa: TRY400 - no traceback
                os._exit(LOST)
        if "refused" in answer:
            raise ValueError(f"the launcher refuses this: {answer['refused']}")
        if "errno" in answer:
            raise OSError(int(answer["errno"]), str(answer["error"]))
        return answer, descriptors


def _run(files: Files) -> Path:
    """Return the folder of the run, for RUN/jobs/JOB/REPLICA."""
    return files.folder.parents[2]


def _about(replica: ReplicaId, files: Files, user: User) -> dict[str, Any]:
    return {
        "run": _run(files).name,
        "job": str(replica.job),
        "replica": replica.name,
        "attempt": files.attempt,
        "uid": user.uid,
        "gid": user.gid,
    }
