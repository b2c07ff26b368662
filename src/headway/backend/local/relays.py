"""Relay processes, one for each distributed job, if a link between the nodes is declared.

The file `relays/PORT` in the run directory contains the job. A relay exits when its file is
removed, so that the next Headway process can end it.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

from headway.backend import durable
from headway.backend.local import relay
from headway.core.model.units import JobId
from headway.spec.link import LinkSpec


class Relays:
    def __init__(self, run: Path, link: LinkSpec) -> None:
        self._run, self._link = run, link
        self._files = {JobId(p.read_text()): p for p in sorted((run / "relays").glob("*"))}
        self._children: dict[JobId, subprocess.Popen[bytes]] = {}

    def start(self, job: JobId, first: int, count: int) -> None:
        """Forward the `count` ports that follow to the first `count` ports of the job."""
        keep, child = self._run / "relays" / str(first), self._children.get(job)
        if self._files.get(job) == keep and (child is None or child.poll() is None):
            return  # it runs already
        self.stop(job)
        bandwidth = self._link.bandwidth or float("inf")
        with ExitStack() as listeners:
            pairs = {}
            for port in range(first, first + count):
                made = socket.create_server((relay.HOST, port + count))
                pairs[listeners.enter_context(made).fileno()] = port
            durable.make(keep.parent)
            keep.write_text(job)
            self._files[job] = keep
            self._children[job] = subprocess.Popen(
                [sys.executable, "-ISu", relay.__file__, str(keep), str(bandwidth),
                 str(self._link.delay_s), *(f"{fd}:{port}" for fd, port in pairs.items())],
                pass_fds=pairs,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "HEADWAY_DIR": str(self._run)},
                cwd="/",
                start_new_session=True,
            )  # fmt: skip

    def stop(self, job: JobId) -> None:
        if keep := self._files.pop(job, None):
            keep.unlink(missing_ok=True)
        if child := self._children.pop(job, None):
            child.kill()
            child.wait()

    def keep(self, running: Collection[JobId]) -> None:
        """Stop the relays of all other jobs."""
        for job in [name for name in self._files if name not in running]:
            self.stop(job)
