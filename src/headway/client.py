"""A client of `headway serve`, for programs of the same user, or with a token from elsewhere.

    with Client.of() as client:
        spec = {"tasks": [{"command": ["python", "train.py"]}]}
        [job] = client.submit([{"name": "train", "spec": spec}])
        for status in client.changes(job):
            print(status.phase, status.step)

It needs only the standard library. An error of the server is raised as the `HeadwayError` that the
command line would show.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from itertools import chain
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Self
from urllib.parse import quote, urlencode
from uuid import uuid4

from headway import errors
from headway.client_connection import (
    AGAIN,
    PATIENCE,
    SLOWEST,
    Connection,
    ConnectionLost,
    NoAnswer,
    answer_of,
    error_of,
    failure,
    is_busy,
)
from headway.core.model.units import Seconds
from headway.errors import ConfigError, NoServer
from headway.runtime.api_address import Address, Remote, api_address
from headway.runtime.job_status import JobStatus, from_plain
from headway.runtime.run_directory import data_folder
from headway.runtime.run_status import active_server
from headway.runtime.user_environment import environment

BASE = "/api/v1"
ASKING: Seconds = 15.0
"""Timeout of a request such as cancel. The server itself waits 10 s for its loop."""
RESTART: Seconds = 10.0
"""Time within which a server that has ended may restart."""
KEY = "[!-~]([ -~]{0,253}[!-~])?"
"""A key of a submission: 1 to 255 printable ASCII characters."""


class Client:
    """One connection, opened again if the server has closed it. For one thread at a time."""

    def __init__(
        self,
        server: Address,
        timeout: Seconds = PATIENCE,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """`server`: the folder of its run, the socket of the machine's server, or a `Remote`.
        `waiting`: called while the server is starting.
        """
        self._server, self._timeout, self._waiting = server, timeout, waiting
        self._connection: Connection | None = None

    @classmethod
    def of(cls, data: Path | None = None, *, waiting: Callable[[], None] = lambda: None) -> Self:
        """A client of the server of this data directory, `HEADWAY_SERVER` or the machine's."""
        if server := api_address(data):
            return cls(server)
        return cls(active_server(data_folder(data), waiting).path, waiting=waiting)

    def submit(
        self,
        jobs: Sequence[Mapping[str, Any]],
        *,
        directory: str | os.PathLike[str] = "",
        env: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> list[str]:
        """Submit jobs as in a workload file; return their ids. They are stored when this returns.
        `env`: variables of their environment; by default those that `headway submit` passes on,
        and none to another machine.
        `key`: a second submission with it adds nothing and returns the same ids.
        """
        if key is not None and not re.fullmatch(KEY, key):
            raise ConfigError(
                f"{errors.shown(key)} is not a key",
                hint="use 1 to 255 printable ASCII characters, without spaces around them",
            )
        remote = isinstance(self._server, Remote)
        body = {
            "jobs": list(jobs),
            "directory": os.fspath(directory) or str(Path.cwd()),
            "env": environment(own=remote) if env is None else dict(env),
        }
        key = key or uuid4().hex  # it may be sent twice
        try:
            answer = self._json("POST", "/jobs", body, {"Idempotency-Key": key})
        except (NoAnswer, ConnectionLost) as error:
            raise type(error)(
                f"{error.message}; the submission may have been stored",
                where=error.where,
                hint=f"repeat it with --key {shlex.quote(key)}, which adds nothing twice",
            ) from error
        return list(answer["jobs"])

    def jobs(self, *, state: str = "all", phase: str | None = None) -> Iterator[JobStatus]:
        """Jobs in the order of their submission; `state`: active, ended or all."""
        after: str | None = "0"
        while after is not None:
            found, after = self.page(state=state, phase=phase, limit=500, after=after)
            yield from found

    def page(
        self, *, state: str = "all", phase: str | None = None, limit: int = 100, after: str = "0"
    ) -> tuple[list[JobStatus], str | None]:
        """Return some jobs, and where the next page begins; None: there is no further page."""
        query = {"state": state, "limit": limit, "after": after} | (
            {"phase": phase} if phase else {}
        )
        page = self._json("GET", f"/jobs?{urlencode(query)}")
        return [from_plain(job) for job in page["jobs"]], page["next"]

    def job(self, job: str) -> JobStatus:
        return from_plain(self._json("GET", f"/jobs/{quote(job, safe='')}"))

    def cancel(self, job: str) -> None:
        self.request(job, "cancel")

    def pause(self, job: str) -> None:
        self.request(job, "pause")

    def resume(self, job: str) -> None:
        self.request(job, "resume")

    def move(self, job: str, to: str) -> None:
        self.request(job, "move", {"to": to})

    def scale(self, job: str, task: str, count: int) -> None:
        self.request(job, "scale", {"task": task, "count": count})

    def request(self, job: str, wish: str, body: Mapping[str, Any] | None = None) -> None:
        """cancel, pause, resume, move or scale. It is stored when this returns."""
        path = f"{BASE}/jobs/{quote(job, safe='')}/{wish}"
        try:
            self._call("POST", path, body, timeout=min(ASKING, self._timeout))
        except NoAnswer as error:
            error.hint = "its process may be stopped; it handles the request when it goes on"
            raise

    def logs(self, job: str, *, lines: int = 1000, replica: str = "") -> list[str]:
        """The last lines of the output of a replica, by default the first one."""
        query = urlencode({"lines": lines} | ({"replica": replica} if replica else {}))
        text = self._call("GET", f"{BASE}/jobs/{quote(job, safe='')}/logs?{query}").decode()
        return text.split("\n")[:-1]

    def explain(self, job: str) -> dict[str, Any]:
        """Return the facts about a job, and the decisions about it."""
        return dict(self._json("GET", f"/jobs/{quote(job, safe='')}/explain"))

    def server(self) -> dict[str, Any]:
        """Return version, run, policy and nodes of the server."""
        return dict(self._json("GET", "/server"))

    def stop(self, jobs: str = "keep") -> None:
        """End the server; its jobs continue (`keep`) or are cancelled first (`stop`)."""
        self._json("POST", "/server/stop", {"jobs": jobs})

    def drain(self, node: str) -> None:
        """Start no replicas on a node; jobs there that can be moved are moved."""
        self._json("POST", f"/nodes/{quote(node, safe='')}/drain")

    def undrain(self, node: str) -> None:
        self._json("POST", f"/nodes/{quote(node, safe='')}/undrain")

    def changes(
        self, job: str | None = None, *, patience: Seconds = RESTART
    ) -> Iterator[JobStatus]:
        """Yield each job that changes, as it changes. `job`: only this one, first as it is now,
        until it has ended. If the connection is lost, it goes on from the last event that was
        read, and ends if the server does not return within `patience`.
        """
        shown = None
        with _Events(self._server, self._timeout) as events:
            events.connect()
            while True:
                now = [] if job is None else [self.job(job)]
                for status in chain(now, events):
                    if job in (None, status.job) and status != shown:
                        shown = status
                        yield status
                    if status.job == job and status.ended:
                        return
                if not events.connect_again(patience):
                    return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        return json.loads(self._call(method, BASE + path, body, headers))

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
    ) -> bytes:
        timeout = timeout or self._timeout
        until, rest = monotonic() + timeout, AGAIN
        while True:
            answer, data = self._send(method, path, body, headers or {}, until)
            if answer.status < 400:
                return data
            if not is_busy(answer) or monotonic() + rest > until:
                raise error_of(answer, data)
            sleep(rest)
            rest = min(SLOWEST, 2 * rest)

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        until: Seconds,
    ) -> tuple[HTTPResponse, bytes]:
        kept, left = self._connection, max(AGAIN, until - monotonic())
        connection = kept or Connection(self._server, left, self._waiting)
        connection.wait_for(left)
        self._connection = None
        try:
            answer = answer_of(connection, method, path, body, headers)
            data = answer.read()
        except (OSError, HTTPException) as error:
            connection.close()
            if kept and isinstance(error, ConnectionError | HTTPException):
                return self._send(method, path, body, headers, until)  # it closed an idle one
            raise failure(error, self._server, sent=connection.connected) from error
        self._connection = connection
        return answer, data


class _Events:
    """The events of a server, until it ends or the connection is lost."""

    def __init__(self, server: Address, timeout: Seconds) -> None:
        self._server, self._last = server, ""
        self._connection = Connection(server, timeout)

    def connect(self) -> None:
        """Connect, the next time from the last event that was read."""
        self._connection.close()
        headers = {"Last-Event-ID": self._last} if self._last else {}
        try:
            self._answer = answer_of(self._connection, "GET", f"{BASE}/events", None, headers)
            if self._answer.status >= 400:
                raise error_of(self._answer, self._answer.read())
            self._answer.readline()  # from here on it misses nothing
        except (OSError, HTTPException) as error:
            raise failure(error, self._server, sent=self._connection.connected) from error

    def __enter__(self) -> Self:
        return self

    def connect_again(self, patience: Seconds) -> bool:
        """Whether it is connected; the server may be starting again."""
        until = monotonic() + patience
        while True:
            with suppress(NoServer, errors.Unreachable):
                self.connect()
                return True
            if monotonic() > until:
                return False
            sleep(AGAIN)

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def __iter__(self) -> Iterator[JobStatus]:
        number = self._last
        with suppress(OSError, HTTPException):
            for line in self._answer:
                if line.startswith(b"id: "):
                    number = line[4:].strip().decode()
                elif line.startswith(b"data: "):
                    yield from_plain(json.loads(line[6:]))
                elif not line.strip():
                    self._last = number
