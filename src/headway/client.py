"""A client of `headway serve`, for programs of the same user.

    with Client.of() as client:
        spec = {"tasks": [{"command": ["python", "train.py"]}]}
        [job] = client.submit([{"name": "train", "spec": spec}])
        for status in client.changes():
            print(status.job, status.phase, status.step)

It needs only the standard library. An error of the server is raised as the `HeadwayError` that the
command line would show.
"""

import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Self
from urllib.parse import quote, urlencode
from uuid import uuid4

from headway import errors
from headway.core.model.units import Seconds
from headway.errors import HeadwayError, NoServer
from headway.runtime.job_status import JobStatus, from_plain
from headway.runtime.run_directory import RunDirectory, data_folder
from headway.runtime.run_status import active_server

SOCKET = "api.sock"
BASE = "/api/v1"
PATIENCE: Seconds = 60.0
AGAIN: Seconds = 0.05
"""Between two tries to connect to a server that starts."""
CODES: dict[str, type[HeadwayError]] = {
    each.code: each
    for each in (errors.ConfigError, errors.BackendError, errors.Unreachable, NoServer)
}


class Client:
    """One connection, opened again if the server has closed it. For one thread at a time."""

    def __init__(self, run: Path, timeout: Seconds = PATIENCE) -> None:
        """`run`: the folder of the run of the server."""
        self._run, self._timeout = run, timeout
        self._connection: _Connection | None = None

    @classmethod
    def of(cls, data: Path | None = None) -> Self:
        """A client of the server of this data directory."""
        return cls(active_server(data_folder(data)).path)

    def submit(
        self,
        jobs: Sequence[Mapping[str, Any]],
        *,
        directory: str | os.PathLike[str] = "",
        env: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> list[str]:
        """Submit jobs as in a workload file; return their ids. They are stored when this returns.
        `key`: a second submission with it adds nothing and returns the same ids.
        """
        body = {
            "jobs": list(jobs),
            "directory": os.fspath(directory) or str(Path.cwd()),
            "env": dict(env or {}),
        }
        once = {"Idempotency-Key": key or uuid4().hex}  # it may be sent twice
        return list(self._json("POST", "/jobs", body, once)["jobs"])

    def jobs(self, *, state: str = "all", phase: str | None = None) -> Iterator[JobStatus]:
        """Jobs in the order of their submission; `state`: active, ended or all."""
        after: str | None = "0"
        while after is not None:
            found, after = self.page(state=state, phase=phase, limit=500, after=after)
            yield from found

    def page(
        self, *, state: str = "all", phase: str | None = None, limit: int = 100, after: str = "0"
    ) -> tuple[list[JobStatus], str | None]:
        """Some jobs, and where the next page begins; None: there is none."""
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
        self._json("POST", f"/jobs/{quote(job, safe='')}/{wish}", body)

    def logs(self, job: str, *, lines: int = 1000, replica: str = "") -> list[str]:
        """The last lines of the output of a replica, by default the first one."""
        query = urlencode({"lines": lines} | ({"replica": replica} if replica else {}))
        text = self._call("GET", f"{BASE}/jobs/{quote(job, safe='')}/logs?{query}").decode()
        return text.split("\n")[:-1]

    def explain(self, job: str) -> dict[str, Any]:
        """What is known of a job, and the decisions about it."""
        return dict(self._json("GET", f"/jobs/{quote(job, safe='')}/explain"))

    def server(self) -> dict[str, Any]:
        """Its version, run, policy and nodes."""
        return dict(self._json("GET", "/server"))

    def changes(self) -> Iterator[JobStatus]:
        """Yield each job that changes, as it changes, until the server ends."""
        connection = _Connection(self._run, self._timeout)
        try:
            answer = _answer(connection, "GET", f"{BASE}/events", None, {})
            for line in answer:
                if line.startswith(b"data: "):
                    yield from_plain(json.loads(line[6:]))
        except (OSError, HTTPException):
            return
        finally:
            connection.close()

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
    ) -> bytes:
        kept = self._connection is not None
        connection = self._connection or _Connection(self._run, self._timeout)
        self._connection = None
        try:
            answer = _answer(connection, method, path, body, headers or {})
            data = answer.read()
        except TimeoutError:
            connection.close()
            raise errors.Unreachable(
                f"the server has not answered within {self._timeout:g} s", where=str(self._run)
            ) from None
        except (OSError, HTTPException) as error:
            connection.close()
            if kept and isinstance(error, ConnectionError | HTTPException):
                return self._call(method, path, body, headers)  # it closed an idle connection
            raise NoServer(
                "the server does not answer", where=str(self._run), hint="headway serve"
            ) from error
        self._connection = connection
        if answer.status >= 400:
            raise _error(answer, data)
        return data


def _answer(
    connection: "_Connection",
    method: str,
    path: str,
    body: Mapping[str, Any] | None,
    headers: Mapping[str, str],
) -> HTTPResponse:
    data = None if body is None else json.dumps(body).encode()
    kind = {} if data is None else {"Content-Type": "application/json"}
    connection.request(method, path, data, {**kind, **headers})
    return connection.getresponse()


def _error(answer: HTTPResponse, data: bytes) -> HeadwayError:
    found: dict[str, Any] = {}
    with suppress(ValueError):
        found = dict(json.loads(data))
    code = str(found.get("code", "error"))
    message = str(found.get("detail", f"the server answered with status {answer.status}"))
    kind = CODES.get(code, HeadwayError)
    error = kind(message, where=str(found.get("where", "")), hint=str(found.get("hint", "")))
    error.code = code
    if code == "unknown-name":
        error.exit_code = errors.UnknownName.exit_code
    return error


class _Connection(HTTPConnection):
    def __init__(self, run: Path, timeout: Seconds) -> None:
        super().__init__("headway", timeout=timeout)
        self._run = run

    def connect(self) -> None:
        until = monotonic() + (self.timeout or PATIENCE)
        while True:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            self.sock.settimeout(self.timeout)
            try:
                with short_path(self._run) as path:
                    self.sock.connect(path)
            except (ConnectionRefusedError, FileNotFoundError):
                self.sock.close()
                if monotonic() > until or not RunDirectory(self._run).locked:
                    raise
                sleep(AGAIN)  # it is starting
            else:
                return


@contextmanager
def short_path(run: Path) -> Iterator[str]:
    """A path of the socket of a run that is short enough: at most 107 bytes."""
    folder = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)


def has_api(run: RunDirectory) -> bool:
    """Whether the process of a run has an API."""
    return (run.path / SOCKET).exists() and run.locked
