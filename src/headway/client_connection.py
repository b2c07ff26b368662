"""Connections of the client to `headway serve`: a Unix socket, one answer, and its errors."""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from headway import errors
from headway.core.model.units import Seconds
from headway.errors import ConfigError, HeadwayError, NoServer
from headway.runtime.run_directory import RunDirectory

SOCKET = "api.sock"
PATIENCE: Seconds = 60.0
AGAIN: Seconds = 0.05
"""Between two tries to reach a server that starts or has too many clients; doubled each time."""
SLOWEST: Seconds = 1.0
CODES: dict[str, type[HeadwayError]] = {
    each.code: each
    for each in (ConfigError, errors.BackendError, errors.Unreachable, errors.Denied, NoServer)
}


class NoAnswer(errors.Unreachable):
    """The server has the request, and may handle it."""


class ConnectionLost(NoServer):
    """The server has ended, and may have handled the request before."""


def failure(error: Exception, where: str, *, sent: bool) -> HeadwayError:
    """`sent`: the server may have the request."""
    if isinstance(error, TimeoutError | BlockingIOError):
        if sent:
            return NoAnswer("the server has not answered in time", where=where)
        return errors.Unreachable("the server has too many clients", where=where)
    if sent:
        return ConnectionLost("the server has ended", where=where, hint="headway serve")
    return NoServer("the server does not answer", where=where, hint="headway serve")


def answer_of(
    connection: "Connection",
    method: str,
    path: str,
    body: Mapping[str, Any] | None,
    headers: Mapping[str, str],
) -> HTTPResponse:
    data = None if body is None else json.dumps(body).encode()
    kind = {} if data is None else {"Content-Type": "application/json"}
    with suppress(BrokenPipeError):  # it has answered before it has read all
        connection.request(method, path, data, {**kind, **headers})
    return connection.getresponse()


def is_busy(answer: HTTPResponse) -> bool:
    """Whether the server has more clients than it can serve, and has not read the request."""
    kind = answer.headers.get_content_type()
    return answer.status == 503 and kind != "application/problem+json"


def error_of(answer: HTTPResponse, data: bytes) -> HeadwayError:
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


class Connection(HTTPConnection):
    def __init__(self, run: Path, timeout: Seconds) -> None:
        super().__init__("headway", timeout=timeout)
        self._run, self.connected = run, False

    def wait_for(self, timeout: Seconds) -> None:
        """Wait at most so long for the next answer."""
        self.timeout = timeout
        if self.sock is not None:
            self.sock.settimeout(timeout)

    def connect(self) -> None:
        until, rest = monotonic() + (self.timeout or PATIENCE), AGAIN
        self.connected = False
        while True:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            self.sock.settimeout(self.timeout)
            try:
                with short_path(self._run) as path:
                    self.sock.connect(path)
            except OSError as error:
                self.sock.close()
                starting = isinstance(error, ConnectionRefusedError | FileNotFoundError)
                if starting and not RunDirectory(self._run).locked:
                    raise
                if not (starting or isinstance(error, BlockingIOError)) or monotonic() > until:
                    raise
                sleep(rest)  # it is starting, or others wait to be accepted
                rest = min(SLOWEST, 2 * rest)
            else:
                self.connected = True
                return


@contextmanager
def short_path(run: Path) -> Iterator[str]:
    """A path of the socket of a run that is short enough: at most 107 bytes."""
    if run.is_socket():
        yield str(run)
        return
    folder = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)


def has_api(run: RunDirectory) -> bool:
    """Whether the process of a run has an API."""
    return (run.path / SOCKET).exists() and run.locked
