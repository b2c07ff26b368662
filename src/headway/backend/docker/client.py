"""A small client of the engine's HTTP API, over a Unix socket or TCP. Uses only the standard
library.

Each call opens a connection. This takes 0.1 ms on a Unix socket, and calls do not wait for each
other. An error response raises `Declined` with the engine's message; no response raises
`Unreachable`.
"""

import json
import os
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from time import sleep
from typing import Any
from urllib.parse import urlencode, urlsplit

from headway.errors import BackendError, ConfigError, Declined, Denied, Unreachable

OLDEST = (1, 41)
"""Oldest supported API version: that of Docker 20.10."""
USUAL = "unix:///var/run/docker.sock"
PATIENCE = 30.0
"""Timeout for a response, in seconds. Streams have none."""
BUSY = tuple(0.01 * 2**n for n in range(9))
"""Delays, in seconds, between attempts to connect to a socket whose backlog is full."""
HEADER = "X-Docker-Container-Path-Stat"


class _Unix(HTTPConnection):
    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("docker", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        for pause in BUSY:
            try:
                return self.sock.connect(self._path)
            except BlockingIOError:  # the backlog is full
                sleep(pause)
        return self.sock.connect(self._path)


Answer = tuple[HTTPConnection, socket.socket, HTTPResponse]


class Stream:
    """A streaming response: chunks of bytes, until the engine or `close` ends it."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self._ask, self._closed = ask, False
        self._answer: Answer | None = None

    def open(self) -> Answer:
        """Send the request, unless it was sent. Iterating does this too."""
        if self._answer is None:
            self._answer = self._ask()
            self._answer[1].settimeout(None)
            if self._closed:
                self.close()
        return self._answer

    def __iter__(self) -> Iterator[bytes]:
        connection, _, response = self.open()
        try:
            while chunk := response.read1(65536):
                yield chunk
        except (OSError, HTTPException, ValueError):
            return  # the connection was cut
        finally:
            response.close()
            connection.close()

    def close(self) -> None:
        """End the stream, from any thread, also if it is opened later."""
        self._closed = True
        if self._answer is not None:
            with suppress(OSError):
                self._answer[1].shutdown(socket.SHUT_RDWR)


class Client:
    def __init__(self, url: str) -> None:
        self.url = url
        self._prefix = ""
        parts = urlsplit(url)
        if parts.scheme not in ("unix", "tcp", "http", "https") or not (parts.netloc or parts.path):
            raise ConfigError(
                f"{url!r} is not the address of a Docker engine",
                hint="unix:///var/run/docker.sock or tcp://HOST:2375; for ssh, forward its socket",
            )
        self._parts = parts

    def hello(self) -> dict[str, Any]:
        """Negotiate the API version. Return the engine's `/version`."""
        self._prefix = ""
        try:
            said = dict(self.get("/version"))
            newest, oldest = (_version(said.get(k, "1.0")) for k in ("ApiVersion", "MinAPIVersion"))
        except (ValueError, TypeError):
            raise Unreachable(f"invalid response from {self.url}; is it a Docker engine?") from None
        if newest < OLDEST:
            raise BackendError(
                f"Docker engine at {self.url} is too old: its API version is {said['ApiVersion']}",
                hint=f"Headway needs {OLDEST[0]}.{OLDEST[1]} or later, which is Docker 20.10",
            )
        agreed = max(OLDEST, oldest)
        self._prefix = f"/v{agreed[0]}.{agreed[1]}"
        return said

    def get(self, path: str, **query: object) -> Any:
        return self.call("GET", path, query)

    def find(self, path: str) -> Any:
        """Like `get`; None: the object does not exist."""
        try:
            return self.get(path)
        except Declined as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None

    def post(self, path: str, body: object = None, **query: object) -> Any:
        return self.call("POST", path, query, body)

    def delete(self, path: str, **query: object) -> None:
        self.call("DELETE", path, query)

    def call(self, method: str, path: str, query: Mapping[str, Any], body: object = None) -> Any:
        """Make a call. Return the response as plain data; None: it is empty."""
        with self._open(method, path, query, body) as response:
            text = response.read()
        kind = response.headers.get("Content-Type", "")
        return json.loads(text) if text and "json" in kind else None

    def stream(self, path: str, **query: object) -> Stream:
        return Stream(lambda: self._ask("GET", path, query, None))

    def stat(self, container: str, path: str) -> str:
        """Return metadata of a file in a container, which change with the file; "": not found."""
        where = f"/containers/{container}/archive"
        try:
            with self._open("HEAD", where, {"path": path}, None) as response:
                return str(response.headers.get(HEADER, ""))
        except Declined as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return ""

    def fetch(self, container: str, path: str) -> AbstractContextManager[HTTPResponse]:
        """Return a file or folder of a container as a tar stream."""
        return self._open("GET", f"/containers/{container}/archive", {"path": path}, None)

    def put(self, container: str, data: bytes, path: str) -> None:
        """Extract a tar file into a container."""
        self.call("PUT", f"/containers/{container}/archive", {"path": path}, data)

    @contextmanager
    def _open(
        self, method: str, path: str, query: Mapping[str, Any], body: object
    ) -> Iterator[HTTPResponse]:
        connection, _, response = self._ask(method, path, query, body)
        try:
            yield response
        except (OSError, HTTPException) as error:
            raise self._silent(error) from None
        finally:
            connection.close()

    def _ask(self, method: str, path: str, query: Mapping[str, Any], body: object) -> Answer:
        connection = self._connection(PATIENCE)
        words = urlencode({k: _word(v) for k, v in query.items() if v is not None})
        kind = "application/x-tar" if isinstance(body, bytes) else "application/json"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(
                method,
                f"{self._prefix}{path}" + (f"?{words}" if words else ""),
                body=data,
                headers={"Content-Type": kind} if data is not None else {},
            )
            line = connection.sock
            response = connection.getresponse()
            declined = _reason(response) if response.status >= 400 else ""
        except (OSError, HTTPException) as error:
            connection.close()
            raise self._silent(error) from None
        if declined:
            connection.close()
            raise Declined(declined, status=response.status, where=self.url)
        return connection, line, response

    def _connection(self, timeout: float) -> HTTPConnection:
        parts = self._parts
        if parts.scheme == "unix":
            return _Unix(parts.netloc + parts.path, timeout)
        host, verify = parts.hostname or "localhost", os.environ.get("DOCKER_TLS_VERIFY")
        if parts.scheme == "https" or verify:
            return HTTPSConnection(host, parts.port or 2376, timeout=timeout, context=_trust())
        return HTTPConnection(host, parts.port or 2375, timeout=timeout)

    def _silent(self, error: Exception) -> BackendError:
        """Return an error that describes why there was no response."""
        if isinstance(error, PermissionError):
            return Denied(
                f"permission denied: {self.url}",
                hint="add your user to the group `docker` (usermod -aG docker USER, then log in "
                "again), or run as root",
            )
        if isinstance(error, HTTPException):
            return Unreachable(f"invalid response from {self.url}; is it a Docker engine?")
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Unreachable(
            f"no Docker engine answers at {self.url}: {why}",
            hint="start it (systemctl start docker), or name another: DOCKER_HOST, --engine",
        )


def lines(stream: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream with their line ends. The last line may have none."""
    rest = b""
    for chunk in stream:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


def objects(stream: Stream) -> Iterator[dict[str, Any]]:
    """Return the objects of a stream, one per line. An incomplete line is dropped."""
    return (json.loads(x) for x in lines(stream) if x.strip() and x.endswith(b"\n"))


def _trust() -> ssl.SSLContext:
    """Load the certificates from where the `docker` command looks for them."""
    folder = Path(os.environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
    try:
        trust = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        trust.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    except OSError as error:
        raise ConfigError(
            f"the certificates for Docker cannot be read: {error.strerror}",
            where=str(folder),
            hint="put ca.pem, cert.pem and key.pem into DOCKER_CERT_PATH",
        ) from None
    return trust


def _reason(response: HTTPResponse) -> str:
    text = response.read().decode(errors="replace").strip()
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text or f"{response.status} {response.reason}"


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
