"""What a container prints, copied into its `out.log` as it comes.

From there it is read like any other log (`metrics/reader.py`). With each line the engine tells the
time; the last one is kept in `log.EPOCH`, so that a later Headway continues after it.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

from headway.backend.docker.client import Client, Stream
from headway.errors import BackendError

HEAD = 8
"""Bytes before each piece: which stream, and how many follow."""


class LogFollower:
    """A thread that copies until the container, or the engine, has no more to say."""

    def __init__(
        self, client: Client, container: str, folder: Path, epoch: int, *, new_only: bool = False
    ) -> None:
        """`new_only`: what it printed before we came is left out."""
        self.client, self.container = client, container
        self._log, self._place = folder / "out.log", folder / f"log.{epoch}"
        self._last = self._place.read_text() if self._place.exists() else ""
        self._tail = "0" if new_only and not self._last else "all"
        self._stream: Stream | None = None
        self._closed = False
        self.over = Event()
        self.trouble = ""
        Thread(target=self._run, name=f"log {container[:12]}", daemon=True).start()

    def _run(self) -> None:
        try:
            inspected = self.client.get(f"/containers/{self.container}/json")
            raw = bool(inspected["Config"].get("Tty"))
            self._stream = self.client.stream(
                f"/containers/{self.container}/logs",
                follow=True, stdout=True, stderr=True, timestamps=True, since=since(self._last),
                tail=self._tail,
            )  # fmt: skip
            if self._closed:
                self._stream.close()
            self._copy(raw_pieces(self._stream) if raw else pieces(self._stream))
        except BackendError as error:
            self.trouble = error.message
        except OSError as error:  # our own disk is full: the job goes on, unheard
            self.trouble = str(error)
        finally:
            self.over.set()

    def _copy(self, found: Iterator[bytes]) -> None:
        log = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        place = os.open(self._place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            for piece in found:
                stamp, _, text = piece.partition(b" ")
                if stamp.decode(errors="replace") > self._last:  # the rest was copied before
                    os.write(log, text)
                    os.pwrite(place, stamp, 0)
        finally:
            os.close(log)
            os.close(place)

    def close(self) -> None:
        self._closed = True
        if self._stream is not None:
            self._stream.close()


def pieces(stream: Iterator[bytes] | Stream) -> Iterator[bytes]:
    """What was printed, piece by piece, from a stream in which each has a head."""
    rest = b""
    for chunk in stream:
        rest += chunk
        while len(rest) >= HEAD:
            size = int.from_bytes(rest[4:HEAD], "big")
            if len(rest) < HEAD + size:
                break
            yield rest[HEAD : HEAD + size]
            rest = rest[HEAD + size :]


def raw_pieces(stream: Iterator[bytes] | Stream) -> Iterator[bytes]:
    """The same for a container with a terminal: lines, as they are."""
    rest = b""
    for chunk in stream:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


def since(stamp: str) -> str | None:
    """A time as the engine tells it, in the words in which it wants to be asked.

    >>> since("1970-01-01T00:01:00.250000000Z")
    '60.250000000'
    """
    if not stamp:
        return None
    whole = datetime.fromisoformat(stamp[:19]).replace(tzinfo=UTC)
    return f"{whole.timestamp():.0f}.{stamp[20:29]}"
