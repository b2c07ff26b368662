"""One line for each request that changes something or is denied: when, by which user and with which
token, what, and the answer.
"""

import json
import logging
import os
from collections.abc import MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from headway import private_files
from headway.server.access import PEER
from headway.server.network import CLIENT

FILE, BEFORE = "audit.jsonl", "audit.1.jsonl"
MOST = 64 * 2**20
"""Bytes of the file; then it is renamed, and the one that had that name before is gone."""
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
        caller, path = state.get(PEER), str(scope["path"])
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "uid": caller.uid if caller else os.geteuid(),
            "pid": caller.pid if caller else None,
            "token": state.get(CLIENT),
            "request": f"{scope['method']} {path[:300]}",
            "jobs": state.get(JOBS, []),
            "status": status,
        }
        try:
            self._append(json.dumps(line) + "\n")
        except OSError as error:
            log.warning("the audit line is not written: %s: %s", error, line)

    def _append(self, line: str) -> None:
        path = self._folder / FILE
        if path.exists() and path.stat().st_size > MOST:
            path.replace(self._folder / BEFORE)
        with open(path, "a", encoding="utf-8", opener=private_files.opener) as file:
            file.write(line)
