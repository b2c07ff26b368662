"""Messages between a parameter server and its workers: a JSON head and a body of bytes."""

import json
import socket
import struct
from collections.abc import Callable
from typing import Any

SIZES = struct.Struct("!IQ")
"""Lengths of head and body."""
MAX_HEAD, MAX_BODY = 2**20, 2**32
POLL_S = 0.1
"""Longest delay until a process that waits for a message notices a request to stop."""

Head = dict[str, Any]
Bytes = bytes | bytearray | memoryview


class Closed(ConnectionError):
    """The other side has closed the connection, or does not speak this protocol."""


def send(to: socket.socket, head: Head, body: Bytes = b"") -> None:
    """Send at once: small packets that wait for others would delay every step."""
    to.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    text = json.dumps(head).encode()
    to.sendall(SIZES.pack(len(text), len(body)) + text)
    to.sendall(body)


def receive(
    source: socket.socket, waits: Callable[[], bool] = lambda: True
) -> tuple[Head, bytearray]:
    """Return the next message. `waits`: asked while nothing arrives, if the socket has a timeout;
    when it returns False, this raises TimeoutError.
    """
    head, body = SIZES.unpack(_exactly(source, SIZES.size, waits))
    if head > MAX_HEAD or body > MAX_BODY:
        raise Closed("invalid message")
    try:
        plain = json.loads(_exactly(source, head, waits))
    except ValueError as error:
        raise Closed("invalid message") from error
    if not isinstance(plain, dict):
        raise Closed("invalid message")
    return plain, _exactly(source, body, waits)


def is_closed(connection: socket.socket) -> bool:
    """Return whether the other side has closed it; for one that should be silent now."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _exactly(source: socket.socket, count: int, waits: Callable[[], bool]) -> bytearray:
    found = bytearray(count)
    view, filled = memoryview(found), 0
    while filled < count:
        try:
            got = source.recv_into(view[filled:])
        except TimeoutError:
            if not waits():
                raise
            continue
        if not got:
            raise Closed("connection closed")
        filled += got
    return found
