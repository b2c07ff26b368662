"""What a replica says: its log and its `reports.jsonl`, read as they grow.

Both are bounded. A log past 64 MiB is cut to its last piece (it is opened for appending, so the
script writes on at the new end); and of what a flood brings between two looks only the end is
understood.
"""

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from headway.metrics.log_parser import LogParser, ParsedMetric

BOUND = 64 * 2**20
KEPT = 2**20
"""Bytes of a log that are left when it is cut."""
LONGEST = 200
"""Letters of what a job says of itself in words."""
GULP = 256 * 2**10
"""Bytes that are understood at one look."""


class Tail:
    """The new bytes of a file that grows."""

    def __init__(self, path: Path, *, back: int = 0, ours: bool = True) -> None:
        """Begins at its end, or `back` bytes before that. `ours`: it may be cut."""
        self._path, self._file, self._ours = path, -1, ours
        self._at = max(0, self._size() - back)
        self.flooded = False
        """Did the last look bring more than can be understood?"""

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def read(self) -> bytes:
        if self._file < 0:
            try:
                how = os.O_RDWR | os.O_APPEND if self._ours else os.O_RDONLY
                self._file = os.open(self._path, how | os.O_CLOEXEC)
            except OSError:
                return b""
        size = os.fstat(self._file).st_size
        if size < self._at:
            self._at = 0  # somebody cut it
        if size == self._at:
            self.flooded = False
            return b""
        self.flooded = size - self._at > GULP
        self._at = max(self._at, size - GULP)
        data = os.pread(self._file, size - self._at, self._at)
        self._at += len(data)
        if self._ours and size > BOUND:
            self._cut(size)
        return data

    def _cut(self, size: int) -> None:
        kept = os.pread(self._file, KEPT, size - KEPT)
        os.ftruncate(self._file, 0)
        note = f"[headway: {size - len(kept)} bytes were cut from here]\n".encode()
        os.write(self._file, note + kept)
        self._at = len(note) + len(kept)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@dataclass(slots=True)
class Heard:
    """What was said since the last report."""

    count: int = 0
    mean: float = 0.0
    high: float | None = None
    trouble: str = ""

    def take(self, value: float) -> None:
        if not isfinite(value):
            self.trouble = f"it reported {value}"
            return
        self.count += 1
        self.mean += (value - self.mean) / self.count
        self.high = value if self.high is None else max(self.high, value)


@dataclass(slots=True)
class MetricsReader:
    """One replica, listened to."""

    folder: Path
    metric: str = "loss"
    pattern: str | None = None
    log: Path | None = None
    """Where it writes, if not into its own `out.log`."""
    back: int = 0
    """Bytes of what it said before that are heard again."""
    heard: Heard = field(default_factory=Heard)
    step: float | None = None
    value: float | None = None
    """The last that was said."""
    total: float | None = None
    spoke: bool = False
    """Has it said anything yet?"""
    _sdk: bool = False
    _rest: bytes = b""
    _out: Tail = field(init=False)
    _reports: Tail = field(init=False)
    _lines: LogParser = field(init=False)

    def __post_init__(self) -> None:
        ours = self.log is None
        self._out = Tail(self.log or self.folder / "out.log", back=self.back, ours=ours)
        self._reports = Tail(self.folder / "reports.jsonl", back=self.back)
        self._lines = LogParser(self.metric, self.pattern)

    def listen(self) -> None:
        """Take in what is new. Who speaks by the SDK is not also read from its log."""
        *lines, self._rest = (self._rest + self._reports.read()).split(b"\n")
        for line in lines:
            self._told(line)
        printed = self._out.read()
        if printed and not self._sdk:
            for said in self._lines.feed(printed):
                self._take(said)

    @property
    def flooded(self) -> bool:
        return self._out.flooded

    def report(self) -> Heard:
        """What was said since the last one."""
        heard, self.heard = self.heard, Heard()
        return heard

    def close(self) -> None:
        self._out.close()
        self._reports.close()

    def _told(self, line: bytes) -> None:
        try:
            said = json.loads(line)
            step, total = said.pop("step", None), said.pop("total_steps", None)
            trouble = _sayable(said.pop("trouble", ""))
            value = said.get(self.metric)
            if value is None and len(said) == 1:
                (value,) = said.values()  # whatever it calls its only metric
            found = ParsedMetric(
                step=None if step is None else float(step),
                value=None if value is None else float(value),
                total=None if total is None else float(total),
            )
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            self.heard.trouble = "a line of reports.jsonl is no report"
            return
        self._sdk = True
        if trouble:
            self.heard.trouble = trouble
        self._take(found)

    def _take(self, said: ParsedMetric) -> None:
        self.spoke = True
        if said.total is not None and isfinite(said.total) and said.total > 0:
            self.total = said.total
        if said.step is not None and isfinite(said.step):
            self.step = said.step
        if said.value is not None:
            self.heard.take(said.value)
            if isfinite(said.value):
                self.value = said.value


def _sayable(text: object) -> str:
    """What can be written down, and is not too long for a sentence: anybody may have said it."""
    return str(text)[:LONGEST].encode(errors="replace").decode()


def last_line(folder: Path) -> str:
    """What it said last; mostly that is why it failed."""
    with suppress(OSError), (folder / "out.log").open("rb") as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - 4096))
        lines = log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[-LONGEST:] if lines else ""
    return ""
