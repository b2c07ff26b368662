"""What training scripts import. Standard library only; never blocks, never raises into them.

    run = headway.attach(total_steps=3000)
    …
    run.report(step, loss=loss)
    if run.should_checkpoint():
        run.save(step, lambda folder: torch.save(state, folder / "state.pt"))

Outside Headway every call does nothing. Inside, a report is a line appended to `reports.jsonl`
in the replica's folder, at most ten a second: what is said in between goes into their means.
"""

import atexit
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, time_ns
from typing import NamedTuple, SupportsFloat

PAUSE = 0.1
"""Seconds between two lines."""
KEPT = 2
"""Complete checkpoints that are kept."""


class Checkpoint(NamedTuple):
    folder: Path
    step: int


class Run:
    """One process of a job, as Headway knows it."""

    def __init__(self, folder: Path | None, total_steps: float | None = None) -> None:
        self._folder = folder
        self._file = -1
        self._step: float = 0
        self._means: dict[str, tuple[float, int]] = {}
        self._due = 0.0
        self._ask = ""
        if folder is None:
            return
        self._ask = str(folder / "ask")
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(folder / "reports.jsonl", flags, 0o644)
            if total_steps:
                self._write({"total_steps": total_steps})
        atexit.register(self._flush)

    @property
    def managed(self) -> bool:
        """Does Headway look after this process?"""
        return self._folder is not None

    def report(self, step: float, **metrics: SupportsFloat) -> None:
        """Tell how far the training has come, and how well it does: `report(12, loss=0.43)`."""
        if self._file < 0:
            return
        with suppress(Exception):  # a training must not end because we were told nonsense
            told, means = {name: float(value) for name, value in metrics.items()}, self._means
            self._step = step + 0
            for name, value in told.items():
                mean, count = means.get(name, (0.0, 0))
                means[name] = (mean + (value - mean) / (count + 1), count + 1)
            if monotonic() >= self._due:
                self._flush()

    def should_checkpoint(self) -> bool:
        """Has Headway asked for a checkpoint? Then `save` one soon."""
        return bool(self._ask) and os.path.exists(self._ask)  # noqa: PTH110 - twice as fast

    @property
    def checkpoint_dir(self) -> Path | None:
        found = os.environ.get("HEADWAY_CHECKPOINT_DIR") if self.managed else None
        return Path(found) if found else None

    @property
    def latest(self) -> Checkpoint | None:
        """The newest complete checkpoint, to go on from."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            folder = self.checkpoint_dir
            if folder is not None:
                found = json.loads((folder / "LATEST").read_text())
                there = Checkpoint(folder / found["name"], int(found["step"]))
                return there if there.folder.is_dir() else None
        return None

    def save(self, step: int, write: Callable[[Path], object]) -> bool:
        """Let `write` put its files into a fresh folder, and make that the newest checkpoint.

        Complete means that it survives a crash at any instant: `LATEST` names it only when all
        of it is on disk. Returns False, and leaves the last one as it was, if anything failed.
        """
        folder = self.checkpoint_dir
        if folder is None or self._outdated():
            return False
        name = _name(folder, step)
        fresh = folder / f"{name}.part"
        try:
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            write(fresh)
            self._complete(folder, fresh, name, step)
        except Exception as error:  # noqa: BLE001 - a full disk must not end a training
            shutil.rmtree(fresh, ignore_errors=True)
            self._write({"trouble": f"could not save a checkpoint: {error!r}"[:200]})
            return False
        return True

    def _complete(self, folder: Path, fresh: Path, name: str, step: int) -> None:
        for path in (*fresh.rglob("*"), fresh):
            _sync(path)
        fresh.rename(folder / name)
        _sync(folder)
        if self._outdated():
            raise RuntimeError("another process has taken over this job")
        note = folder / "LATEST.part"
        note.write_text(json.dumps({"name": name, "step": step}))
        _sync(note)
        note.rename(folder / "LATEST")
        _sync(folder)
        with suppress(OSError):
            os.unlink(self._ask)  # noqa: PTH108
        done = [p for p in folder.iterdir() if p.name.startswith("step-") and p.suffix != ".part"]
        others = sorted((p for p in done if p.name != name), key=lambda p: p.stat().st_mtime)
        for old in others[: 1 - KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def _outdated(self) -> bool:
        """Was this job started again elsewhere? Each start counts one epoch up."""
        if self._folder is None:
            return True
        with suppress(OSError, ValueError):
            newest = int((self._folder / "epoch").read_text())
            return int(os.environ.get("HEADWAY_EPOCH", "0")) < newest
        return False

    def _flush(self) -> None:
        means, self._means = self._means, {}
        if means:
            self._due = monotonic() + PAUSE
            self._write({"step": self._step, **{name: mean for name, (mean, _) in means.items()}})

    def _write(self, line: dict[str, object]) -> None:
        with suppress(OSError, ValueError, TypeError):
            os.write(self._file, (json.dumps(line) + "\n").encode())


def attach(total_steps: float | None = None) -> Run:
    """The run that this process is part of. `total_steps`: how many it will make, if known."""
    folder = os.environ.get("HEADWAY_DIR")
    return Run(Path(folder) if folder else None, total_steps)


def _name(folder: Path, step: int) -> str:
    """Of a checkpoint: its own, also if this step was saved before. That one stays until `LATEST`
    names the new one, and whoever waits for a newer one sees that it is.
    """
    name = f"step-{step}-{os.environ.get('HEADWAY_EPOCH', '0')}"
    return f"{name}-{time_ns()}" if (folder / name).exists() else name


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
