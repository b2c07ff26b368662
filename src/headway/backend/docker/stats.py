"""Usage of a container: from its cgroup if that is on this machine, else from the engine.

Reading a cgroup takes thirty microseconds, a request to the engine milliseconds of its CPU (see
`docs/decisions/0019-own-docker-client.md`).
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread
from typing import Any, TypeAlias

from headway.backend.docker.client import Client, objects
from headway.backend.local.enforcement.cgroup import Group1, Group2
from headway.backend.local.enforcement.cgroupfs import hierarchies
from headway.backend.usage import UsageSample
from headway.errors import BackendError


class ByGroup:
    """Reads the engine's cgroup, and never changes it."""

    over = False

    def __init__(self, group: Group1 | Group2) -> None:
        self._group = group

    def read(self, before: UsageSample | None) -> UsageSample:
        return self._group.read(before)

    def close(self) -> None:
        self._group.files.close()


class ByEngine:
    """The newest of a stream of samples, one a second. A single request takes that second too."""

    def __init__(self, client: Client, container: str) -> None:
        self._last = UsageSample()
        self._stream = client.stream(f"/containers/{container}/stats")
        self.over = False
        """Whether it has stopped measuring."""
        Thread(target=self._run, name=f"usage {container[:12]}", daemon=True).start()

    def _run(self) -> None:
        try:
            for said in objects(self._stream):
                self._last = to_sample(said)
        except BackendError:
            pass  # the container or the engine has stopped
        finally:
            self.over = True

    def read(self, before: UsageSample | None) -> UsageSample:
        del before
        return self._last

    def close(self) -> None:
        self._stream.close()


Gauge: TypeAlias = ByGroup | ByEngine


def group_of(pid: int, container: str) -> ByGroup | None:
    """The cgroup of a container with this first process; None: it is not on this machine."""
    with suppress(OSError, ValueError):
        found = [h for h in hierarchies(pid) if container in h.folder and os.path.isdir(h.folder)]
        bases = {c: h.folder for h in found for c in h.controllers if h.version == 1}
        if {"cpu", "cpuacct"} <= bases.keys():
            wanted = ("cpu", "cpuacct", "memory", "blkio")
            where = {c: os.path.dirname(f) for c, f in bases.items() if c in wanted}
            return ByGroup(Group1(where, os.path.basename(bases["cpu"])))
        for h in found:
            if h.version == 2:
                parent, name = os.path.split(h.folder)
                return ByGroup(Group2(parent, name))
    return None


def to_sample(said: Mapping[str, Any]) -> UsageSample:
    """The engine's statistics as a sample; missing fields are 0."""
    cpu, memory = said.get("cpu_stats") or {}, said.get("memory_stats") or {}
    throttling = cpu.get("throttling_data") or {}
    own = memory.get("stats") or {}
    blocks = (said.get("blkio_stats") or {}).get("io_service_bytes_recursive") or ()
    return UsageSample(
        cpu=(cpu.get("cpu_usage") or {}).get("total_usage", 0) / 1e9,
        memory=own.get("total_rss", own.get("anon", memory.get("usage", 0))),
        block_io=sum(b["value"] for b in blocks if b["op"].lower() in ("read", "write")),
        periods=throttling.get("periods", 0),
        throttled=throttling.get("throttled_periods", 0),
    )
