"""Connections of the client to `headway serve`, by a Unix socket or TCP: one answer, its errors."""

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from headway import errors
from headway.core.model.units import Seconds
from headway.errors import ConfigError, HeadwayError, NoServer
from headway.runtime.api_address import CA_FILE, URL, Address, Remote
from headway.runtime.run_directory import RunDirectory

SOCKET = "api.sock"
PATIENCE: Seconds = 60.0
AGAIN: Seconds = 0.05
"""First pause before another attempt if the server is starting or has too many clients; doubled
each time.
"""
SLOWEST: Seconds = 1.0
CODES: dict[str, type[HeadwayError]] = {
    each.code: each
    for each in (ConfigError, errors.BackendError, errors.Unreachable, errors.Denied, NoServer)
}


class NoAnswer(errors.Unreachable):
    """The server has the request, and may handle it."""


class ConnectionLost(NoServer):
    """The server has ended, and may have handled the request before."""


def failure(error: Exception, server: Address, *, sent: bool) -> HeadwayError:
    """`sent`: the server may have the request."""
    where, start = str(server), "headway serve"
    if isinstance(server, Path) and not server.is_dir():
        start = "sudo headway serve --system"
    if isinstance(server, Remote):
        start = f"headway serve --listen on that machine; {URL} says which"
        if type(error).__name__ == "SSLCertVerificationError":
            return errors.Denied(
                f"the certificate of the server is not trusted: {error}",
                where=where,
                hint=f"{CA_FILE}=FILE names the certificates to trust",
            )
    if isinstance(error, TimeoutError | BlockingIOError):
        if sent:
            return NoAnswer("the server has not answered in time", where=where)
        return errors.Unreachable("the server has too many clients", where=where)
    if sent:
        return ConnectionLost("the server has ended", where=where, hint=start)
    return NoServer("the server does not answer", where=where, hint=start)


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
        connection.request(method, path, data, {**connection.headers, **kind, **headers})
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
    def __init__(
        self, server: Address, timeout: Seconds, waiting: Callable[[], None] = lambda: None
    ) -> None:
        """`waiting`: called while the server is starting."""
        self._server, self.connected, self._waiting = server, False, waiting
        self.headers: dict[str, str] = {}
        """Timeout of each request."""
        if isinstance(server, Remote):
            super().__init__(server.host, server.port, timeout=timeout)
            self.headers["Authorization"] = f"Bearer {server.token}"
        else:
            super().__init__("headway", timeout=timeout)

    def wait_for(self, timeout: Seconds) -> None:
        """Wait at most so long for the next answer."""
        self.timeout = timeout
        if self.sock is not None:
            self.sock.settimeout(timeout)

    def connect(self) -> None:
        self.connected = False
        if isinstance(self._server, Remote):
            self.sock = _connected(self._server, self.timeout)
            self.connected = True
        else:
            self._connect_unix(self._server)

    def _connect_unix(self, run: Path) -> None:
        until, rest = monotonic() + (self.timeout or PATIENCE), AGAIN
        while True:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            self.sock.settimeout(self.timeout)
            try:
                with short_path(run) as path:
                    self.sock.connect(path)
            except OSError as error:
                self.sock.close()
                starting = isinstance(error, ConnectionRefusedError | FileNotFoundError)
                if starting and not RunDirectory(run).locked:
                    raise
                if not (starting or isinstance(error, BlockingIOError)) or monotonic() > until:
                    raise
                if starting:
                    self._waiting()
                sleep(rest)  # it is starting, or others wait to be accepted
                rest = min(SLOWEST, 2 * rest)
            else:
                self.connected = True
                return


def _connected(server: Remote, timeout: Seconds | None) -> socket.socket:
    made = socket.create_connection((server.host, server.port), timeout)
    if not server.tls:
        return made
    import ssl  # noqa: PLC0415 - 10 ms that a Unix socket does not need

    try:
        trusted = ssl.create_default_context(cafile=server.ca or None)
        return trusted.wrap_socket(made, server_hostname=server.host)
    except BaseException:
        made.close()
        raise


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
