"""Access files in the folder of a replica, in which its job can write anything.

Links are not followed, pipes do not block, and only regular files are opened, because Headway may
run as root. Headway does not trust the content of these files: its own records are elsewhere.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL
from pathlib import Path
from stat import S_ISREG

_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MOST_FILES = 10_000
"""Maximum number of files of a folder that are examined."""


@contextmanager
def directory(folder: Path | str, inner: str = "") -> Iterator[int]:
    """Open a folder of Headway, or a folder below it that is reached without links."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in filter(None, inner.split("/")):
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _SAFE, dir_fd=at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def open_file(folder: Path | str, name: str, flags: int) -> int:
    """Open a regular file. Raise OSError for anything else. `name`: path relative to the folder."""
    inner, _, last = name.rpartition("/")
    with directory(folder, inner) as at:
        file = os.open(last, flags | _SAFE, 0o666, dir_fd=at)
    if not S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(EINVAL, "not a regular file", f"{folder}/{name}")
    return file


def read_file(folder: Path | str, name: str, most: int) -> bytes:
    """Return the first `most` bytes of a file."""
    file = open_file(folder, name, os.O_RDONLY)
    try:
        return os.read(file, most)
    finally:
        os.close(file)


def size(folder: Path | str, name: str) -> int:
    """Return the size of a file; 0 if it is not a regular file."""
    try:
        found = os.lstat(f"{folder}/{name}")
    except OSError:
        return 0
    return found.st_size if S_ISREG(found.st_mode) else 0


def replace_file(folder: Path | str, name: str, text: str, mode: int | None = None) -> None:
    """Replace whatever has this name by a file. `mode`: does not depend on the umask."""
    with directory(folder) as at:
        part = f"{name}.part"
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=at)
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, 0o666, dir_fd=at)
        try:
            if mode is not None:
                os.fchmod(file, mode)
            os.write(file, text.encode())
        finally:
            os.close(file)
        os.replace(part, name, src_dir_fd=at, dst_dir_fd=at)


def remove_file(folder: Path | str, name: str) -> None:
    """Remove a file if it exists. A folder of this name is kept."""
    with suppress(OSError), directory(folder) as at:
        os.unlink(name, dir_fd=at)


def make_folder(folder: Path | str, name: str) -> None:
    """Create a folder in a folder. Raise OSError if something else has its name."""
    with directory(folder) as at:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=at)
        with directory(folder, name):
            pass


def files(folder: Path | str, inner: str) -> Iterator[os.stat_result]:
    """Yield the status of the first regular files below a folder."""
    seen = 0
    with suppress(OSError), directory(folder, inner) as at:
        for _, _, names, here in os.fwalk(dir_fd=at, follow_symlinks=False):
            for name in names:
                seen += 1
                if seen > MOST_FILES:
                    return
                with suppress(OSError):
                    found = os.stat(name, dir_fd=here, follow_symlinks=False)
                    if S_ISREG(found.st_mode):
                        yield found


def chown_all(folder: Path | str, inner: str, owner: int, group: int) -> None:
    """Change the owner of a folder and of everything below it. Links are not followed."""
    with directory(folder, inner) as at:
        os.fchown(at, owner, group)
        for _, folders, names, here in os.fwalk(dir_fd=at, follow_symlinks=False):
            for name in (*folders, *names):
                with suppress(FileNotFoundError):
                    os.chown(name, owner, group, dir_fd=here, follow_symlinks=False)
