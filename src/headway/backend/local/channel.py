"""Messages between scheduler and launcher: length-prefixed JSON, and file descriptors."""

import json
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

LENGTH = struct.Struct("!I")
MOST = 16 * 2**20
"""Maximum size of a message in bytes. The kernel accepts 2 MiB of arguments and environment."""
DESCRIPTORS = 1


class Ended(ConnectionError):
    """The other side has ended."""


class Channel:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        data = json.dumps(message).encode()
        if len(data) > MOST:
            raise ValueError(f"a message of {len(data)} bytes is too long")
        if descriptors:
            socket.send_fds(self.connection, [LENGTH.pack(len(data))], descriptors)
        else:
            self.connection.sendall(LENGTH.pack(len(data)))
        self.connection.sendall(data)

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """Receive a message. Raise `Ended` if the other side has ended, `ValueError` if it is
        invalid.
        """
        head, found, _, _ = socket.recv_fds(self.connection, LENGTH.size, DESCRIPTORS)
        try:
            return self._message(head), list(found)
        except BaseException:
            for each in found:
                os.close(each)
            raise

    def _message(self, head: bytes) -> dict[str, Any]:
        if not head:
            raise Ended("the other side has ended")
        size = LENGTH.unpack(head + self._exactly(LENGTH.size - len(head)))[0]
        if size > MOST:
            raise ValueError(f"a message of {size} bytes is too long")
        found = json.loads(self._exactly(size))
        if not isinstance(found, dict):
            raise ValueError("a message is an object")  # noqa: TRY004 - the text is wrong
        return found

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.connection.recv(size - len(data))
            if not part:
                raise Ended("the other side has ended")
            data += part
        return bytes(data)

    def close(self) -> None:
        self.connection.close()
