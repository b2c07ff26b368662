"""Read the log of a container as the kubelet keeps it: the CRI format, with rotations.

    2026-01-02T03:04:05.678901234Z stdout F step 1 loss 0.5

A long line comes in parts, of which all but the last are tagged `P`. The kubelet renames `0.log` to
`0.log.TIME`, then tells the runtime, which creates a new `0.log`; later it compresses the older
ones. The place where reading goes on is a time stamp: the next file is the first that begins after
the last line that was read, whatever it is called by then.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple, cast

CURRENT = "0.log"
"""A pod of a training job never restarts its container."""
ROTATED = re.compile(r"0\.log\.[0-9-]+(\.gz)?")
LONGEST = 16 * 2**10
"""Bytes of a line that are kept; its parser reads half of them."""
CHUNK = 256 * 2**10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[-+]\d\d:\d\d)")


class Line(NamedTuple):
    time: bytes
    text: bytes
    """With its end: a newline, or the carriage return of a progress bar."""


def nanoseconds(time: bytes) -> int:
    """Since 1970; 0 if it is no time stamp. Runtimes omit trailing zeros.

    >>> nanoseconds(b"1970-01-01T00:00:01.5Z"), nanoseconds(b"1970-01-01T01:00:00+01:00")
    (1500000000, 0)
    """
    found = _TIME.fullmatch(time)
    if found is None:
        return 0
    zone = b"+00:00" if found[3] == b"Z" else found[3]
    try:
        whole = datetime.fromisoformat((found[1] + zone).decode()) - _EPOCH
    except ValueError:
        return 0
    seconds = whole.days * 86400 + whole.seconds
    return seconds * 10**9 + int((found[2] or b"0").ljust(9, b"0"))


class CriDecoder:
    """Joins the parts of lines; the two streams of a container are interleaved."""

    def __init__(self) -> None:
        self._rest = b""
        self._parts: dict[bytes, bytes] = {}

    def feed(self, data: bytes) -> Iterator[Line]:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-LONGEST - 64 :]
        for line in lines:
            fields = line.split(b" ", 3)
            if len(fields) < 4:
                continue
            time, stream, tag, text = fields
            text = self._parts.pop(stream, b"") + text
            if tag.startswith(b"F"):
                yield Line(time, text + b"\n")
                continue
            # A progress bar may go on for long without a newline.
            done, end, text = text.rpartition(b"\r")
            self._parts[stream] = text[:LONGEST]
            if end:
                yield Line(time, done + end)


class CriLog:
    def __init__(self, folder: Path) -> None:
        """`folder`: folder of the container, in the folder of its pod."""
        self._folder, self._decoder = folder, CriDecoder()
        self._file: IO[bytes] | None = None
        self._inode = 0
        self._last = b""
        """Time stamp of the last line that was read."""

    def read(self, most: int) -> Iterator[Line]:
        """Yield new lines of about so many bytes."""
        while most > 0:
            if self._file is None and not self._open_next():
                return
            data = self._chunk()
            if not data and not self._has_ended():
                return
            if not data:
                data = self._chunk()  # written between the last read and the rotation
            if not data:
                self.close()
            most -= len(data)
            for line in self._decoder.feed(data):
                self._last = line.time
                yield line

    def _chunk(self) -> bytes:
        with suppress(OSError, EOFError, zlib.error):
            return self._file.read(CHUNK) if self._file else b""
        return b""

    def _has_ended(self) -> bool:
        """Whether the runtime writes to another file now."""
        with suppress(OSError):
            return (self._folder / CURRENT).stat().st_ino != self._inode
        return False

    def _open_next(self) -> bool:
        after = nanoseconds(self._last)
        if self._inode and not after:
            return False  # not the format of a container log
        for name in self._names():
            with suppress(OSError, EOFError, zlib.error):
                if after and _begin(self._folder / name) <= after:
                    continue
                self._file = _opened(self._folder / name)
                self._inode = (self._folder / name).stat().st_ino
                return True
        return False

    def _names(self) -> list[str]:
        """Return the names of the log files, the oldest first."""
        try:
            there = {path.name for path in self._folder.iterdir()}
        except OSError:
            return []
        rotated = sorted(name for name in there if ROTATED.fullmatch(name))
        return [*rotated, *([CURRENT] if CURRENT in there else [])]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _opened(path: Path) -> IO[bytes]:
    """Open a log file without a buffer, because it grows."""
    return cast("IO[bytes]", gzip.open(path) if path.suffix == ".gz" else path.open("rb", 0))


def _begin(path: Path) -> int:
    """Return the time of the first line; 0: there is none yet."""
    with _opened(path) as file:
        return nanoseconds(file.read(64).partition(b" ")[0])
