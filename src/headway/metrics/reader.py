"""Read the metrics of a replica from its log and its `reports.jsonl` as they grow.

Both are bounded. A log above 64 MiB is truncated to its last part. (It is opened for appending, so
that the script continues at the new end.) Of the bytes between two reads, only the last ones are
parsed.
"""

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from headway.core.model.report import bounded
from headway.metrics import job_files
from headway.metrics.log_parser import LogParser, ParsedMetric

MAX_LOG = 64 * 2**20
"""Bytes of a log above which it is truncated."""
KEPT = 2**20
"""Bytes that a truncated log keeps."""
TRIES = 10
"""Maximum number of reads of the end of a growing log before it is truncated."""
MAX_READ = 256 * 2**10
"""Maximum number of bytes that are parsed per read."""
MAX_LINE = 64 * 2**10
"""Maximum length of a line of `reports.jsonl` in bytes."""
MAX_MESSAGE = 200
"""Maximum length of a message from a job in characters."""
MAX_EXAMPLE = 60
"""Maximum length of a line that is shown as an example."""
INVALID = "invalid line in reports.jsonl"
_BREAK = re.compile(rb"[\r\n]")


class Tail:
    """Reads the new bytes of a growing file."""

    def __init__(self, folder: Path, name: str, *, back: int = 0, truncates: bool = True) -> None:
        """Start at the end of the file, or `back` bytes before it. `truncates`: truncate a long
        file.
        """
        self._folder, self._name, self._file, self._truncates = folder, name, -1, truncates
        self._at = max(0, job_files.size(folder, name) - back)
        self._inside = self._at > 0
        """Whether the next byte may be inside a line of which earlier bytes were not read."""
        self.flooded = False
        """Whether the last read skipped bytes."""

    def read(self) -> bytes:
        """Return the new bytes. If bytes before them were skipped, they begin with a whole line."""
        if self._file < 0:
            try:
                mode = os.O_RDWR | os.O_APPEND if self._truncates else os.O_RDONLY
                self._file = job_files.open_file(self._folder, self._name, mode)
            except PermissionError:  # without write permission, the file is not truncated
                self._truncates, readable = False, self._truncates
                return self.read() if readable else b""
            except OSError:
                return b""
        size = os.fstat(self._file).st_size
        if size < self._at:
            self._at = 0  # truncated by another process
        cut = self._truncates and size > MAX_LOG
        if size == self._at and not cut:
            self.flooded = False
            return b""
        start = max(self._at, size - MAX_READ)
        self.flooded = start > self._at
        self._inside = self._inside or self.flooded
        start -= self._inside  # the byte before, which may end a line
        data = os.pread(self._file, size - start, start)
        self._at = start + len(data)
        if self._inside and (end := _BREAK.search(data)):
            data, self._inside = data[end.end() :], False
        elif self._inside:
            data = b""
        return data + self._truncate() if cut else data

    @property
    def at(self) -> int:
        """Position at which the next read begins."""
        return self._at

    @property
    def too_long(self) -> bool:
        return self._truncates and job_files.size(self._folder, self._name) > MAX_LOG

    def _truncate(self) -> bytes:
        """Truncate the file to its end. Return what the job has written since the last read."""
        for _ in range(TRIES):  # bytes that are written before the cut would be lost
            size = os.fstat(self._file).st_size
            kept = os.pread(self._file, KEPT, size - KEPT)
            if os.fstat(self._file).st_size == size:
                break
        os.ftruncate(self._file, 0)
        unread = kept[max(0, len(kept) - (size - self._at)) :]
        text = f"[headway: {size - len(kept)} bytes were cut here]\n".encode() + kept
        os.write(self._file, text)
        self._at = os.lseek(self._file, 0, os.SEEK_CUR)
        before = self._at - len(text)  # bytes of a write that waited for the cut
        start = max(0, before - MAX_READ)
        return unread[-MAX_READ:] + os.pread(self._file, before - start, start)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@dataclass(slots=True)
class Heard:
    """Metrics since the last report."""

    count: int = 0
    mean: float = 0.0
    high: float | None = None
    trouble: str = ""

    def add(self, value: float) -> None:
        if not isfinite(value):
            self.trouble = f"reported the value {value}"
            return
        value = bounded(value)
        self.count += 1
        self.mean += (value - self.mean) / self.count
        self.high = value if self.high is None else max(self.high, value)

    def merge(self, other: "Heard") -> None:
        self.trouble = other.trouble or self.trouble
        if other.count:
            self.count += other.count
            self.mean += (other.mean - self.mean) * other.count / self.count
            highs = [high for high in (self.high, other.high) if high is not None]
            self.high = max(highs, default=None)


class ReplicaMetrics:
    """Metrics that a replica has reported."""

    def __init__(self, metric: str = "loss") -> None:
        self.metric = metric
        self.heard = Heard()
        self.step: float | None = None
        self.value: float | None = None
        """The last reported value; NaN or infinite if the training has diverged."""
        self.total: float | None = None
        self.spoke = False
        """Whether it has reported anything yet."""
        self.sdk = False
        """Whether the replica uses the SDK. Then its output is not parsed."""

    @property
    def found(self) -> str:
        """Where the metric was found; empty: nowhere yet."""
        return ""

    @property
    def too_long(self) -> bool:
        """Whether a file must be truncated, even if its reports are not needed now."""
        return False

    @property
    def flooded(self) -> bool:
        """Whether the last read skipped bytes."""
        return False

    @property
    def printed(self) -> int | None:
        """Size of its output at the last read; None: unknown."""
        return None

    def listen(self) -> None:
        """Read new reports."""

    def report(self) -> Heard:
        """Return the metrics since the last call."""
        heard, self.heard = self.heard, Heard()
        return heard

    def close(self) -> None:
        """Release files."""

    def read_report(self, fields: Any) -> None:
        """Read a report of the SDK. A job can write anything."""
        try:
            fields = dict(fields)
            step, total = fields.pop("step", None), fields.pop("total_steps", None)
            trouble = _printable(fields.pop("trouble", ""))
            value = fields.get(self.metric)
            if value is None and len(fields) == 1:
                (value,) = fields.values()  # the only metric, whatever its name
            metric = ParsedMetric(*(None if x is None else float(x) for x in (step, value, total)))
        except (ValueError, TypeError, AttributeError, OverflowError):
            self.heard.trouble = INVALID
            return
        self.sdk = True
        if trouble:
            self.heard.trouble = trouble
        self.record(metric)

    def record(self, metric: ParsedMetric) -> None:
        self.spoke = True
        if metric.total is not None and isfinite(metric.total) and bounded(metric.total) > 0:
            self.total = bounded(metric.total)
        if metric.step is not None and isfinite(metric.step):
            self.step = max(0.0, bounded(metric.step))
        if metric.value is not None:
            self.heard.add(metric.value)
            self.value = bounded(metric.value) if isfinite(metric.value) else metric.value


class MetricsReader(ReplicaMetrics):
    """Reads the files of a replica."""

    def __init__(
        self,
        folder: Path,
        metric: str = "loss",
        pattern: str | None = None,
        log: Path | None = None,
        *,
        back: int = 0,
    ) -> None:
        """`log`: the log file, if not `out.log` in the replica's directory. `back`: number of bytes
        written earlier that are read again.
        """
        super().__init__(metric)
        self.pattern, self.log = pattern, log
        self._rest = b""
        if log is None:
            self._out = Tail(folder, "out.log", back=back)
        else:
            self._out = Tail(log.parent, log.name, back=back, truncates=False)
        self._reports = Tail(folder, "reports.jsonl", back=back)
        self._parser = LogParser(metric, pattern)

    def listen(self) -> None:
        """Read new reports and output. The output of a replica that uses the SDK is not parsed."""
        reports = self._reports.read()
        before = b"" if self._reports.flooded else self._rest
        *lines, rest = (before + reports).split(b"\n")
        self._rest = rest[-MAX_LINE:]  # a longer line is invalid in any case
        for line in lines:
            try:
                fields = json.loads(line)
            except (ValueError, RecursionError):
                self.heard.trouble = INVALID
            else:
                self.read_report(fields)
        printed = self._out.read()
        if self._out.flooded:
            self._parser.skip()
        if printed and not self.sdk:
            for metric in self._parser.feed(printed):
                self.record(metric)

    @property
    def too_long(self) -> bool:
        return self._out.too_long or self._reports.too_long

    @property
    def flooded(self) -> bool:
        return self._out.flooded

    @property
    def printed(self) -> int | None:
        return self._out.at

    @property
    def found(self) -> str:
        if self.sdk:
            return f"{self.metric} in reports.jsonl, by the SDK"
        by = " by reports.pattern" if self.pattern else ""
        where = self.log.name if self.log else "out.log"
        return example(self.metric, f"{where}{by}", self._parser.example)

    def close(self) -> None:
        self._out.close()
        self._reports.close()


def example(metric: str, where: str, line: str) -> str:
    """Describe where a metric was found, by the first line that has it; empty: nowhere yet."""
    words = "".join(c for c in " ".join(line.split()) if c.isprintable())[:MAX_EXAMPLE]
    return f'{metric} in {where}, line "{words}"' if line else ""


def _printable(text: object) -> str:
    """Return the text as valid UTF-8 of limited length. A job can write anything."""
    return str(text)[:MAX_MESSAGE].encode(errors="replace").decode()


def last_line(folder: Path) -> str:
    """Return the last line of a replica's log, which often says why it failed."""
    with suppress(OSError):
        file = job_files.open_file(folder, "out.log", os.O_RDONLY)
        try:
            end = os.pread(file, 4096, max(0, os.fstat(file).st_size - 4096))
        finally:
            os.close(file)
        lines = end.decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[-MAX_MESSAGE:] if lines else ""
    return ""
