"""`headway serve --system`: one server for all users of a machine, as two processes.

The process that was started stays root and is the launcher (`backend/local/privileged.py`). Its
child gives up root, and is the scheduler: the loop and the API.
"""

import ctypes
import os
import pwd
import signal
import socket
import stat
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from headway.backend.local.channel import Channel
from headway.backend.local.delegation import Delegated, delegate
from headway.backend.local.enforcement.cgroupfs import write
from headway.backend.local.privileged import Launcher, serve
from headway.backend.local.remote_control import RemoteControl
from headway.errors import ConfigError, HeadwayError, of_file
from headway.runtime.api_address import DATA, SOCKET

KEPT = ("PATH", "LANG", "TERM", "TZ", "PYTHONPATH", "LD_LIBRARY_PATH")
"""Variables that the scheduler inherits from root; also those that begin with HEADWAY_."""
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOptions:
    data: Path = DATA
    socket: Path = SOCKET
    user: str = "headway"
    """User of the scheduler: a name, or a number without an account."""
    allowed: tuple[str, ...] = ()
    """System users that jobs may run as."""


def serve_system(options: SystemOptions, scheduler: Callable[[Path, RemoteControl], None]) -> int:
    """Run both processes; return the exit code of the scheduler, which runs `scheduler` with its
    data directory.
    """
    if os.geteuid():
        raise ConfigError(
            "a server for all users is started by root", hint="sudo headway serve --system"
        )
    uid, gid = find_account(options.user)
    if uid == 0:
        raise ConfigError("the scheduler must not be root", where="--user")
    allowed = frozenset(find_account(name)[0] for name in options.allowed)
    data = make_folders(options, uid, gid)
    name = f"headway-system-{sha256(str(options.data).encode()).hexdigest()[:8]}"
    groups = delegate(name, uid, gid)
    records = options.data / "launcher"
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        ours.close()
        _child(groups, uid, gid, lambda: scheduler(data, RemoteControl(Channel(theirs), records)))
    theirs.close()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(child, number))
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends it to the scheduler too
    launcher = Launcher(data / "runs", records, uid, gid, groups, allowed)
    os.umask(0o022)
    return serve(Channel(ours), launcher, child)


def _child(groups: Delegated, uid: int, gid: int, run: Callable[[], None]) -> None:
    """Become the scheduler."""
    code = 1
    try:
        for entrance in groups.entrances:
            write(entrance, "0")
        parent = os.getppid()
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        os.umask(0o022)  # files of jobs are private by their folder
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)  # the launcher has ended before it could be watched
        for name in [n for n in os.environ if n not in KEPT and not n.startswith("HEADWAY_")]:
            del os.environ[name]
        os.chdir("/")
        run()
        code = 0
    except (HeadwayError, ImportError, OSError) as caught:
        error = _shown(caught, uid)
        where = f" ({error.where})" if error.where else ""
        hint = f"\n  remedy: {error.hint}" if error.hint else ""
        os.write(2, f"headway: {error.message}{where}{hint}\n".encode())
        code = error.exit_code
    except BaseException:  # noqa: BLE001 - the outermost guard of this process
        traceback.print_exc()
    finally:
        os._exit(code)


def _shown(caught: HeadwayError | ImportError | OSError, uid: int) -> HeadwayError:
    if isinstance(caught, HeadwayError):
        return caught
    if isinstance(caught, OSError):
        return of_file(caught)
    return ConfigError(
        f"the scheduler cannot import {caught.name}: user {uid} cannot read the files of Python",
        where=sys.base_prefix,
        hint="install Python and Headway where every user can read them, such as /opt",
    )


def find_account(name: str) -> tuple[int, int]:
    """The uid and gid of a user: by name, or a number, which needs no account."""
    try:
        found = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        if name.isdecimal() and int(name) < 2**32 - 1:
            return int(name), int(name)
        raise ConfigError(
            f"there is no user {name!r}, which the scheduler runs as",
            where="--user",
            hint=f"useradd --system --user-group --no-create-home {name}, or --user NAME",
        ) from None
    return found.pw_uid, found.pw_gid


def make_folders(options: SystemOptions, uid: int, gid: int) -> Path:
    """Create the folders of both processes; return the data directory of the scheduler."""
    top, public = options.data, options.socket.parent
    top.mkdir(mode=0o755, parents=True, exist_ok=True)
    found = top.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid or found.st_mode & 0o022:
        raise ConfigError(
            "this folder must belong to root, and others must not be able to write to it",
            where=str(top),
            hint="choose another one: --data",
        )
    top.chmod(0o755)
    for folder, owner, mode in ((top / "launcher", 0, 0o2750), (top / "scheduler", uid, 0o711)):
        folder.mkdir(exist_ok=True)
        os.chown(folder, owner, gid, follow_symlinks=False)
        folder.chmod(mode)
    if not public.exists():
        public.mkdir(mode=0o755, parents=True)
        os.chown(public, uid, gid)
        public.chmod(0o755)
    elif public.stat().st_uid != uid:
        raise ConfigError(
            f"the folder of the socket does not belong to {options.user}",
            where=str(public),
            hint="remove it, or choose one that does not exist: --socket",
        )
    return top / "scheduler"
