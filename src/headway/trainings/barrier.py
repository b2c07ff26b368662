"""Wait until all workers of `TF_CONFIG` have started.

TensorFlow waits for them for minutes, in a call in which Python cannot act. Here each worker
listens on its own address, and calls all others, before TensorFlow uses these addresses.
"""

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread
from time import monotonic

from headway.trainings.parameter_server.roles import listen
from headway.trainings.stop import Stop

RETRY_S = 0.1
"""Interval between two calls to the same worker."""
ANSWER_S = 5.0
"""Timeout for the answer of a worker."""


class Barrier:
    def __init__(self, environment: Mapping[str, str]) -> None:
        config = json.loads(environment.get("TF_CONFIG") or "{}")
        self._addresses = list(config.get("cluster", {}).get("worker", ["127.0.0.1:0"]))
        self._own = int(config.get("task", {}).get("index", 0))
        self._called, self._heard = {self._own}, {self._own}

    def wait(self, stop: Stop, timeout: float) -> str:
        """Return why not all workers have met; "": they have."""
        host, port = self._address(self._own)
        try:
            listener = listen((host, port))
        except OSError as error:
            return f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}"
        answers = Thread(target=self._answer, args=(listener,))
        answers.start()
        try:
            return self._call_all(stop, timeout)
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # ends `accept`
            answers.join()
            listener.close()

    def _call_all(self, stop: Stop, timeout: float) -> str:
        end = monotonic() + timeout
        while self._missing:
            if stop.requested:
                return "stopped"
            if monotonic() > end:
                return f"{', '.join(self._missing)} did not join within {timeout:g} s"
            for index in set(range(len(self._addresses))) - self._called:
                self._call(index)
            stop.wait(RETRY_S)
        return ""

    @property
    def _missing(self) -> list[str]:
        """Both must have called each other: from then on, neither needs the other's listener."""
        met = self._called & self._heard
        return [f"worker-{i}" for i in range(len(self._addresses)) if i not in met]

    def _address(self, index: int) -> tuple[str, int]:
        host, _, port = self._addresses[index].rpartition(":")
        return host, int(port)

    def _call(self, index: int) -> None:
        with (
            suppress(OSError),
            socket.create_connection(self._address(index), timeout=ANSWER_S) as other,
        ):
            other.sendall(self._own.to_bytes(4, "big"))
            if other.recv(1):
                self._called.add(index)

    def _answer(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(ANSWER_S)
                    index = int.from_bytes(connection.recv(4), "big")
                    connection.sendall(b"!")
                    self._heard.add(index)
