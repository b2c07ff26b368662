"""Start, signal and kill the processes of replicas: everything that needs permissions of their
users.

`DirectControl` does this in the present process. In a server of several users, another process does
it (`privileged.py`).
"""

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EAGAIN
from pathlib import Path
from subprocess import Popen
from time import monotonic, sleep
from typing import Protocol

from headway.backend import procfs
from headway.backend.job_store import prepare
from headway.backend.local import launcher
from headway.backend.local.enforcement.select import Group
from headway.backend.local.launcher import Files
from headway.backend.local.run_as import User
from headway.core.model.units import ReplicaId, Seconds

EXITING: Seconds = 0.5
"""Maximum time for which a start waits until killed processes of an earlier attempt exit."""
LAST = 3
"""Number of earlier attempts whose processes are searched before a start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    replica: ReplicaId
    files: Files
    argv: Sequence[str]
    env: Mapping[str, str]
    where: str
    cpus: Sequence[int] | None
    group: Group
    user: User | None
    """None for the user of this process."""
    data: Path
    """The data folder. The user needs search permission on it."""
    prefix: Sequence[str] = ()
    """Words before the command. They run as the user of this process."""


@dataclass(frozen=True, slots=True)
class Started:
    pid: int
    pidfd: int
    """Readable when the process has exited."""
    child: Popen[bytes] | None = None
    """None if it is a child of another process."""


class ProcessControl(Protocol):
    needs_cgroups: bool

    def start(self, request: StartRequest) -> Started: ...

    def signal(self, group: Group, number: int, shell: int = 0) -> bool:
        """Signal the group. `shell`: if the training has not begun, also signal the process group
        of this child. Return False in this case: the signal may be lost and must be sent again.
        """
        ...

    def close_group(self, group: Group) -> bool:
        """Kill all processes of the group and remove it. Return False to try again later."""
        ...

    def kill_left(self, replica: ReplicaId, files: Files, user: User | None) -> bool:
        """Kill the processes of an attempt that have left its group; return whether some remain."""
        ...


class DirectControl:
    needs_cgroups = False

    def start(self, request: StartRequest) -> Started:
        files, user, prefix = request.files, request.user, tuple(request.prefix)
        if files.attempt > 1:
            check_alone(files)
        if user is not None:
            prepare(files.folder, files.attempt)
            user.own(files.folder, request.data)
            prefix += user.prefix
        child = launcher.start(
            files,
            (*prefix, *request.argv),
            cpus=request.cpus,
            env=request.env,
            where=request.where,
            entrances=request.group.entrances(),
        )
        return Started(child.pid, os.pidfd_open(child.pid), child)

    def signal(self, group: Group, number: int, shell: int = 0) -> bool:
        begun = has_begun(group.pids(), shell) if shell else True
        if not begun:
            signal_child(shell, number)
        group.signal(number)
        return begun

    def close_group(self, group: Group) -> bool:
        return group.close()

    def kill_left(self, replica: ReplicaId, files: Files, user: User | None) -> bool:
        del replica, user
        left = left_of(files)
        kill(left)
        return any(map(procfs.stat, left))


def has_begun(pids: Iterable[int], shell: int) -> bool:
    """Return whether one of these processes is the training, or the shell has ended. The shell
    forks, and the copy executes the training. Before that, the copy may lose signals: it still has
    the handlers of the shell.
    """
    if procfs.stat(shell) is None:
        return True
    own = procfs.words(shell)
    return own != b"" and any(procfs.words(pid) != own for pid in pids)


def signal_child(shell: int, number: int) -> None:
    """Signal the process group of a child that is not reaped: its pid cannot have been reused."""
    with suppress(ChildProcessError, ProcessLookupError):
        if os.waitid(os.P_PID, shell, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            os.killpg(shell, number)


def left_of(files: Files) -> set[int]:
    """Return the processes of an attempt: those of its session, and those with its variables."""
    claim = launcher.claim_of(files.records, files.attempt)
    left = set(claim.left(procfs.sessions()) if claim else ())
    marks = {"HEADWAY_DIR": str(files.folder), "HEADWAY_ATTEMPT": str(files.attempt)}
    left.update(procfs.marked(**marks))
    return left


def left_of_earlier(files: Files) -> set[int]:
    """Return the processes of earlier attempts."""
    sessions, left = procfs.sessions(), set[int]()
    for attempt in range(max(1, files.attempt - LAST), files.attempt):
        claim = launcher.claim_of(files.records, attempt)
        left.update(claim.left(sessions) if claim else ())
    for pid in procfs.marked(HEADWAY_DIR=str(files.folder)):
        if procfs.environment(pid).get("HEADWAY_ATTEMPT") != str(files.attempt):
            left.add(pid)
    return left


def check_alone(files: Files) -> None:
    """Kill the processes of earlier attempts: two attempts never run at the same time."""
    left = left_of_earlier(files)
    kill(left)
    end = monotonic() + EXITING
    while any(map(procfs.stat, left)):
        if monotonic() > end:
            raise BlockingIOError(EAGAIN, "an earlier attempt is still exiting")
        sleep(0.01)


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
