"""Copy the output of a container to `out.log`.

From there it is read like any other log (`metrics/reader.py`). The engine adds a timestamp to each
line. The last timestamp is kept in the record `log.ATTEMPT`, so that a later process continues
there.
"""

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

from headway.backend.docker.client import Client, lines
from headway.errors import BackendError
from headway.metrics import job_files

HEAD = 8
"""Length of the header of a frame: stream and size."""


class LogFollower:
    """A thread that copies the output until the container exits or the connection ends."""

    def __init__(
        self,
        client: Client,
        container: str,
        folder: Path,
        position: Path,
        *,
        new_only: bool = False,
    ) -> None:
        """`position`: file of the record. `new_only`: skip earlier output."""
        self.client, self.container = client, container
        self._folder, self._position = folder, position
        self._last = self._position.read_text() if self._position.exists() else ""
        self._stream = client.stream(
            f"/containers/{container}/logs",
            follow=True, stdout=True, stderr=True, timestamps=True, since=since(self._last),
            tail="0" if new_only and not self._last else "all",
        )  # fmt: skip
        self.over = Event()
        self.error = ""
        self.reported = False
        """Whether the error was reported to users."""
        Thread(target=self._run, name=f"log {container[:12]}", daemon=True).start()

    def _run(self) -> None:
        try:
            inspected = self.client.get(f"/containers/{self.container}/json")
            raw = inspected["Config"].get("Tty")  # the output of a terminal is not framed
            self._copy(lines(self._stream) if raw else frames(self._stream))
        except (BackendError, OSError) as error:  # the disk may be full: the job continues
            self.error = str(error)
        finally:
            self.over.set()

    def _copy(self, lines: Iterator[bytes]) -> None:
        self._position.parent.mkdir(parents=True, exist_ok=True)
        self._position.touch()
        file = job_files.open_file(self._folder, "out.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with open(file, "ab", 0) as log, self._position.open("r+b", 0) as position:  # noqa: PTH123 - no path
            for line in lines:
                stamp, _, text = line.partition(b" ")
                if stamp.decode(errors="replace") > self._last:  # others were copied before
                    log.write(text)
                    position.seek(0)
                    position.write(stamp)

    def close(self) -> None:
        self._stream.close()


def frames(stream: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of each frame of a multiplexed stream."""
    rest = b""
    for chunk in stream:
        rest += chunk
        while len(rest) >= HEAD:
            size = int.from_bytes(rest[4:HEAD], "big")
            if len(rest) < HEAD + size:
                break
            yield rest[HEAD : HEAD + size]
            rest = rest[HEAD + size :]


def since(stamp: str) -> str | None:
    """Convert a timestamp of the engine to its query parameter `since`.

    >>> since("1970-01-01T00:01:00.250000000Z")
    '60.250000000'
    """
    if not stamp:
        return None
    whole = datetime.fromisoformat(stamp[:19]).replace(tzinfo=UTC)
    return f"{whole.timestamp():.0f}.{stamp[20:29]}"
