"""Notify systemd that the server is ready, running or stopping (sd_notify), if systemd started
it.
"""

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from time import monotonic


class ServiceManager:
    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """Remove the variables of systemd from the environment, which the jobs inherit."""
        path, usec = environ.pop("NOTIFY_SOCKET", ""), environ.pop("WATCHDOG_USEC", "")
        mine = environ.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        self._every = int(usec) / 2e6 if usec.isdecimal() and mine else None
        self._due = 0.0

    def ready(self) -> None:
        self._tell("READY=1")

    def at_work(self) -> None:
        """Notify the watchdog, at half of its interval. Called by the loop."""
        if self._every is not None and monotonic() >= self._due:
            self._due = monotonic() + self._every
            self._tell("WATCHDOG=1")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def _tell(self, text: str) -> None:
        if self._address:
            kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
            with suppress(OSError), socket.socket(socket.AF_UNIX, kind) as made:
                made.settimeout(1.0)
                made.sendto(text.encode(), self._address)
