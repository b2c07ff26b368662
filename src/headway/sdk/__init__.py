"""The SDK for training scripts. It needs only the standard library, never blocks, never raises.

    run = headway.attach(total_steps=3000)
    …
    run.report(step, loss=loss)
    if run.should_checkpoint():
        run.save(step, lambda folder: torch.save(state, folder / "state.pt"))

Outside Headway every call does nothing. Inside, a report is a line appended to `reports.jsonl` in
the replica's directory, at most ten per second; a line holds the means of the reports since the
last one. In a pod, the same lines are sent to the operator.
"""

import atexit
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, time_ns
from typing import TYPE_CHECKING, NamedTuple, SupportsFloat

if TYPE_CHECKING:
    from headway.sdk.http_sender import HttpSender

PAUSE = 0.1
"""Seconds between two lines of `reports.jsonl`."""
KEPT = 2
"""Number of complete checkpoints that are kept."""


class Checkpoint(NamedTuple):
    folder: Path
    step: int


class Run:
    """One process of a job."""

    def __init__(self, folder: Path | None, total_steps: float | None = None) -> None:
        self._folder = folder
        self._file = -1
        self._sender: HttpSender | None = None
        self._step: float = 0
        self._means: dict[str, tuple[float, int]] = {}
        self._due = 0.0
        self._ask = ""
        if folder is None:
            return
        self._ask = str(folder / "ask")
        self._sender = _sender()
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            if self._sender is None:
                self._file = os.open(folder / "reports.jsonl", flags, 0o644)
            if total_steps:
                self._write({"total_steps": total_steps})
            self._note_attempt()
        atexit.register(self._finish)

    @property
    def managed(self) -> bool:
        """Whether this process runs under Headway."""
        return self._folder is not None

    def report(self, step: float, **metrics: SupportsFloat) -> None:
        """Report the progress of the training: `report(12, loss=0.43)`."""
        if self._file < 0 and self._sender is None:
            return
        with suppress(Exception):  # an invalid report must not end the training
            values, means = {name: float(value) for name, value in metrics.items()}, self._means
            self._step = step + 0
            for name, value in values.items():
                mean, count = means.get(name, (0.0, 0))
                means[name] = (mean + (value - mean) / (count + 1), count + 1)
            if monotonic() >= self._due:
                self.flush()

    def should_checkpoint(self) -> bool:
        """Whether Headway requests a checkpoint; if so, `save` one soon."""
        if self._sender is not None:
            self._sender.start()
            if self._sender.checkpoint:
                return True
        return bool(self._ask) and os.path.exists(self._ask)  # noqa: PTH110 - twice as fast

    @property
    def checkpoint_dir(self) -> Path | None:
        found = os.environ.get("HEADWAY_CHECKPOINT_DIR") if self.managed else None
        return Path(found) if found else None

    @property
    def latest(self) -> Checkpoint | None:
        """The newest complete checkpoint, or None."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            folder = self.checkpoint_dir
            if folder is not None:
                note = json.loads((folder / "LATEST").read_text())
                newest = Checkpoint(folder / note["name"], int(note["step"]))
                return newest if newest.folder.is_dir() else None
        return None

    def save(self, step: int, write: Callable[[Path], object]) -> bool:
        """Call `write` with a new directory, and make that the newest checkpoint.

        A crash at any time leaves a complete checkpoint: `LATEST` names the new one only when all
        of it is on disk. Returns False, and keeps the previous one, if anything failed.
        """
        folder = self.checkpoint_dir
        if folder is None or self._superseded():
            return False
        name = _checkpoint_name(folder, step)
        fresh = folder / f"{name}.part"
        try:
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            write(fresh)
            self._complete(folder, fresh, name, step)
        except Exception as error:  # noqa: BLE001 - a full disk must not end a training
            shutil.rmtree(fresh, ignore_errors=True)
            self._write({"trouble": f"cannot save a checkpoint: {error!r}"[:200]})
            return False
        return True

    def _complete(self, folder: Path, fresh: Path, name: str, step: int) -> None:
        for path in (*fresh.rglob("*"), fresh):
            _sync(path)
        fresh.rename(folder / name)
        _sync(folder)
        if self._superseded():
            raise RuntimeError("a newer attempt of this replica has started")
        note = folder / "LATEST.part"
        note.write_text(json.dumps({"name": name, "step": step}))
        _sync(note)
        note.rename(folder / "LATEST")
        _sync(folder)
        if self._sender is not None:
            self._sender.checkpoint = False
            self._sender.put({"checkpoint": name})
            self._sender.send_soon()
        with suppress(OSError):
            os.unlink(self._ask)  # noqa: PTH108
        done = [p for p in folder.iterdir() if p.name.startswith("step-") and p.suffix != ".part"]
        others = sorted((p for p in done if p.name != name), key=lambda p: p.stat().st_mtime)
        for old in others[: 1 - KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def _superseded(self) -> bool:
        """Whether a newer attempt of this replica has started, possibly on another node."""
        if self._folder is None:
            return True
        with suppress(OSError, ValueError):
            return int(_attempt()) < self._newest_attempt()
        return False

    def _newest_attempt(self) -> int:
        """Return the newest attempt of this replica. Headway stores it on one machine, each attempt
        itself on a cluster.
        """
        if self._note is None:
            return int((self._folder / "attempt").read_text()) if self._folder else 0
        job, number = self._note.read_text().split()
        return int(number) if job == os.environ["HEADWAY_JOB_UID"] else 0

    @property
    def _note(self) -> Path | None:
        """Beside the checkpoints: another pod may mount the same volume. None: not in a pod."""
        folder, pod = self.checkpoint_dir, os.environ.get("HEADWAY_JOB_UID")
        return folder / f"attempt-{os.environ['HEADWAY_REPLICA']}" if folder and pod else None

    def _note_attempt(self) -> None:
        """Store the attempt, so that earlier attempts of this replica save no more checkpoints."""
        if self._note is None or self._superseded():
            return
        self._note.parent.mkdir(exist_ok=True)
        fresh = self._note.with_suffix(f".{_attempt()}.part")
        fresh.write_text(f"{os.environ['HEADWAY_JOB_UID']} {_attempt()}")
        fresh.rename(self._note)

    def flush(self) -> None:
        """Write the reports that wait for the next line; happens by itself at exit."""
        means, self._means = self._means, {}
        if means:
            self._due = monotonic() + PAUSE
            self._write({"step": self._step, **{name: mean for name, (mean, _) in means.items()}})

    def _finish(self) -> None:
        self.flush()
        if self._sender is not None:
            self._sender.close()

    def _write(self, line: dict[str, object]) -> None:
        with suppress(OSError, ValueError, TypeError):
            if self._sender is not None:
                self._sender.put(line)
                return
            os.write(self._file, (json.dumps(line) + "\n").encode())


def attach(total_steps: float | None = None) -> Run:
    """Return the run of this process. `total_steps`: the number of steps, if known."""
    folder = os.environ.get("HEADWAY_DIR")
    return Run(Path(folder) if folder else None, total_steps)


def _sender() -> "HttpSender | None":
    """Return the sender that a pod uses; None: reports are lines of a file."""
    names = ("HEADWAY_REPORTS_URL", "HEADWAY_REPORTS_TOKEN", "HEADWAY_REPORTS_CA")
    url, token, certificate = (os.environ.get(name, "") for name in names)
    if not url:
        return None
    from headway.sdk.http_sender import HttpSender  # noqa: PLC0415 - 30 ms that only pods need

    return HttpSender(url, token, certificate)


def _attempt() -> str:
    """Return the number of this start of the replica."""
    return os.environ.get("HEADWAY_ATTEMPT", "0")


def _checkpoint_name(folder: Path, step: int) -> str:
    """Return a new name, also for a step that was saved before: that checkpoint stays until
    `LATEST` names the new one, and the change of `LATEST` shows that there is a newer one.
    """
    name = f"step-{step}-{_attempt()}"
    return f"{name}-{time_ns()}" if (folder / name).exists() else name


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
