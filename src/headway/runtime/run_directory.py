"""Where a run keeps what it writes: `runs/ID/` in the data folder, which only its user can read.

run.json        how it was started            workload.yaml   what was to run
journal.jsonl   every cycle                   usage.jsonl     what was used and said, sampled
journal.1.jsonl the cycles before those, of a long run
result.json     the figures, at the end       report.html     the pictures
jobs/NAME/REPLICA/                            what each replica wrote
"""

import fcntl
import json
import os
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from time import monotonic, sleep
from typing import Any

from headway import private_files
from headway.backend import durable
from headway.errors import ConfigError, UnknownName
from headway.runtime.file_format import FORMAT, refuse_format

PROBED = 0.5
"""Seconds in which a lock that others only probe becomes free."""


def data_folder(given: Path | None = None) -> Path:
    """`--data`, else HEADWAY_DATA, else where programs of this user keep their data."""
    if given is not None:
        return given.resolve()
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(os.environ.get("HEADWAY_DATA") or Path(home) / "headway").resolve()


OURS = frozenset(
    {"runs", "server.lock", "earlier-runs.json", "earlier-runs.lock", "demo.yaml", "demo.html"}
    | {"audit.jsonl", "audit.1.jsonl", "tokens.json", "tokens.json.lock", "tokens.json.part"}
)
"""What Headway keeps in the data folder."""


def private_data(data: Path) -> None:
    """Make the data folder private, unless it has other contents: it may be a folder that is
    shared, such as /tmp.
    """
    if not data.exists() or {path.name for path in data.iterdir()} <= OURS:
        private_files.make_folder(data)


def private_runs(data: Path) -> Path:
    """Return `runs/` of the data folder, which only its user can enter."""
    private_data(data)
    private_files.make_folder(data / "runs")
    return data / "runs"


class RunDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.journal = self.path / "journal.jsonl"
        self.usage = self.path / "usage.jsonl"
        self._lock = -1

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def data(self) -> Path:
        """The data folder, which contains `runs/`."""
        return self.path.parent.parent

    @classmethod
    def new(cls, data: Path, about: dict[str, Any]) -> "RunDirectory":
        """A fresh one, named by the time and by chance: its control groups bear its name too, and
        others on this machine may begin in the same second. `runs/latest` leads to it.
        """
        runs = private_runs(data)
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        path = runs / f"{stamp}-{token_hex(3)}"
        durable.make(path)
        run = cls(path)
        try:
            run.write("run.json", json.dumps({"format": FORMAT, **about}, indent=2))
            _link(path)
        except BaseException:
            run.discard()
            raise
        return run

    def discard(self) -> None:
        """What it was made for could not begin: as if it had never been."""
        runs = self.path.parent
        self.unlock()
        rmtree(self.path)
        if (runs / "latest").resolve() == self.path:
            (runs / "latest").unlink()
            for before in _all(runs)[-1:]:
                _link(runs / before)

    @classmethod
    def all(cls, data: Path) -> list["RunDirectory"]:
        """All runs, the first to begin first. One that is being created is not among them."""
        found = [cls(data / "runs" / name) for name in _all(data / "runs")]
        return [run for run in found if (run.path / "run.json").exists()]

    @classmethod
    def find(cls, data: Path, name: str) -> "RunDirectory":
        """By its name, its path, or `latest`."""
        for path in (data / "runs" / name, Path(name)):
            if (path / "run.json").exists():
                return cls(path)
        there = _all(data / "runs")
        if name == "latest" and not there:
            raise ConfigError(
                "nothing has run yet", where=str(data / "runs"), hint="headway run WORKLOAD"
            )
        raise UnknownName("run", name, there[-10:], where=str(data / "runs"))

    @property
    def about(self) -> dict[str, Any]:
        path = self.path / "run.json"
        try:
            found: dict[str, Any] = dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, RecursionError):
            raise ConfigError("this file is damaged", where=str(path)) from None
        return found

    def check_format(self) -> None:
        """Refuse a run of another format; nothing of it is changed."""
        refuse_format("run directory", self.path, self.about.get("format", 1))

    def write(self, name: str, text: str) -> None:
        """Whole or not at all, and for good."""
        durable.write(self.path / name, text)

    def lock(self) -> None:
        """One Headway to a run. The lock goes with its process, however that ends."""
        for folder in (self.path.parent, self.path):
            private_files.tighten(folder)
        self._lock = private_files.opener(str(self.path / "lock"), os.O_RDWR | os.O_CREAT)
        if not _lock(self._lock):
            raise ConfigError(
                f"run {self.id} is looked after by another Headway",
                where=str(self.path),
                hint="wait until it has ended, or stop it first",
            )

    def unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def ended(self) -> bool:
        return (self.path / "result.json").exists()

    @property
    def locked(self) -> bool:
        """Is a Headway at work on it?"""
        try:
            file = os.open(self.path / "lock", os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(file)


def _lock(file: int) -> bool:
    """Take a lock. Others hold it for an instant, to see whether it is taken."""
    until = monotonic() + PROBED
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > until:
                return False
            sleep(0.01)
        else:
            return True


def _all(runs: Path) -> list[str]:
    """The first to begin comes first."""
    return sorted(p.name for p in runs.glob("*") if not p.is_symlink())


def _link(run: Path) -> None:
    """From now on it is the latest."""
    link = run.parent / f".latest-{os.getpid()}"
    link.unlink(missing_ok=True)  # of one that died here; in a container all have one number
    link.symlink_to(run.name)
    link.replace(run.parent / "latest")
