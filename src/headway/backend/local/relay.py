"""A process that simulates a network link between virtual nodes, with bandwidth and delay.

    python relay.py KEEP BANDWIDTH DELAY DESCRIPTOR:PORT...

It accepts connections on each descriptor and forwards them to the port of this machine. It exits
when the file KEEP is removed. It imports nothing of Headway, so that it starts in milliseconds.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
CHUNK = 2**16
MOST_CHUNKS = 256
"""Maximum number of chunks in the delay line of a connection."""
RETRY_S = 0.05
"""Interval between two attempts to connect to a replica, which may start later than its clients."""
CHECK_S = 0.25
"""Interval between two checks of the file KEEP."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
DelayLine = asyncio.Queue[tuple[float, bytes]]
"""Time of arrival, and data. Empty data is the end."""


@dataclass(slots=True)
class Link:
    """One direction of the link of a replica. Its connections share the bandwidth."""

    bandwidth: float
    """Bytes per second."""
    delay: float
    free_at: float = 0.0
    """Time at which all bytes so far are sent."""

    def send(self, size: int, now: float) -> float:
        """Return when this number of bytes arrives."""
        self.free_at = max(now, self.free_at) + size / self.bandwidth
        return self.free_at + self.delay


async def relay(to: int, ways: tuple[Link, Link], *client: Any) -> None:
    """Forward a connection. `ways`: the link to the replica, and back."""
    reader, writer = client
    found = await _reach(to, reader)
    if found is not None:
        towards, back = (_pump(reader, found[1], ways[0]), _pump(found[0], writer, ways[1]))
        with suppress(OSError):
            await _first_error(towards, back)
        found[1].close()
    writer.close()


async def _reach(port: int, client: asyncio.StreamReader) -> Streams | None:
    while not (client.at_eof() or client.exception()):
        with suppress(OSError):
            return await asyncio.open_connection(HOST, port)
        await asyncio.sleep(RETRY_S)
    return None


async def _first_error(*pumps: Coroutine[Any, Any, None]) -> None:
    """Wait until all have ended or one has failed."""
    tasks = [asyncio.create_task(pump) for pump in pumps]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link) -> None:
    """Forward until the sender has closed its side."""
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line: DelayLine = asyncio.Queue(MOST_CHUNKS)
    await _first_error(_accept(reader, line, link), _deliver(line, writer))


async def _accept(reader: asyncio.StreamReader, line: DelayLine, link: Link) -> None:
    clock = asyncio.get_running_loop().time
    data = b" "
    while data:
        data = await reader.read(CHUNK)
        await line.put((link.send(len(data), clock()), data))
        await asyncio.sleep(link.free_at - clock())


async def _deliver(line: DelayLine, writer: asyncio.StreamWriter) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        due, data = await line.get()
        await asyncio.sleep(due - clock())
        if not data:
            writer.write_eof()
            return
        writer.write(data)
        await writer.drain()


async def serve(keep: Path, bandwidth: float, delay: float, ports: dict[int, int]) -> None:
    """Forward until the file is removed, then exit. `ports`: target port of each descriptor."""
    for descriptor, port in ports.items():
        ways = Link(bandwidth, delay), Link(bandwidth, delay)
        listener = socket.socket(fileno=descriptor)
        await asyncio.start_server(partial(relay, port, ways), sock=listener)
    while keep.exists():  # noqa: ASYNC110, ASYNC240 - a look at a local file, four times a second
        await asyncio.sleep(CHECK_S)
    os._exit(0)  # the kernel closes the connections; asyncio prints an error for each


def main(words: list[str]) -> None:
    keep, bandwidth, delay, *pairs = words
    ports = {int(fd): int(port) for fd, port in (pair.split(":") for pair in pairs)}
    asyncio.run(serve(Path(keep), float(bandwidth), float(delay), ports))


if __name__ == "__main__":
    main(sys.argv[1:])
