"""Find a server outside the data directory of the user: the server of the machine, which all users
share (`headway serve --system`), or a server with a URL.
"""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import AF_UNIX, socket
from stat import S_IMODE
from typing import Self

from headway import private_files
from headway.errors import ConfigError
from headway.runtime.run_directory import RunDirectory, data_folder
from headway.runtime.run_status import find_server

SOCKET = Path("/run/headway/headway.sock")
DATA = Path("/var/lib/headway")
VARIABLE = "HEADWAY_SYSTEM"
"""Path of the socket of the machine's server, for commands that must use it."""
URL, TOKEN, TOKEN_FILE = "HEADWAY_SERVER", "HEADWAY_TOKEN", "HEADWAY_TOKEN_FILE"
"""Variables for a server with a URL."""
CA_FILE, INSECURE = "HEADWAY_CA_FILE", "HEADWAY_INSECURE"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Remote:
    """A server over TCP (`headway serve --listen`)."""

    host: str
    port: int
    token: str = field(repr=False)
    tls: bool = True
    ca: str = ""
    """File with trusted certificates; "": those of the system."""

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    @classmethod
    def of_environment(cls, url: str) -> Self:
        """Return the server of `HEADWAY_SERVER` and the other variables."""
        from urllib.parse import urlsplit  # noqa: PLC0415 - 5 ms that other commands do not need

        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise ConfigError(f"{url!r} is not a URL", where=URL, hint=f"{URL}=https://HOST:PORT")
        tls = parts.scheme == "https"
        if not tls and parts.hostname not in LOOPBACK and not os.environ.get(INSECURE):
            raise ConfigError(
                "without TLS, the token crosses the network in clear text",
                where=f"{URL}={url}",
                hint=f"use https, or {INSECURE}=1 if the network itself is trusted",
            )
        ca = os.environ.get(CA_FILE, "")
        return cls(parts.hostname, port or (443 if tls else 80), _token(), tls, ca)


Address = Path | Remote
"""Run directory of a server, socket of the machine's server, or URL of a server."""


def api_address(data: Path | None) -> Address | None:
    """Return the server that a command uses through its API; None: the command uses the runs of the
    user. `data`: option `--data` of the command. An active run or server of the user has precedence
    over the machine's server.
    """
    if url := os.environ.get(URL):
        return Remote.of_environment(url)
    if named := os.environ.get(VARIABLE):
        return Path(named)
    if data is not None or not SOCKET.is_socket():
        return None
    own = RunDirectory.all(data_folder())
    return None if any(run.locked for run in own) else SOCKET


def server_here(data: Path) -> bool:
    """Return whether a server of this data directory, or of the machine, is active."""
    own = find_server(data)
    if own is not None and own.locked:
        return True
    with suppress(OSError), socket(AF_UNIX) as probe:
        probe.connect(os.environ.get(VARIABLE) or str(SOCKET))
        return True
    return False


def _token() -> str:
    """Return the token. It is never read from a command line, which other users can see."""
    if given := os.environ.get(TOKEN):
        return given.strip()
    named = os.environ.get(TOKEN_FILE)
    if not named:
        raise ConfigError(
            f"{URL} needs a token",
            hint=f"{TOKEN_FILE}=FILE; headway token create NAME creates one, on the server",
        )
    path = Path(named)
    if S_IMODE(path.stat().st_mode) & private_files.OTHERS:
        raise ConfigError("other users can read this token", where=named, hint=f"chmod 600 {named}")
    return path.read_text(encoding="utf-8").strip()
