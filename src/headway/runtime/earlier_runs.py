"""Measurements of earlier runs for each kind of job: size, cost of a step, demand and peak memory.

Jobs are of the same kind if they have the same command, arguments, working directory and image, and
if the files among the arguments (the script, a configuration) have the same content. The file
`earlier-runs.json` in the data directory keeps the kinds that ran last.
"""

import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from functools import cache
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from time import time
from typing import Any

from headway import private_files
from headway.backend import durable
from headway.core.estimate.job_size import Known, from_kind, learn
from headway.core.model.job import Estimate, Expected, holding
from headway.core.model.units import Bytes, Cores, CoreSeconds, JobId, Seconds
from headway.spec.runnable import Command, RunnableJob

VERSION = 1
MOST = 1000
"""Maximum number of kinds. The kinds that have not run for the longest time are dropped."""
HASHED = 2**20
"""Maximum size of a file whose content identifies a kind. Interpreters and data are larger."""

log = logging.getLogger("headway")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Measurements of a job in one run; 0: unknown."""

    work: CoreSeconds = 0.0
    steps: float = 0.0
    demand: Cores = 0.0
    memory: Bytes = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    command: str
    at: Seconds = 0.0
    """Time of the last run, in seconds since 1970."""
    runs: int = 0
    work: CoreSeconds = 0.0
    least: CoreSeconds = 0.0
    most: CoreSeconds = 0.0
    step_cost: CoreSeconds = 0.0
    demand: Cores = 0.0
    memory: Bytes = 0.0

    def learn(self, seen: Seen, at: Seconds) -> "Kind":
        before = Known(work=self.work, least=self.least, most=self.most)
        known = learn(before, seen.work)
        cost = seen.work / seen.steps if seen.steps > 0 else 0.0
        return Kind(
            command=self.command,
            at=at,
            runs=self.runs + 1,
            work=known.work,
            least=known.least,
            most=known.most,
            step_cost=cost or self.step_cost,
            demand=max(seen.demand, self.demand),
            memory=max(seen.memory, self.memory),
        )

    def expected(self, total_steps: float | None) -> Expected | None:
        """Return the size with the error that was observed between runs; None: unknown."""
        size = from_kind(Known(work=self.work, least=self.least, most=self.most))
        if size is None:
            return None
        if total_steps and self.step_cost:
            size = Estimate(value=self.step_cost * total_steps, error=size.error)
        return Expected(work=size, demand=self.demand or None)


class EarlierRuns:
    def __init__(self, data: Path) -> None:
        self.path = data / "earlier-runs.json"

    def read(self) -> dict[str, Kind]:
        """Return the kinds by key. A file that cannot be used is ignored with a warning."""
        try:
            return _kinds(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("earlier runs are ignored: %s: %s", self.path, error)
            return {}

    def fill_in(self, jobs: Iterable[RunnableJob]) -> list[RunnableJob]:
        """Return the jobs with the known properties. Declared and calibrated ones are kept."""
        return list(map(self.recall(), jobs))

    def recall(self) -> Callable[[RunnableJob], RunnableJob]:
        """Read the file. Return a function that adds the known properties to a job."""
        kinds, content = self.read(), cache(_content)
        return lambda job: _fill_in(job, kinds.get(key(job.commands, content)))

    def learn(self, seen: Iterable[tuple[str, str, Seen]]) -> None:
        """Add the measurements of a run: key and command of each job, and what it showed."""
        with self._locked():
            kinds = self.read()
            for name, command, shown in seen:
                kinds[name] = kinds.get(name, Kind(command=command)).learn(shown, time())
            self._write(kinds)

    def forget(self, pattern: str = "") -> list[str]:
        """Remove the kinds whose command contains the pattern, and return their commands."""
        if not self.path.exists():
            return []
        with self._locked():
            kinds = self.read()
            gone = [n for n, kind in kinds.items() if fnmatch(kind.command, f"*{pattern}*")]
            found = [kinds.pop(name).command for name in gone]
            self._write(kinds)
            return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the file, because several runs may end at the same time."""
        lock = self.path.with_suffix(".lock")
        with open(lock, "w", encoding="utf-8", opener=private_files.opener) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _write(self, kinds: Mapping[str, Kind]) -> None:
        newest = sorted(kinds, key=lambda name: kinds[name].at)[-MOST:]
        content = {"version": VERSION, "kinds": {name: asdict(kinds[name]) for name in newest}}
        durable.write(self.path, json.dumps(content, indent=1))


def _kinds(text: bytes) -> dict[str, Kind]:
    content = json.loads(text)
    if content["version"] != VERSION:
        raise ValueError(f"it has version {content['version']}, this Headway reads {VERSION}")
    return {name: _kind(fields) for name, fields in content["kinds"].items()}


def _kind(fields: dict[str, Any]) -> Kind:
    amounts = {name: float(value) for name, value in fields.items() if name != "command"}
    runs = int(amounts.pop("runs"))
    return Kind(command=str(fields["command"]), runs=runs, **amounts)


def _content(where: str, argument: str) -> str:
    """Return the digest of the file that an argument names; "": it names none, or a large one."""
    with suppress(OSError, ValueError):  # a pipe that its user puts in its place does not block
        file = os.open(Path(where, argument), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(file, "rb") as opened:
            found = os.fstat(file)
            if S_ISREG(found.st_mode) and found.st_size <= HASHED:
                return sha256(opened.read(HASHED)).hexdigest()
    return ""


def key(commands: Mapping[str, Command], content: Callable[[str, str], str] = _content) -> str:
    """Return what identifies the kind of a job with these commands."""
    parts = [
        (task, c.argv, c.where, c.image, () if c.image else [content(c.where, a) for a in c.argv])
        + ((c.user,) if c.user else ())
        for task, c in commands.items()
    ]
    return sha256(json.dumps(parts).encode()).hexdigest()[:32]


def keys(jobs: Iterable[RunnableJob]) -> dict[JobId, tuple[str, str]]:
    """Return the key and the command of each job. Adopted jobs have none."""
    content = cache(_content)
    return {
        job.id: (key(job.commands, content), " ".join(next(iter(job.commands.values())).argv))
        for job in jobs
        if job.commands and job.adopted is None
    }


def _fill_in(job: RunnableJob, kind: Kind | None) -> RunnableJob:
    if kind is None:
        return job
    spec = holding(job.spec, kind.memory)
    expected = spec.expected or kind.expected(spec.total_steps)
    return replace(job, spec=replace(spec, expected=expected))
