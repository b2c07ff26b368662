"""Reports of jobs over HTTP, on a port of this machine that takes nothing else.

A report becomes a line of `reports.jsonl` of its replica, as if its SDK had written it. There are
hundreds of requests a second, so that this is an application of its own, without routes.
"""

import asyncio
import json
import os
from collections import Counter
from errno import ENOSPC
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headway.backend.job_store import JobStore
from headway.backend.report_channel import Reporter
from headway.metrics import job_files
from headway.metrics.http_reports import (
    KUBEFLOW,
    LARGEST_BODY,
    MALFORMED,
    SDK,
    from_kubeflow,
    from_sdk,
)
from headway.server.network import CLIENT
from headway.server.problems import problem
from headway.server.requests import BODY_TIME

APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT


class ReportApp:
    """Used in the thread of the API, behind `Guarded`, which knows the reporter by its token."""

    def __init__(self, run: Path) -> None:
        self._store = JobStore(run)
        self.counts: Counter[str] = Counter()
        """Reports by source."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(scope, receive)
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        if scope["path"] not in (SDK, KUBEFLOW):
            return problem(404, "bad-request", "no such path")
        if scope["method"] != "POST":
            return problem(405, "bad-request", "POST is needed", headers={"Allow": "POST"})
        try:
            async with asyncio.timeout(BODY_TIME):
                body = await _read(receive)
        except TimeoutError:
            return problem(408, "bad-request", f"no complete body within {BODY_TIME:g} s")
        if body is None:
            return problem(413, "bad-request", f"at most {LARGEST_BODY} bytes")
        try:
            return self.take(scope["path"], scope["state"][CLIENT], json.loads(body))
        except (*MALFORMED, RecursionError) as error:
            return problem(400, "bad-request", f"invalid report: {error!r}"[:200])
        except OSError as error:
            gone = isinstance(error, FileNotFoundError | NotADirectoryError)
            return problem(404 if gone else 503, "platform", error.strerror or "cannot be stored")

    def take(self, path: str, reporter: Reporter, body: Any) -> Response:
        """Store the reports of a body; the answer says whether a checkpoint is requested."""
        sdk = path == SDK
        reports = from_sdk(body) if sdk else [from_kubeflow(body, reporter.metric)]
        if not all(isinstance(report, dict) for report in reports):
            raise ValueError("each report is an object")
        lines = "".join(f"{json.dumps(report)}\n" for report in reports).encode()
        folder = self._store.replica(reporter.replica)
        file = job_files.open_file(folder, "reports.jsonl", APPEND)
        try:
            if os.write(file, lines) < len(lines):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
        finally:
            os.close(file)
        self.counts["sdk" if sdk else "kubeflow"] += len(reports)
        asked = b"true" if (folder / "ask").exists() else b"false"
        return Response(
            b'{"checkpoint": ' + asked + b"}", HTTPStatus.OK, media_type="application/json"
        )


async def _read(receive: Receive) -> bytes | None:
    """Read the body of a request; None: it is too long."""
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if len(body) > LARGEST_BODY:
            return None
        if not message.get("more_body"):
            return body
