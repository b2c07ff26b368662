"""Start, signal and kill the processes of replicas: all that needs the permissions of their users.

`DirectControl` does it in this process. In a server of several users, another process does it
(`privileged.py`), and this one has no permission to.
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
"""How long a start waits for killed processes of an earlier attempt, which need milliseconds."""
LAST = 3
"""How many earlier attempts of a replica are looked for before it is started."""


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
    """None: the user of this process."""
    data: Path
    """The data folder, which the user must be able to pass through."""
    prefix: Sequence[str] = ()
    """Words before the command, as the user of this process."""


@dataclass(frozen=True, slots=True)
class Started:
    pid: int
    pidfd: int
    """Readable when the process has exited."""
    child: Popen[bytes] | None = None
    """None: a child of another process, which reaps it."""


class ProcessControl(Protocol):
    needs_cgroups: bool

    def start(self, request: StartRequest) -> Started: ...

    def signal(self, group: Group, number: int, shell: int = 0) -> bool:
        """Signal the group; `shell`: also the process group of this child, if the training has not
        begun. False: it had not, so that the signal may be lost and must be sent again.
        """
        ...

    def close_group(self, group: Group) -> bool:
        """Kill what is left in the group and remove it. False: try again later."""
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
    """Whether one of these processes is the training, or the shell has ended. A copy of the shell
    runs until it becomes the training; what is sent before the copy exists does not reach it, nor
    what it gets in its first instants, in which it has the handlers of the shell.
    """
    if procfs.stat(shell) is None:
        return True
    own = procfs.words(shell)
    return own != b"" and any(procfs.words(pid) != own for pid in pids)


def signal_child(shell: int, number: int) -> None:
    """Signal the process group of a child: its pid is not of another process as long as it lives,
    and until it is reaped.
    """
    with suppress(ChildProcessError, ProcessLookupError):
        if os.waitid(os.P_PID, shell, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            os.killpg(shell, number)


def left_of(files: Files) -> set[int]:
    """The processes of an attempt: of its session, and those with its mark."""
    claim = launcher.claim_of(files.records, files.attempt)
    left = set(claim.left(procfs.sessions()) if claim else ())
    marks = {"HEADWAY_DIR": str(files.folder), "HEADWAY_ATTEMPT": str(files.attempt)}
    left.update(procfs.marked(**marks))
    return left


def left_of_earlier(files: Files) -> set[int]:
    """The processes of the attempts before this one."""
    sessions, left = procfs.sessions(), set[int]()
    for attempt in range(max(1, files.attempt - LAST), files.attempt):
        claim = launcher.claim_of(files.records, attempt)
        left.update(claim.left(sessions) if claim else ())
    for pid in procfs.marked(HEADWAY_DIR=str(files.folder)):
        if procfs.environment(pid).get("HEADWAY_ATTEMPT") != str(files.attempt):
            left.add(pid)
    return left


def check_alone(files: Files) -> None:
    """Two attempts of a replica never run at the same time: kill what is left of the last ones."""
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
