"""Run directories: `runs/ID/` in the data folder, which only its user can read.

run.json        options of the run            workload.yaml   the workload
journal.jsonl   every cycle                   usage.jsonl     samples of usage and metrics
journal.1.jsonl earlier cycles of a long run  usage.1.jsonl   earlier samples of a server
result.json     results, written at the end   report.html     the report
jobs/NAME/REPLICA/                            files of each replica
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

COMMAND_LINE = "command line"
"""Used instead of the file name of the workload in a run of one command."""
PROBED = 0.5
"""Seconds for which other processes may hold the lock to probe it."""


def data_folder(given: Path | None = None) -> Path:
    """Return `--data`, else HEADWAY_DATA, else the default for data of this user
    (XDG_DATA_HOME).
    """
    if given is not None:
        return given.resolve()
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(os.environ.get("HEADWAY_DATA") or Path(home) / "headway").resolve()


OURS = frozenset(
    {"runs", "server.lock", "earlier-runs.json", "earlier-runs.lock", "demo.yaml", "demo.html"}
    | {"audit.jsonl", "audit.1.jsonl", "tokens.json", "tokens.json.lock", "tokens.json.part"}
)
"""Names of Headway's files in the data folder."""


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
        """Create a run directory. Its name consists of the time and a random part, because control
        groups have the same name, and runs of other users may start in the same second. The link
        `runs/latest` points to it.
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
        """Remove the directory, and set `runs/latest` to the run before it."""
        runs = self.path.parent
        self.unlock()
        rmtree(self.path)
        if (runs / "latest").resolve() == self.path:
            (runs / "latest").unlink()
            for before in _all(runs)[-1:]:
                _link(runs / before)

    @classmethod
    def all(cls, data: Path) -> list["RunDirectory"]:
        """Return all runs in the order of their start, without runs that are being created."""
        found = [cls(data / "runs" / name) for name in _all(data / "runs")]
        return [run for run in found if (run.path / "run.json").exists()]

    @classmethod
    def find(cls, data: Path, name: str) -> "RunDirectory":
        """Return the run with this name or path, or `latest`."""
        for path in (data / "runs" / name, Path(name)):
            if (path / "run.json").exists():
                return cls(path)
        there = _all(data / "runs")
        if name == "latest" and not there:
            raise ConfigError(
                "nothing has run yet", where=str(data / "runs"), hint="headway run -- COMMAND"
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
        """Raise an error for a run of another format."""
        refuse_format("run directory", self.path, self.about.get("format", 1))

    def write(self, name: str, text: str) -> None:
        """Write a file atomically and durably."""
        durable.write(self.path / name, text)

    def lock(self) -> None:
        """Lock the run: one Headway process manages it. The lock is released when the
        process ends.
        """
        for folder in (self.path.parent, self.path):
            private_files.tighten(folder)
        self._lock = private_files.opener(str(self.path / "lock"), os.O_RDWR | os.O_CREAT)
        if not take_lock(self._lock):
            raise ConfigError(
                f"run {self.id} is managed by another Headway process",
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
        """Whether a Headway process manages the run."""
        return is_locked(self.path / "lock")


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock on a file."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
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


def take_lock(file: int) -> bool:
    """Take a lock. Other processes may hold it for an instant to probe it."""
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
    """Return the names of all runs in the order of their start."""
    return sorted(p.name for p in runs.glob("*") if not p.is_symlink())


def _link(run: Path) -> None:
    """Set the link `latest` to a run."""
    link = run.parent / f".latest-{os.getpid()}"
    link.unlink(missing_ok=True)  # left by a process with the same pid that has died
    link.symlink_to(run.name)
    link.replace(run.parent / "latest")
