"""Read the output of a replica from its `out.log`."""

import os
import re
from collections import deque
from collections.abc import Iterator
from time import sleep
from typing import IO

from headway.backend.job_store import JobStore
from headway.core.model.units import JobId, ReplicaId
from headway.errors import ConfigError, UnknownName
from headway.metrics import job_files
from headway.runtime.log_times import printed_until
from headway.runtime.run_directory import RunDirectory

AGAIN = 0.2
"""Seconds between two checks for new output."""
BLOCK = 2**16
_ENDS = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""Line ends. A carriage return at the end of the data may be followed by a newline."""
MAX_LINE = 2**20
"""Length in bytes at which an unfinished line is printed."""


def read_log(
    folder: RunDirectory,
    job: str,
    replica: str = "",
    *,
    last: int | None = None,
    follow: bool,
    most: int | None = None,
    since: float | None = None,
) -> Iterator[str]:
    """Yield the lines of the output of a replica: all, or the `last` ones. `follow`: until its job
    ends. `most`: how many bytes are read for the last lines, however long they are. `since`: only
    lines that were printed after this time of day.
    """
    name = _replica(folder, JobId(job), replica)
    path = JobStore(folder.path).replica(name)
    begun = 0 if since is None else printed_until(folder, name, since)
    file = _opened(path, folder, job, follow=follow)
    if file is None:
        return
    with os.fdopen(file, "rb") as log:
        begun = _line_start(log, begun)
        if last is not None and not follow:
            size = os.fstat(log.fileno()).st_size
            first = begun if most is None else max(begun, size - most)
            log.seek(_start_of(log, last, first))
            text = log.read(most).removesuffix(b"\n")
            yield from deque(_lines(text) if text else (), maxlen=last)
            return
        log.seek(begun if last is None else _start_of(log, last, begun))
        rest = b""
        while True:
            over = not follow or _over(folder, JobId(job))  # asked before the last read
            while block := log.read(BLOCK):
                *whole, rest = _ENDS.split(rest + block)
                yield from (line.decode(errors="replace") for line in whole)
                if len(rest) > MAX_LINE:
                    yield rest.decode(errors="replace")
                    rest = b""
            if over:
                break
            if os.fstat(log.fileno()).st_size < log.tell():
                log.seek(0)  # Headway has cut it
            sleep(AGAIN)
        if rest:
            yield rest.decode(errors="replace")


def _lines(text: bytes) -> list[str]:
    """Split a text into lines. A progress bar that overwrites itself has many."""
    return [line.decode(errors="replace") for line in _ENDS.split(text)]


def _replica(folder: RunDirectory, job: JobId, name: str) -> ReplicaId:
    """Return the replica of this name; without a name, the chief."""
    there = sorted(p.name for p in (folder.path / "jobs" / job).glob("*") if p.is_dir())
    if not there:
        return ReplicaId.named(job, name or "main-0")
    if name and name not in there:
        raise UnknownName("replica", name, there, where=f"job {job}")
    chief = next((n for n in there if n in ("chief-0", "main-0", "worker-0")), there[0])
    return ReplicaId.named(job, name or chief)


def _opened(path: os.PathLike[str], folder: RunDirectory, job: str, *, follow: bool) -> int | None:
    while True:
        over = _over(folder, JobId(job))
        try:
            return job_files.open_file(str(path), "out.log", os.O_RDONLY)
        except OSError:
            if over:
                return None
            if not follow:
                raise ConfigError(
                    f"job {job} has printed nothing yet",
                    where=f"run {folder.id}",
                    hint="wait for it with --follow",
                ) from None
        sleep(AGAIN)


def _over(folder: RunDirectory, job: JobId) -> bool:
    state = JobStore(folder.path).load([job]).get(job)
    return (state is not None and state.phase.ended) or not folder.locked


def _line_start(log: IO[bytes], at: int) -> int:
    """Return where the line begins that contains this byte; at most a block before it."""
    first = max(0, at - BLOCK)
    log.seek(first)
    return first + log.read(at - first).rfind(b"\n") + 1 if at else 0


def _start_of(log: IO[bytes], last: int, first: int) -> int:
    """Return where the last lines begin, not before `first`. A newline at the end of the file
    begins no line.
    """
    end = at = log.seek(0, os.SEEK_END)
    begun = end
    while at > first and last > 0:
        size = min(BLOCK, at - first)
        at -= size
        log.seek(at)
        block = log.read(size)
        found = len(block)
        while last > 0 and (found := block.rfind(b"\n", 0, found)) >= 0:
            if at + found + 1 < end:
                begun, last = at + found + 1, last - 1
    return begun if last == 0 else first
