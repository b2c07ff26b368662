"""Where the data of a trial lies: a folder, a disk that can be full, or one that loses power."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SMALL = "3m"
DISK = 64 * 2**20


class Place:
    """A folder of the trial; `data` is Headway's, `ledger` is out of its reach."""

    def __init__(self) -> None:
        shared = Path("/dev/shm")  # noqa: S108 - memory: the trial is about Headway, not the disk
        self.home = Path(
            tempfile.mkdtemp(prefix="hw-chaos-", dir=shared if shared.is_dir() else None)
        )
        self.home.chmod(0o755)
        self.data, self.ledger = self.home / "data", self.home / "ledger"
        self.data.mkdir()
        self.ledger.mkdir()
        self.mounted = False

    def mount(self, *words: str) -> None:
        run("mount", *words, str(self.data))
        self.mounted = True

    def close(self, keep: Path | None = None) -> None:
        if keep is not None:
            shutil.rmtree(keep, ignore_errors=True)
            with suppress(OSError, shutil.Error):
                shutil.copytree(
                    self.home, keep, symlinks=True, ignore=shutil.ignore_patterns("*.img")
                )
        if self.mounted:
            with suppress(subprocess.CalledProcessError):
                run("umount", "--lazy", str(self.data))
        shutil.rmtree(self.home, ignore_errors=True)


class SmallDisk(Place):
    """A file system of a few megabytes that can be filled, or made read-only."""

    def __init__(self) -> None:
        super().__init__()
        self.mount("-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs")

    def fill(self, left: int) -> None:
        """Leave so many bytes."""
        stat = os.statvfs(self.data)
        size = stat.f_bavail * stat.f_bsize - left
        with suppress(OSError), (self.data / "filler").open("wb") as file:
            file.write(b"\0" * max(0, size))

    def relieve(self) -> None:
        (self.data / "filler").unlink(missing_ok=True)

    def read_only(self, *, on: bool) -> None:
        run("mount", "-o", f"remount,{'ro' if on else 'rw'}", str(self.data))


class LosesPower(Place):
    """An ext4 file system that writes to its disk only what is synced."""

    def __init__(self) -> None:
        super().__init__()
        self.image = self.home / "disk.img"
        with self.image.open("wb") as file:
            file.truncate(DISK)
        run("mkfs.ext4", "-q", "-F", str(self.image))
        self.mount("-o", "loop,commit=600", str(self.image))

    def cut(self) -> None:
        """Copy what has reached the disk. Its processes are stopped."""
        run("cp", "--sparse=always", str(self.image), str(self.home / "cut.img"))

    def fail(self) -> None:
        """From now on it is read-only, as after an error of its disk; files stay open."""
        run("mount", "-o", "remount,errors=remount-ro", str(self.data))
        found = run("findmnt", "-no", "SOURCE", str(self.data))
        Path("/sys/fs/ext4", Path(found.strip()).name, "trigger_fs_error").write_text("1")

    def restore(self) -> None:
        """Mount the copy instead. Its processes are dead."""
        run("umount", "--lazy", str(self.data))
        self.mount("-o", "loop,commit=600", str(self.home / "cut.img"))


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def able(make: type[Place]) -> bool:
    """Whether such a place can be made here."""
    try:
        with opened(make):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextmanager
def opened(make: type[Place]) -> Iterator[Place]:
    place = make()
    try:
        yield place
    finally:
        place.close()
