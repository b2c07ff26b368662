"""Requests of users to a live run: files in the run directory, handled in order.

A request is written atomically. Headway removes it when the cycle that observed it is in the
journal and the state of the job is stored. So no request is lost, and the client sees that it was
handled. A request that is refused at once is answered by a file with the same name and the ending
`.answer`.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import time_ns

from headway import failpoint, private_files
from headway.core.model.serialization import from_plain, to_json
from headway.core.model.snapshot import Request
from headway.core.model.units import JobId

ANSWER = ".answer"
TICK = 100_000_000
"""Nanoseconds within which two changes of a folder can have the same time."""
MAX_REQUEST = 65536
"""Maximum size of a request in bytes."""


def put(run: Path, request: Request) -> Path:
    """Write a request. The returned file is removed when the request was handled."""
    folder = run / "requests"
    folder.mkdir(mode=0o700, exist_ok=True)
    there = folder / f"{time_ns()}-{os.getpid()}.json"
    part = there.with_suffix(".part")
    failpoint.hit("request.write")
    with open(part, "w", encoding="utf-8", opener=private_files.opener) as file:
        file.write(to_json(request))
    failpoint.hit("request.rename")
    part.rename(there)
    return there


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a request that is refused."""

    why: str = ""
    unknown: str = ""
    """`job`, `node` or `task` if the request names one that does not exist."""
    known: tuple[str, ...] = ()
    """The first existing names."""


def take_answer(request: Path) -> Answer | None:
    """Read and remove the answer to a handled request; None: it was not refused at once."""
    path = request.with_suffix(ANSWER)
    with suppress(OSError, ValueError, TypeError):
        plain = json.loads(path.read_text())
        path.unlink()
        return Answer(**{**plain, "known": tuple(plain["known"])})
    return None


class Inbox:
    def __init__(
        self, run: Path, refusal: Callable[[Request], Answer | None] = lambda request: None
    ) -> None:
        """`refusal`: returns the answer to a request that is refused, otherwise None."""
        self._folder, self._refusal = run / "requests", refusal
        for old in self._folder.glob(f"*{ANSWER}"):
            old.unlink(missing_ok=True)
        self._changed = 0
        self._seen: dict[Path, JobId | None] = {}
        self._given: dict[Path, JobId | None] = {}
        """Observed requests and their jobs; None: the file is not a request."""

    def new(self) -> list[Request]:
        """Return new requests. The folder is read only if it has changed."""
        try:
            changed = self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        if changed == self._changed:
            return []
        self._changed = changed if time_ns() - changed > TICK else 0
        known = {*self._seen, *self._given}
        fresh = [p for p in sorted(self._folder.glob("*.json")) if p not in known]
        return [r for p in fresh if (r := self._accept(p)) is not None]

    def _accept(self, path: Path) -> Request | None:
        request = _read(path)
        answer = None if request is None else self._refusal(request)
        if answer is not None:
            with open(path.with_suffix(ANSWER), "w", opener=private_files.opener) as file:
                json.dump(asdict(answer), file)
            about_job = request is not None and request.job  # a drain is about none
            if answer.unknown != "node" or not about_job:  # the journal shows a refused move
                path.unlink(missing_ok=True)
                return None
        self._seen[path] = None if request is None else request.job
        return request

    def give(self) -> None:
        """Note that all new requests are part of an observation."""
        self._given |= self._seen
        self._seen = {}

    def acknowledge(self, stored: Callable[[JobId], bool] = lambda job: True) -> None:
        """Remove the observed requests: the journal has their outcome. `stored`: returns whether
        the state of a job, which the request may have changed, is durable.
        """
        for path, job in list(self._given.items()):
            if job is None or stored(job):
                failpoint.hit("request.remove")
                path.unlink(missing_ok=True)
                del self._given[path]


def _read(path: Path) -> Request | None:
    """Read a request; None: the file is not a request. Any program can write such a file."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        with path.open("rb") as file:
            found = from_plain(json.loads(file.read(MAX_REQUEST)))
        if isinstance(found, Request):
            words = (found.job, found.wish, "" if found.to is None else found.to, found.task)
            number = isinstance(found.count, int | None)
            return found if number and all(isinstance(word, str) for word in words) else None
    return None
