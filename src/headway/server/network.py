"""The API over TCP: its address, its bounds, and what a request must have before it is read."""

import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from starlette.types import ASGIApp, Receive, Scope, Send

from headway.errors import ConfigError
from headway.server.problems import problem

CONNECTIONS = 256
"""Maximum number of connections, including those that have not completed the TLS handshake."""
CLIENT = "client_identity"
"""Key of a request for the owner of its token."""
OPEN = frozenset({"/healthz", "/readyz"})
"""Paths that need no token."""
Identify = Callable[[str], Any]
"""Returns the owner of a token; None: it is not known."""
Note = Callable[[Scope, int], None]
"""Notes a denied request and the status of its answer."""


@dataclass(frozen=True, slots=True)
class Network:
    """Address at which the API listens besides its Unix socket."""

    host: str
    port: int
    context: ssl.SSLContext | None = None
    """TLS context; None: without TLS."""
    names: frozenset[str] = frozenset()
    """Names by which clients know this machine."""

    @classmethod
    def of(
        cls,
        listen: str,
        certificate: Path | None = None,
        key: Path | None = None,
        *,
        insecure: bool = False,
        names: Iterable[str] = (),
    ) -> Self:
        """Raise `ConfigError` if this address would send tokens over a network in clear text."""
        host, port = _split(listen)
        if (certificate is None) != (key is None):
            raise ConfigError("--tls-cert and --tls-key are needed both")
        if certificate is None and not insecure and not _is_loopback(host, port):
            raise ConfigError(
                "without TLS, tokens and jobs cross the network in clear text",
                where=f"--listen {listen}",
                hint="--tls-cert FILE --tls-key FILE; --insecure if the network itself is trusted",
            )
        context = _context(certificate, key) if certificate and key else None
        own = {"localhost", socket.gethostname(), socket.getfqdn(), host, *names}
        return cls(host, port, context, frozenset(name.lower() for name in own if name))

    def url(self, port: int) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.context else 'http'}://{host}:{port}"


class BoundedSocket(socket.socket):
    """Closes connections beyond the maximum at once. A client that never completes its handshake
    uses a descriptor, and uvicorn does not know it.
    """

    _open: frozenset[socket.socket] = frozenset()

    def accept(self) -> tuple[socket.socket, Any]:
        made, address = super().accept()
        self._open = frozenset(each for each in self._open if each.fileno() >= 0)
        if len(self._open) >= CONNECTIONS:
            made.close()
            raise ConnectionAbortedError
        self._open |= {made}
        return made, address


def listen(host: str, port: int) -> BoundedSocket:
    """Return a listening socket. `port` 0: any port. Raise `OSError` if the port is in use."""
    family, kind, protocol, _, address = _resolve(host, port)
    made = BoundedSocket(family, kind | socket.SOCK_CLOEXEC, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(CONNECTIONS)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


class Guarded:
    """Refuses a request before its body is read: of an unknown token, and of a web page, which a
    browser on this machine would send for any site.
    """

    def __init__(self, app: ASGIApp, identify: Identify, names: frozenset[str], note: Note) -> None:
        self._app, self._identify, self._names, self._note = app, identify, names, note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not self._is_own(host):
            answer = problem(
                421, "denied", f"the Host {host[:100]!r} is not a name of this server",
                hint="headway serve --allow-host NAME",
            )  # fmt: skip
        elif origin and origin != f"{scope['scheme']}://{host}":
            answer = problem(403, "denied", "requests of other web sites are refused")
        elif (client := self._client(headers)) is None and scope["path"] not in OPEN:
            answer = problem(
                401, "denied", "a token is needed that the server knows",
                hint="headway token create NAME, where the server runs",
                headers={"WWW-Authenticate": "Bearer"},
            )  # fmt: skip
        else:
            scope["state"] = {**scope.get("state", {}), CLIENT: client}
            await self._app(scope, receive, send)
            return
        self._note(scope, answer.status_code)
        await answer(scope, receive, send)

    def _is_own(self, host: str) -> bool:
        name = host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]
        return name.lower() in self._names or _is_address(name)

    def _client(self, headers: Mapping[bytes, bytes]) -> Any:
        kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        return self._identify(token.strip()) if kind.lower() == "bearer" else None


def _is_address(name: str) -> bool:
    """A page of another site can give a name of its own to this machine, but not an address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _split(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(
            f"{listen!r} is not an address", where="--listen", hint="--listen 127.0.0.1:8443"
        )
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - needs TLS


def _resolve(host: str, port: int) -> tuple[Any, ...]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ConfigError(f"{host!r} is not known: {error.strerror}", where="--listen") from None


def _is_loopback(host: str, port: int) -> bool:
    return ip_address(_resolve(host, port)[4][0].partition("%")[0]).is_loopback


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    for path in (certificate, key):
        path.open("rb").close()  # the error of OpenSSL does not name the file
    try:
        made.load_cert_chain(certificate, key, password=lambda: b"")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"certificate and key cannot be used: {error}",
            where=f"{certificate}, {key}",
            hint="PEM files that belong together; the key has no password",
        ) from None
    return made
