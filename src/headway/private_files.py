"""Files and folders that only their user can read.

A workload contains secrets of its environment, a command line too; and a lock that others can open
is one that others can hold. Modes do not depend on the umask.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

OTHERS = stat.S_IRWXG | stat.S_IRWXO
READ_OR_WRITE = OTHERS & ~(stat.S_IXGRP | stat.S_IXOTH)


def opener(path: str, flags: int) -> int:
    """For `open`: create with mode 0600, and remove the permissions of others from a file that
    exists.
    """
    file = os.open(path, flags | os.O_CLOEXEC, 0o600)
    found = os.fstat(file)
    if found.st_mode & OTHERS and found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode):
        os.fchmod(file, 0o600)
    return file


def make_folder(path: Path) -> None:
    """Create a folder with mode 0700, or make one that exists private."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    tighten(path)


def tighten(path: Path) -> None:
    """Remove the permissions of others, if the folder is ours. A folder that others can only pass
    through (0711, on the way to the folder of a job that runs as another user) stays as it is.
    """
    found = path.stat()
    if found.st_mode & READ_OR_WRITE and found.st_uid == os.geteuid():
        path.chmod(0o700)


def let_pass(folder: Path, top: Path) -> None:
    """Let other users pass through the folders from `top` to the parent of `folder`."""
    for path in folder.parents:
        mode = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode | stat.S_IXGRP | stat.S_IXOTH)
        if path == top:
            return
