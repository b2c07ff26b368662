"""Requests of users to a live run: files in its folder, handled in order.

A request is written as a whole. It is removed when the cycle that observed it is in the journal, so
that none is lost and the client knows that it was handled.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from time import time_ns

from headway import failpoint
from headway.core.model.serialization import from_plain, to_json
from headway.core.model.snapshot import Request


def put(run: Path, request: Request) -> Path:
    """Write a request; the returned file disappears when it was handled."""
    folder = run / "requests"
    folder.mkdir(exist_ok=True)
    there = folder / f"{time_ns()}-{os.getpid()}.json"
    part = there.with_suffix(".part")
    failpoint.hit("request.write")
    part.write_text(to_json(request))
    failpoint.hit("request.rename")
    part.rename(there)
    return there


class Inbox:
    def __init__(self, run: Path) -> None:
        self._folder = run / "requests"
        self._changed = 0
        self._seen: list[Path] = []
        self._given: list[Path] = []

    def new(self) -> list[Request]:
        """New requests. Reads only if the folder has changed."""
        try:
            changed = self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        if changed == self._changed:
            return []
        self._changed = changed
        known = {*self._seen, *self._given}
        fresh = [p for p in sorted(self._folder.glob("*.json")) if p not in known]
        self._seen += fresh
        return [r for p in fresh if (r := _read(p)) is not None]

    def give(self) -> None:
        """All new requests are part of an observation now."""
        self._given += self._seen
        self._seen = []

    def acknowledge(self) -> None:
        """The observed requests are in the journal, where the client finds the outcome."""
        for path in self._given:
            failpoint.hit("request.remove")
            path.unlink(missing_ok=True)
        self._given = []


def _read(path: Path) -> Request | None:
    """None: not a request; any program may write such a file."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = from_plain(json.loads(path.read_text()))
        if isinstance(found, Request):
            words = (found.job, found.wish, "" if found.to is None else found.to)
            return found if all(isinstance(word, str) for word in words) else None
    return None
