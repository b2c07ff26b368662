"""One line for each request that changes something or is denied: when, by which user and with which
token, what, and the answer. Requests without a known token have a file of their own.
"""

import json
import logging
import os
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from headway import private_files
from headway.core.model.units import Seconds
from headway.server.access import PEER
from headway.server.network import CLIENT

FILE, DENIED_FILE = "audit.jsonl", "denied.jsonl"
MOST, MOST_DENIED = 64 * 2**20, 8 * 2**20
"""Bytes of each file; then it is renamed, and the one that had that name before is gone."""
DENIED_PER_MINUTE = 60
"""Maximum number of lines about requests without a known token."""
LONGEST = 300
"""Characters of a request that a line shows."""
JOBS = "audited_jobs"
"""Key of a request for the jobs that it concerns."""
MOST_JOBS = 100
"""Jobs of a submission that a line names."""
READS, DENIED = ("GET", "HEAD"), 403
log = logging.getLogger("headway")


class Audited:
    def __init__(self, app: ASGIApp, folder: Path) -> None:
        self._app, self._folder = app, folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def noting(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status = int(message["status"])
                if scope["method"] not in READS or status == DENIED:
                    self._note(scope, status)
            await send(message)

        await self._app(scope, receive, noting)

    def _note(self, scope: Scope, status: int) -> None:
        state = scope.get("state", {})
        caller = state.get(PEER)
        line = {
            "uid": caller.uid if caller else os.geteuid(),
            "pid": caller.pid if caller else None,
            "token": state.get(CLIENT),
            "request": _request(scope),
            "jobs": state.get(JOBS, []),
            "status": status,
        }
        _append(self._folder / FILE, MOST, line)


@dataclass(slots=True)
class DeniedRequests:
    """Notes requests that were denied before their sender was known. Their number is limited, and
    they have a file of their own, so that a stranger can neither fill the disk nor displace the
    lines about known clients.
    """

    folder: Path
    clock: Callable[[], Seconds] = monotonic
    _left: float = DENIED_PER_MINUTE
    """Number of lines that may be written now, at the time `_at`."""
    _at: Seconds = 0.0
    _omitted: int = 0
    """Number of requests without a line since the last one."""

    def note(self, scope: Scope, status: int) -> None:
        now = self.clock()
        self._left += (now - self._at) * DENIED_PER_MINUTE / 60
        self._left, self._at = min(DENIED_PER_MINUTE, self._left), now
        if self._left < 1:
            self._omitted += 1
            return
        host, port = scope.get("client") or ("", 0)
        line = {"client": f"{host}:{port}", "request": _request(scope), "status": status}
        _append(self.folder / DENIED_FILE, MOST_DENIED, {**line, "omitted": self._omitted})
        self._left, self._omitted = self._left - 1, 0


def _request(scope: Scope) -> str:
    return f"{scope['method']} {scope['path']}"[:LONGEST]


def _append(path: Path, most: int, fields: dict[str, Any]) -> None:
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields}
    try:
        if path.exists() and path.stat().st_size > most:
            path.replace(path.with_suffix(".1.jsonl"))
        with open(path, "a", encoding="utf-8", opener=private_files.opener) as file:
            file.write(json.dumps(line) + "\n")
    except OSError as error:
        log.warning("the audit line is not written: %s: %s", error, line)
