"""The routes of the API. `openapi.py` describes them."""

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from headway import __version__
from headway.backend import drained_nodes
from headway.backend.drained_nodes import DRAIN, UNDRAIN
from headway.client import BASE, KEY
from headway.core.model import snapshot
from headway.core.model.node import Node
from headway.core.model.units import JobId, NodeId, Seconds
from headway.errors import ConfigError, HeadwayError, UnknownName, Unreachable
from headway.runtime.job_log import read_log
from headway.runtime.job_status import ENDED, LISTED, JobStatus
from headway.runtime.new_submission import check
from headway.runtime.operator_metrics import TEXT, Labels, by_label, family
from headway.runtime.request_client import ask
from headway.runtime.run_directory import RunDirectory
from headway.runtime.run_status import submitted_status
from headway.runtime.stopping import WISHES
from headway.runtime.submissions import Submitted
from headway.server import access, audit, requests
from headway.server.events import Changes
from headway.server.limits import SubmitLimits
from headway.server.network import CLIENT
from headway.server.openapi import LINES, LIVE, PHASES, REPLICA, document
from headway.server.problems import (
    BadRequest,
    NotFound,
    Refused,
    of_headway,
    of_http,
    of_system,
    unexpected,
)
from headway.server.report_app import ReportApp
from headway.server.store import Store

STUCK: Seconds = 30.0
"""Time without a sign of the loop after which it counts as stuck."""
LISTENERS = 32
"""Maximum number of clients that listen to events."""
ENDED_AGAIN = 1000
"""Maximum number of ended jobs that a client gets when it connects again."""
SLACK: Seconds = 10.0
"""Maximum time between the end of a job and its event."""
LISTENERS_OF_USER = 8
"""Maximum number of listening clients of one user of the machine."""
MAX_ACTIVE = 100_000
"""Maximum number of jobs that are searched for a phase."""
EXPLAINED: Seconds = 60.0
"""Time limit of an explanation, for which another process reads the journal."""
MAX_OUTPUT = 2**20
"""Maximum size in bytes of the output that is read for an answer."""
STATES: dict[str, tuple[str | None, ...]] = {
    "active": (None,), "ended": tuple(sorted(ENDED)), "all": (None, *sorted(ENDED)),
}  # fmt: skip


@dataclass(slots=True)
class Api:
    """Used in the thread of the API, except `beat`."""

    folder: RunDirectory
    store: Store
    nodes: list[Node]
    began: float
    """Time of day at 0 s."""
    beat: Callable[[], float]
    """Returns when the loop last worked."""
    jobs: dict[str, JobStatus] = field(default_factory=dict)
    """Status of the jobs that have not ended, from the loop."""
    changes: Changes = field(default_factory=Changes)
    limits: SubmitLimits | None = None
    """Limits of the users of the machine, if the server is for all of them: a job then belongs to
    its caller. None: the server has one user.
    """
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of answers by method and status."""
    reports: ReportApp | None = None
    """App that receives reports over HTTP and counts them."""
    _explaining: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def app(self) -> Starlette:
        one = f"{BASE}/jobs/{{job}}"
        routes = [
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/metrics", self.metrics),
            Route(f"{BASE}/openapi.json", self.openapi),
            Route(f"{BASE}/server", self.server),
            Route(f"{BASE}/server/stop", self.stop, methods=["POST"]),
            *(
                Route(f"{BASE}/nodes/{{node}}/{wish}", self.drain, methods=["POST"], name=wish)
                for wish in (DRAIN, UNDRAIN)
            ),
            Route(f"{BASE}/events", self.events),
            Route(f"{BASE}/jobs", self.list_jobs),
            Route(f"{BASE}/jobs", self.submit, methods=["POST"]),
            Route(one, self.get_job),
            Route(f"{one}/logs", self.logs),
            Route(f"{one}/explain", self.explain),
            *(
                Route(f"{one}/{wish}", self.request, methods=["POST"], name=wish)
                for wish in ("cancel", "pause", "resume", "move", "scale")
            ),
        ]
        errors: dict[Any, Callable[[Request, Exception], Response]] = {
            HeadwayError: of_headway,
            HTTPException: of_http,
            OSError: of_system,
            Exception: unexpected,
        }
        return Starlette(routes=merged(routes), exception_handlers=errors)

    async def healthz(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(self, _: Request) -> Response:
        ready = monotonic() - self.beat() < STUCK
        return PlainTextResponse("ok\n" if ready else "the loop is stuck\n", 200 if ready else 503)

    async def metrics(self, _: Request) -> Response:
        unfinished = await self.store.read(lambda store: store.count_unfinished())
        phases = Counter(job.phase for job in self.jobs.values())
        known = sum(count for phase, count in phases.items() if phase not in ENDED)
        phases["pending"] += max(0, unfinished - known)
        answers: dict[Labels, float] = {
            (("method", method), ("status", status)): count
            for (method, status), count in self.answers.items()
        }
        lines = [
            *family("headway_jobs", "gauge", "Jobs by phase.", by_label(phases, "phase")),
            *family(
                "headway_submitted_total",
                "counter",
                "Jobs that this process has stored.",
                {(): self.store.submitted},
            ),
            *family("headway_api_answers_total", "counter", "Answers of the API.", answers),
            *family(
                "headway_event_listeners",
                "gauge",
                "Clients that listen to events.",
                {(): self.changes.listeners},
            ),
            *family(
                "headway_reports_total",
                "counter",
                "Reports of jobs over HTTP.",
                by_label(self.reports.counts if self.reports else Counter(), "source"),
            ),
        ]
        return PlainTextResponse("\n".join(lines) + "\n", media_type=TEXT)

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(document(tokens=hasattr(request.state, CLIENT)))

    async def server(self, _: Request) -> Response:
        about, drained = self.folder.about, drained_nodes.read(self.folder.path)
        return JSONResponse(
            {
                "version": __version__,
                "run": self.folder.id,
                "policy": about["policy"],
                "began": about["began"],
                "nodes": [
                    {"name": n.id, "cpu_cores": n.capacity.cpu, "drained": n.id in drained}
                    for n in self.nodes
                ],
            }
        )

    async def stop(self, request: Request) -> Response:
        access.check_server(access.caller_of(request), "stop the server")
        body = await requests.read_json(request)
        requests.known_fields(body, "jobs")
        jobs = body.get("jobs")
        if jobs not in WISHES:
            raise BadRequest(f"one of {', '.join(WISHES)} is needed", where="body.jobs")
        wish = snapshot.Request(job=JobId(""), wish=WISHES[jobs])
        await run_in_threadpool(ask, self.folder, wish)
        return JSONResponse({"run": self.folder.id, "jobs": jobs}, 202)

    async def drain(self, request: Request) -> Response:
        wish, node = request.url.path.rpartition("/")[2], request.path_params["node"]
        access.check_server(access.caller_of(request), f"{wish} nodes")
        if node not in {n.id for n in self.nodes}:
            raise UnknownName("node", node, [n.id for n in self.nodes])
        asked = snapshot.Request(job=JobId(""), wish=wish, to=NodeId(node))
        await run_in_threadpool(ask, self.folder, asked)
        return JSONResponse({"node": node, "wish": wish}, 202)

    async def events(self, request: Request) -> Response:
        caller = access.caller_of(request)
        if self.changes.listeners >= LISTENERS:
            raise BadRequest(f"{LISTENERS} clients listen already", status=429)
        if self.limits is not None and self.changes.listeners_of(caller) >= LISTENERS_OF_USER:
            raise BadRequest(f"{LISTENERS_OF_USER} clients of yours listen already", status=429)
        last = requests.integer(
            request.headers.get("last-event-id"), "Last-Event-ID", -1, 0, 2**63 - 1
        )
        ended = [] if last < 0 else await self._ended_since(last)
        found = self.changes.listen(None if last < 0 else last, caller, ended)
        return StreamingResponse(
            found, media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def _ended_since(self, event: int) -> list[JobStatus]:
        """Return the jobs that have ended since about the time of an event that is not kept any
        more.
        """
        if self.changes.has_all_since(event):
            return []
        rows = await self.store.read(lambda store: store.last(ENDED_AGAIN))
        since = event / 1000 - self.began
        return [self._status(row) for row in rows if (row.finished or 0.0) >= since - SLACK]

    async def list_jobs(self, request: Request) -> Response:
        given = request.query_params
        limit = requests.integer(given.get("limit"), "limit", requests.PAGE, 1, requests.MAX_PAGE)
        after = requests.integer(given.get("after"), "after", 0, 0, 2**63 - 1)
        state, phase = given.get("state", "all"), given.get("phase")
        if state not in STATES:
            raise BadRequest(f"one of {', '.join(STATES)} is needed", where="state")
        if phase is not None and phase not in PHASES:
            raise BadRequest(f"one of {', '.join(PHASES)} is needed", where="phase")
        wanted = phase if phase in ENDED else None
        outcomes = [o for o in STATES[state] if phase is None or o == wanted]
        rows: list[Submitted] = []
        if outcomes:
            most = MAX_ACTIVE if phase in LIVE else limit + 1
            rows = await self.store.read(lambda store: store.page(after, most, outcomes))
        listed = [(row.number, self._status(row)) for row in rows]
        found = [(number, job) for number, job in listed if phase in (None, job.phase)]
        page, caller = found[:limit], access.caller_of(request)
        return JSONResponse(
            {
                "jobs": [access.seen_by(caller, job).plain() for _, job in page],
                "next": str(page[-1][0]) if len(found) > limit else None,
            }
        )

    async def submit(self, request: Request) -> Response:
        key = request.headers.get("idempotency-key")
        if key is not None and not re.fullmatch(KEY, key):
            raise BadRequest(
                "1 to 255 printable ASCII characters are needed", where="Idempotency-Key"
            )
        most = requests.MAX_BODY if self.limits is None else requests.MAX_BODY_OF_USER
        body = await requests.read_json(request, most)
        requests.known_fields(body, "jobs", "directory", "env")
        jobs, env = requests.listed_jobs(body), requests.environment(body)
        directory = requests.text(body, "directory")
        if not directory.startswith("/"):
            raise BadRequest("an absolute path is needed", where="body.directory")
        if self.limits is None:
            made = await run_in_threadpool(check, jobs, directory, env, self.nodes)
            names, new = await self.store.add(made, key)
        else:
            owner = access.caller_of(request).owner
            self.limits.count(owner)
            quota = self.limits.quota(owner)
            made = await run_in_threadpool(check, jobs, directory, env, self.nodes, owner, quota)
            names, new = await self.limits.add(owner, made, key)
        setattr(request.state, audit.JOBS, names[: audit.MOST_JOBS])
        return JSONResponse({"jobs": names}, 201 if new else 200)

    async def get_job(self, request: Request) -> Response:
        job = await self._find(request, "list")
        return JSONResponse(access.seen_by(access.caller_of(request), job).plain())

    async def logs(self, request: Request) -> Response:
        job = await self._find(request, "logs")
        given = request.query_params
        lines = requests.integer(given.get("lines"), "lines", 1000, 0, LINES)
        replica = given.get("replica")
        if replica is not None and not re.fullmatch(REPLICA, replica):
            raise BadRequest(f"does not match {REPLICA}", where="replica")

        def read() -> list[str]:
            output = read_log(
                self.folder, job.job, replica or "", last=lines, follow=False, most=MAX_OUTPUT
            )
            return list(output)

        try:
            found = await run_in_threadpool(read)
        except ConfigError:  # it has printed nothing yet
            found = []
        return PlainTextResponse("".join(f"{line}\n" for line in found))

    async def explain(self, request: Request) -> Response:
        job = await self._find(request, "explain")
        words = [sys.executable, "-m", "headway", "explain", job.job, "--json"]
        words += ["--run", self.folder.id, "--data", str(self.folder.path.parent.parent)]
        async with self._explaining:
            try:
                ran = await run_in_threadpool(
                    subprocess.run, words, capture_output=True, timeout=EXPLAINED, check=False
                )
            except subprocess.TimeoutExpired:
                raise Unreachable(f"no explanation within {EXPLAINED:g} s", where=job.job) from None
        found = json.loads(ran.stdout)
        if not ran.returncode:
            return JSONResponse(found)
        told = found["error"]
        if told["code"] == "unknown-name" and not job.ended:  # it is not in the journal yet
            return JSONResponse({"job": job.job, "began": self.began, "known": None, "events": []})
        error = HeadwayError(told["message"], where=told["where"], hint=told["hint"])
        error.code = told["code"]
        raise error

    async def request(self, request: Request) -> Response:
        wish = request.url.path.rpartition("/")[2]
        body = await requests.read_json(request) if wish in ("move", "scale") else {}
        requests.known_fields(body, *{"move": ("to",), "scale": ("task", "count")}.get(wish, ()))
        to = NodeId(requests.text(body, "to", longest=253)) if wish == "move" else None
        task = requests.text(body, "task", longest=63) if wish == "scale" else ""
        count = requests.count(body) if wish == "scale" else None
        job = await self._find(request, wish)
        if job.ended:
            raise Refused("it has ended", where=f"job {job.job}")
        asked = snapshot.Request(job=JobId(job.job), wish=wish, to=to, task=task, count=count)
        try:
            why = await run_in_threadpool(ask, self.folder, asked)
        except UnknownName:
            if not (await self._find(request, wish)).ended:
                raise
            why = "it has ended"  # meanwhile
        if why:
            raise Refused(why, where=f"job {job.job}")
        return JSONResponse({"job": job.job, "wish": wish}, 202)

    async def _find(self, request: Request, action: str) -> JobStatus:
        """The job of a request. Raise `Denied` if its caller may not do this."""
        name = request.path_params["job"]
        if len(name) > 253 or not name.isprintable():
            raise NotFound(name)
        row = await self.store.read(lambda store: store.find(name))
        if row is None:
            raise NotFound(name, f"run {self.folder.id}")
        found = self._status(row)
        setattr(request.state, audit.JOBS, [found.job])
        access.check(access.caller_of(request), action, found)
        return found

    def _status(self, row: Submitted) -> JobStatus:
        far = len(self.jobs) >= LISTED
        return submitted_status(self.folder.id, row, self.jobs.get(row.id), self.began, far=far)


def merged(routes: list[Route]) -> list[Route]:
    """Routes of one path as one route, so that a method which none of them has is answered by 405
    and the methods of all of them.
    """
    by_path: dict[str, dict[str, Callable[[Request], Awaitable[Response]]]] = {}
    for route in routes:
        for method in route.methods or ():
            by_path.setdefault(route.path, {})[method] = route.endpoint
    return [_route(path, methods) for path, methods in by_path.items()]


def _route(path: str, methods: dict[str, Callable[[Request], Awaitable[Response]]]) -> Route:
    async def answer(request: Request) -> Response:
        return await methods[request.method](request)

    return Route(path, answer, methods=[*methods])
