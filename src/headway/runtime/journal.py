"""The journal: one line per cycle.

`intend` writes the first part of a line and makes it durable before the first action. `settle`
completes the line after the last action. An incomplete last line shows which actions are in doubt.

    {"cycle": 7, "at_s": 40.0, "trigger": "arrived", "seen": {…}, "plan": {…}, "outcomes": […]}

The first line of a file starts with the number of the format: {"format": 2, "cycle": 1, …}. A file
of another format is refused unchanged.

Every 100 cycles, a line also contains a digest of the policy's memory, and every ten minutes the
memory itself. A restart reads the last memory and folds the later lines again.

The lines of a run now and then also contain the memory and the state of the cluster after the
observation: the first line of a process that resumes it, and one of every 256 KiB or, if they are
large, so that they are a fifth of the file. A restart reads only the lines from the last of them.

A long file is renamed to `journal.1.jsonl`, and a new file is started, whose first line contains
the state, too.
"""

import hashlib
import json
import mmap
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from headway import failpoint, private_files
from headway.backend import durable
from headway.core.cycle.folded_state import FoldedState
from headway.core.cycle.validate import Verdict
from headway.core.model.decision import Failed, Outcome, Plan, Refused
from headway.core.model.job import Job
from headway.core.model.serialization import KNOWN, from_plain, to_json
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import Seconds
from headway.errors import BackendError, ConfigError, PolicyBug, reason_of
from headway.policy import registry
from headway.runtime.file_format import FORMAT, refuse_format
from headway.runtime.last_reports import add_reports, reported

BLOCK = 65536
DIGEST_EVERY = 100
MEMORY_EVERY: Seconds = 600.0
LONG = 16 * 2**20
"""Size in bytes at which the journal of a run continues in a new file. Reading it takes 2 s."""
STATE_EVERY = 2**18
"""Bytes between two lines of a run with its state. Reading and deciding them again takes 0.3 s."""
STATE_PART = 4
"""Least ratio of these bytes to those of a line with the state."""


class Journal:
    """A journal that discards everything, for example in a simulation without `--journal`."""

    state: Callable[[], FoldedState] | None = None
    """Returns the state of the loop that writes the journal."""

    def intend(
        self, trigger: Trigger, seen: Observation, plan: Plan, verdict: Verdict, memory: Any
    ) -> None:
        """Write the observation and the plan, before acting."""

    def settle(self, outcomes: tuple[Outcome, ...]) -> None:
        """Write the outcomes."""


class FileJournal(Journal):
    """A journal in a file. `durable`: each part of a line survives a crash of the machine."""

    def __init__(
        self,
        path: Path,
        *,
        durable: bool = True,
        cycle: int = 0,
        policy: str = "",
        most: int | None = None,
        lines: Iterable[dict[str, Any]] = (),
    ) -> None:
        """`cycle`: the last cycle in the file. `policy`: its name. `most`: size in bytes at which a
        new file is started; one earlier file is kept. `lines`: the lines that the file contains.
        """
        self._path, self._policy, self._most = path, policy, most
        self._durable = durable
        self._empty: bool
        self._file = self._open()
        self._cycle = cycle
        self._first = 0
        self._memory_at: Seconds | None = None
        self._state_due = 0 if cycle or most is None else STATE_EVERY
        """Size of the file from which on a line contains the state."""
        self._reported = reported(lines)

    def intend(
        self, trigger: Trigger, seen: Observation, plan: Plan, verdict: Verdict, memory: Any
    ) -> None:
        if self._most is not None and self._file.tell() >= self._most + self._first:
            self._rotate()
        self._cycle += 1
        add_reports(self._reported, seen)
        began = self._file.tell()
        rotated = self._empty and self._cycle > 1
        whole = rotated or (self._most is not None and began >= self._state_due)
        state = self.state() if self.state is not None and whole else None
        if state is not None:
            self._memory_at = None  # the line contains it, too
        line: dict[str, Any] = {
            **({"format": FORMAT} if self._empty else {}),
            "cycle": self._cycle,
            "at_s": seen.at,
            "trigger": trigger,
            "seen": seen,
            **self._about(memory, seen.at),
        }
        if state is not None:
            line["state"], line["reported"] = state, self._reported
        if verdict.refused:
            line["refused"] = verdict.refused
        line["plan"] = plan
        self._empty = False
        rotated = rotated and state is not None
        self._write("journal.intend", to_json(line)[:-1], durable=bool(verdict.accepted) or rotated)
        if rotated:
            self._first = self._file.tell()
        if state is not None:
            now = self._file.tell()
            self._state_due = now + max(STATE_EVERY, STATE_PART * (now - began))

    def settle(self, outcomes: tuple[Outcome, ...]) -> None:
        brief = ",".join([_encode_outcome(o) for o in outcomes])
        self._write("journal.settle", f"{_OUTCOMES}[{brief}]}}\n", durable=bool(outcomes))

    def close(self) -> None:
        self._file.close()

    def _open(self) -> IO[bytes]:
        if self._durable:  # of a run
            file: IO[bytes] = open(self._path, "ab", 0, opener=private_files.opener)  # noqa: SIM115
        else:
            file = self._path.open("ab", 1 << 20)
        self._empty = file.tell() == 0
        if self._empty and self._durable:
            durable.sync(self._path.parent)
        return file

    def _rotate(self) -> None:
        self._file.close()
        failpoint.hit("journal.rotate")
        self._path.replace(_earlier(self._path))
        self._file = self._open()
        self._memory_at = None  # the first line contains it

    def _about(self, memory: Any, at: Seconds) -> dict[str, Any]:
        due = self._memory_at is None or at - self._memory_at >= MEMORY_EVERY
        if not due and self._cycle % DIGEST_EVERY:
            return {}
        about: dict[str, Any] = {"digest": digest(memory)}
        if due:
            self._memory_at = at
            if self._policy:
                about["policy"] = self._policy
            about["memory"] = memory
        return about

    def _write(self, point: str, text: str, *, durable: bool) -> None:
        if not self._durable:
            self._file.write(text.encode())
            return
        data = text.encode()
        try:
            while data:  # a full disk may take a part
                data = data[self._file.write(failpoint.hit(point, data)) :]
            if durable:
                failpoint.hit("journal.sync")
                os.fsync(self._file.fileno())
        except OSError as error:
            raise BackendError(
                f"the journal cannot be written: {reason_of(error)}",
                where=str(self._path),
                hint="free disk space, then headway serve or run --resume; jobs continue meanwhile",
            ) from None


def digest(memory: Any) -> str:
    return hashlib.sha256(to_json(memory).encode()).hexdigest()[:16]


def exists(path: Path) -> bool:
    """Return whether anything was written. After a rotation, only the earlier file may exist."""
    return path.exists() or _earlier(path).exists()


def check_format(path: Path) -> None:
    """Raise an error for a journal of another format. A file without a whole number is accepted."""
    with path.open("rb") as file:
        head = file.read(64)
    numbered = _NUMBERED.match(head)
    old = len(head) > 2 and head[: len(_BEGIN_1)] == _BEGIN_1[: len(head)]
    if numbered or old:
        refuse_format("journal", path, int(numbered[1]) if numbered else 1)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the decoded cycles of a journal. The last one has no `outcomes` if they are in doubt.

    If the beginning was discarded, the observation of the first cycle is the complete state.
    """
    files = [p for p in (_earlier(path), path) if p.exists()] or [path]
    for i, line in enumerate(line for file in files for line in _read(file)):
        if not i and "state" in line:
            line["seen"] = replace(line["state"].seen, requests=line["seen"].requests)
        yield line


def read_to_resume(path: Path) -> list[dict[str, Any]]:
    """Return the cycles that a restart needs: those since the last state in the file."""
    now = list(_read(path, _last_state(path))) if path.exists() else []
    return now if now and "state" in now[0] else list(read(path))


def jobs_of(line: dict[str, Any]) -> tuple[Job, ...]:
    """Return the jobs that a line describes."""
    jobs: tuple[Job, ...] = line["state"].seen.jobs if "state" in line else line["seen"].jobs
    return jobs


def _last_state(path: Path) -> int:
    """Return where the last line with the state begins; 0: there is none."""
    if not path.stat().st_size:
        return 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.rfind(b"\n", 0, max(0, content.rfind(_STATE))) + 1


def read_after(path: Path, size: int) -> Iterator[dict[str, Any]]:
    """Yield the cycles that were written after the file had this size."""
    if path.stat().st_size < size:
        size = 0  # a new file was started
    with path.open("rb") as file:
        file.seek(size)
        for text in file:
            with suppress(ValueError, KeyError, TypeError):  # the first may be the end of a line
                line = _load(text.decode(errors="replace"))
                if line is not None:
                    yield _decode(line)


def _earlier(path: Path) -> Path:
    """Return the path of the earlier file: journal.1.jsonl for journal.jsonl."""
    return path.with_suffix(f".1{path.suffix}")


def _read(path: Path, begin: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the cycles from this byte on."""
    check_format(path)
    assert registry.POLICIES  # noqa: S101 - importing the policies registers their memories
    with path.open("rb") as file:
        before = file.read(begin).count(b"\n")
        for number, data in enumerate(file, before + 1):
            text = data.decode(errors="replace")
            line = _load(text) if text.endswith("\n") else _load_torn(text)
            if line is None:
                if not text.endswith("\n"):
                    return  # incomplete before the plan: nothing has been done
                raise ConfigError("invalid line in the journal", where=f"{path}:{number}")
            with intact(f"{path}:{number}"):
                line = _decode(line)
            yield line
            if not text.endswith("\n"):
                return  # another process may still be writing the rest


_TYPES = {"cycle": (int,), "at_s": (int, float), "seen": (Observation,), "plan": (Plan,)}


def _decode(line: dict[str, Any]) -> dict[str, Any]:
    for key in ("seen", "plan", "refused", "memory", "state"):
        if key in line:
            line[key] = from_plain(line[key])
    for key, types in _TYPES.items():
        if type(line[key]) not in types:
            raise TypeError(f"{key} is of type {type(line[key]).__name__}")
    if line.get("outcomes") is not None:
        line["outcomes"] = _decode_outcomes(line)
    if not all(isinstance(each, Refused) for each in line.get("refused", ())):
        raise TypeError("refused contains something else")
    line["trigger"] = Trigger(line["trigger"])
    return line


@contextmanager
def intact(where: str) -> Iterator[None]:
    """Context in which errors by inconsistent content are reported as a damaged journal."""
    try:
        yield
    except (
        ArithmeticError, AssertionError, AttributeError, LookupError, PolicyBug, RecursionError,
        TypeError, ValueError,
    ) as error:  # fmt: skip
        raise ConfigError(
            f"this journal is damaged: {type(error).__name__}: {str(error)[:200]}",
            where=where,
            hint="if it was not changed, this is a defect of Headway: please report it",
        ) from error


def repair(path: Path) -> None:
    """Complete the last line if the process died while writing it: `outcomes` is null, which means
    unknown. A line without a plan is removed, because nothing was executed.
    """
    if not path.exists():
        return  # the process died before it started a new file
    check_format(path)
    with path.open("rb+") as file:
        begin = _last_line(file)
        file.seek(begin)
        torn = file.read().decode(errors="replace")
        if not torn:
            return
        line = _load_torn(torn)
        file.seek(begin)
        failpoint.hit("journal.repair")
        file.truncate()
        if line is not None:
            failpoint.hit("journal.complete")
            file.write((to_json({**line, "outcomes": None}) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())


def _last_line(file: IO[bytes]) -> int:
    """Return where the last, unfinished line of a file begins; only the end of it is read."""
    at = file.seek(0, os.SEEK_END)
    while at > 0:
        size = min(at, BLOCK)
        at -= size
        file.seek(at)
        found = file.read(size).rfind(b"\n")
        if found >= 0:
            return at + found + 1
    return 0


def _load(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and "plan" in line else None


def _refuse(constant: str) -> float:
    """NaN and infinity are never written."""
    raise ValueError(constant)


def _load_torn(text: str) -> dict[str, Any] | None:
    """Read an incomplete last line. The plan is last before the outcomes: if it is readable, all of
    `intend` was written, and the actions are in doubt.
    """
    head = text.rpartition(_OUTCOMES)[0]
    if not head:
        begun = (_OUTCOMES[:n] for n in range(len(_OUTCOMES), 0, -1))
        head = text.removesuffix(next((part for part in begun if text.endswith(part)), ""))
    return _load(text) or _load(text + "}") or _load(head + "}")


def _encode_outcome(outcome: Outcome) -> str:
    """Encode an outcome without its decision; outcomes are in the order of accepted decisions."""
    name = type(outcome).__name__
    if isinstance(outcome, Refused | Failed):
        return to_json({"is": name, "why": outcome.why})
    return f'{{"is":"{name}"}}'


def _decode_outcomes(line: dict[str, Any]) -> tuple[Outcome, ...]:
    """Add the accepted decisions. Of equal decisions, the later ones were refused: remove these
    from the back.
    """
    accepted = list(reversed(line["plan"].decisions))
    for each in reversed(line.get("refused", ())):
        accepted.remove(each.decision)
    accepted.reverse()
    pairs = zip(line["outcomes"], accepted, strict=True)
    return tuple(KNOWN[o["is"]](decision=d, **{k: o[k] for k in o if k != "is"}) for o, d in pairs)


_OUTCOMES = ',"outcomes":'
_STATE = b',"state":{"is":"FoldedState",'
_NUMBERED = re.compile(rb'\{"format":(\d+),')
_BEGIN_1 = b'{"cycle":'
