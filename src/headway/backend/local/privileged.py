"""The launcher: the only process with root privileges of a server for several users.

It starts the processes of jobs as their users, signals them, and kills what they leave. The
scheduler, which is not root, requests this. The launcher checks each request: the scheduler may
start a command as any ordinary user, but never as root or a system user. Through the launcher, it
can neither write to files nor signal processes of others.
"""

import json
import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from errno import EAGAIN, EIO
from pathlib import Path
from typing import Any

from headway.backend import procfs
from headway.backend.local import launcher, process_control
from headway.backend.local.channel import Channel, Ended
from headway.backend.local.delegation import Delegated
from headway.backend.local.enforcement import cgroupfs
from headway.backend.local.launcher import SHIM, Files

CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
"""Environment of what runs as root. The environment of a user could change its behaviour."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGCONT, signal.SIGSTOP)
NAMES = {
    "run": re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}"),
    "job": re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"),
    "replica": re.compile(r"[a-z0-9]([a-z0-9-]{0,251}[a-z0-9])?"),
}
MAX_ATTEMPT = 10**9
MAX_PROCESSES = 4096
"""Maximum number of processes of a user (RLIMIT_NPROC)."""
DROP = """
import ctypes, json, os, resource, sys, warnings  # before the user, who may not be able to read it
with os.fdopen(int(sys.argv[1]), "rb") as file:
    told = json.loads(file.read())
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
most = min(n for n in (told["processes"], resource.getrlimit(resource.RLIMIT_NPROC)[1]) if n > 0)
resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
if ctypes.CDLL(None, use_errno=True).prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS
    sys.exit(126)
name, uid, gid = told["name"], told["uid"], told["gid"]
os.initgroups(name, gid) if name else os.setgroups([])
os.setresgid(gid, gid, gid)
os.setresuid(uid, uid, uid)
os.umask(0o022)
try:
    os.chdir(told["where"])
    os.execvpe(told["argv"][0], told["argv"], told["env"])
except OSError as error:
    print(f"{error.filename or told['argv'][0]}: {error.strerror}", file=sys.stderr)
    sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
"""
"""Runs in the shell, which enters the cgroups as root. The exit codes are those of a shell."""


class NotAllowed(Exception):
    """A request that the launcher refuses."""


def least_uid(path: Path = Path("/etc/login.defs")) -> int:
    """Return the smallest uid of ordinary users."""
    with suppress(OSError):
        found = re.search(r"^\s*UID_MIN\s+([0-9]+)", path.read_text(), re.MULTILINE)
        if found:
            return int(found[1])
    return 1000


@dataclass(slots=True)
class Launcher:
    runs: Path
    """Folder of the runs. The scheduler can write there."""
    records: Path
    """Folder of the records of attempts (pid, exit code). Only root can write there."""
    uid: int
    gid: int
    """Group of the scheduler."""
    groups: Delegated
    allowed: frozenset[int] = frozenset()
    """System users that jobs may run as."""
    least: int = field(default_factory=least_uid)

    def handle(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Return the answer to a request, and file descriptors."""
        what: dict[str, Callable[[dict[str, Any]], tuple[dict[str, Any], list[int]]]] = {
            "start": self._start, "signal": self._signal, "kill": self._kill,
        }  # fmt: skip
        try:
            return what[message["do"]](message)
        except NotAllowed as error:
            return {"refused": str(error)}, []
        except OSError as error:
            return {"errno": error.errno or EIO, "error": error.strerror or str(error)}, []
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return {"refused": f"not a valid request: {error}"}, []

    # -- requests --------------------------------------------------------------------------------

    def _start(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        uid, gid, name = self._user(message)
        files = self._files(message)
        where, argv, env = message["where"], message["argv"], message["env"]
        _check_words([where, *argv, *env, *env.values()])
        if not argv or any("=" in key or not key for key in env):
            raise NotAllowed("not a command and an environment")
        if not where.startswith("/"):
            raise NotAllowed("the working directory is not an absolute path")
        folders = [self._group(folder) for folder in message["groups"]]
        cpus = None if message["cpus"] is None else [int(cpu) for cpu in message["cpus"]]
        if left := self._checked(process_control.left_of_earlier(files), files, uid):
            process_control.kill(left)
            raise BlockingIOError(EAGAIN, "an earlier attempt is still exiting")
        self._give(files.folder, uid)
        self._allocate(files)
        told = {
            "uid": uid, "gid": gid, "name": name, "where": where, "argv": argv, "env": env,
            "processes": MAX_PROCESSES,
        }  # fmt: skip
        log = _open_log(files.folder, uid, gid)
        try:
            pid = self._spawn(files, folders, told, log, cpus)
        finally:
            os.close(log)
        return {"pid": pid}, [os.pidfd_open(pid)]

    def _signal(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        number, folder = message["signal"], self._group(message["group"])
        if number not in SIGNALS:
            raise NotAllowed(f"signal {number}")
        members, shell = _members(folder), int(message["shell"])
        begun = process_control.has_begun(members, shell) if shell else True
        if not begun:
            process_control.signal_child(shell, number)
        for pid in members:
            with suppress(ProcessLookupError):
                process = os.pidfd_open(pid)
                try:  # a process that has reused the pid must be in the group too
                    if pid in _members(folder):
                        signal.pidfd_send_signal(process, number)
                finally:
                    os.close(process)
        return {"begun": begun}, []

    def _kill(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        uid, files = self._user(message)[0], self._files(message)
        left = self._checked(process_control.left_of(files), files, uid)
        process_control.kill(left)
        return {"left": any(map(procfs.stat, left))}, []

    # -- checks ----------------------------------------------------------------------------------

    def _user(self, message: dict[str, Any]) -> tuple[int, int, str]:
        uid, gid = message["uid"], message["gid"]
        if type(uid) is not int or type(gid) is not int or not 0 <= uid < 2**32 - 1:
            raise NotAllowed("not a user")
        try:
            account = pwd.getpwuid(uid)
        except KeyError:
            name, groups = "", [uid]
        else:
            name = account.pw_name
            groups = os.getgrouplist(name, account.pw_gid)
        if uid == self.uid or (uid < self.least and uid not in self.allowed):
            raise NotAllowed(
                f"no job runs as {name or uid}: its uid is below {self.least}"
                if uid != self.uid
                else "no job runs as the user of the scheduler"
            )
        if gid not in groups and (name or gid < self.least):
            raise NotAllowed(f"{name or uid} is not in the group {gid}")
        if self.gid in {gid, *groups}:
            raise NotAllowed(f"{name or uid} is in the group of the scheduler")
        return uid, gid, name

    def _files(self, message: dict[str, Any]) -> Files:
        parts = {key: message[key] for key in NAMES}
        for key, pattern in NAMES.items():
            if not isinstance(parts[key], str) or not pattern.fullmatch(parts[key]):
                raise NotAllowed(f"not the name of a {key}")
        attempt = message["attempt"]
        if type(attempt) is not int or not 0 < attempt < MAX_ATTEMPT:
            raise NotAllowed("not an attempt")
        folder = self.runs / parts["run"] / "jobs" / parts["job"] / parts["replica"]
        records = self.records / parts["run"] / parts["job"] / parts["replica"]
        return Files(folder, records, attempt)

    def _group(self, folder: Any) -> str:
        if not isinstance(folder, str) or not self.groups.holds(folder):
            raise NotAllowed("not a group of the launcher")
        return folder

    def _checked(self, pids: set[int], files: Files, uid: int) -> list[int]:
        """Return the processes of this user, and the shells that were started for the replica."""
        ours = {
            claim.pid
            for attempt in range(max(1, files.attempt - process_control.LAST), files.attempt + 1)
            if (claim := launcher.claim_of(files.records, attempt)) and claim.alive
        }
        found = []
        for pid in sorted(pids):
            with suppress(OSError):
                if pid in ours or Path(f"/proc/{pid}").stat().st_uid == uid:
                    found.append(pid)
        return found

    # -- files -----------------------------------------------------------------------------------

    def _give(self, folder: Path, uid: int) -> None:
        """Give the folder of a replica to its user. The scheduler has access by its group. Each
        folder of the path must belong to the scheduler and be no link, so that nothing else is
        given away.
        """
        opened = [os.open(self.runs, FOLDER)]
        try:
            for name in folder.relative_to(self.runs).parts:
                if os.fstat(opened[-1]).st_uid != self.uid:
                    raise NotAllowed("a folder of the run does not belong to the scheduler")
                opened.append(os.open(name, FOLDER, dir_fd=opened[-1]))
            opened.append(os.open("checkpoint", FOLDER, dir_fd=opened[-1]))
            for each in opened[-2:]:
                self._own(each, uid)
        finally:
            for each in opened:
                os.close(each)

    def _own(self, folder: int, uid: int) -> None:
        if os.fstat(folder).st_uid not in (self.uid, uid):
            raise NotAllowed("the folder of the replica belongs to another user")
        os.fchown(folder, uid, self.gid)
        os.fchmod(folder, 0o2770)

    def _allocate(self, files: Files) -> None:
        """Create the record files. The scheduler can read them: the folder of all records has the
        set-group-ID bit, so that they have the group of the scheduler.
        """
        for folder in (files.records.parent.parent, files.records.parent, files.records):
            folder.mkdir(mode=0o750, exist_ok=True)
        launcher.allocate(files.records, files.attempt)

    def _spawn(
        self,
        files: Files,
        folders: Sequence[str],
        told: Mapping[str, Any],
        log: int,
        cpus: Sequence[int] | None,
    ) -> int:
        order = os.memfd_create("headway-start")
        try:
            os.write(order, json.dumps(told).encode())
            os.lseek(order, 0, os.SEEK_SET)
            entrances = [f"{folder}/cgroup.procs" for folder in folders]
            words = [str(files.records), str(files.attempt), "/", *entrances, "--"]
            words += [sys.executable, "-ISc", DROP, str(order)]
            with launcher.on_cpus(cpus):
                child = subprocess.Popen(
                    ["/bin/sh", "-c", SHIM, "headway", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=CLEAN,
                    cwd="/",
                    start_new_session=True,
                    pass_fds=[order],
                )
        finally:
            os.close(order)
        child.returncode = 0  # the loop reaps it
        return child.pid


def _check_words(words: Sequence[Any]) -> None:
    if not all(isinstance(word, str) and "\0" not in word for word in words):
        raise NotAllowed("not a text without NUL")


def _members(folder: str) -> list[int]:
    with suppress(OSError):
        return [int(pid) for pid in cgroupfs.read(f"{folder}/cgroup.procs").split()]
    return []


@contextmanager
def _as(uid: int, gid: int) -> Iterator[None]:
    """Context in which files are accessed as this user."""
    groups, own = os.getgroups(), os.getegid()
    os.setgroups([])
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(own)
        os.setgroups(groups)


def _open_log(folder: Path, uid: int, gid: int) -> int:
    """Open the log as its user."""
    with _as(uid, gid):
        log = launcher.open_log(folder)
        with suppress(PermissionError):
            os.fchmod(log, 0o660)
    return log


def serve(channel: Channel, launcher_: Launcher, scheduler: int) -> int:
    """Answer requests until the scheduler has ended. Return its exit code. Empty groups are removed
    only if the shells of all jobs have ended, because a shell may be about to enter its group.
    """
    with suppress(Ended, OSError, ValueError):
        while True:
            message, given = channel.receive()
            for each in given:
                os.close(each)
            answer, descriptors = launcher_.handle(message)
            try:
                channel.send(answer, descriptors)
            finally:
                for each in descriptors:
                    os.close(each)
            _reap(scheduler)
    channel.close()
    code = os.waitstatus_to_exitcode(os.waitpid(scheduler, 0)[1])
    _reap(0)
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        if code == 0:
            launcher_.groups.remove()
    return code


def _reap(scheduler: int) -> None:
    """Reap shells that have ended, but not the scheduler."""
    with suppress(ChildProcessError):
        while True:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None or found.si_pid == scheduler:
                return
            os.waitpid(found.si_pid, 0)
