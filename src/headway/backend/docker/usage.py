"""What a container has used: from its control group where that is on this machine, else by the
engine. A group costs some ten microseconds to read, the engine milliseconds of its own CPU (see
`docs/decisions/0019-own-docker-client.md`).
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Protocol

from headway.backend.docker.client import Client
from headway.backend.local.cgroup import Group1, Group2
from headway.backend.local.hierarchy import hierarchies
from headway.backend.sample import Sample
from headway.core.units import Seconds

EVERY: Seconds = 1.0
"""Between two questions to the engine about the same container."""


class Gauge(Protocol):
    def read(self, before: Sample | None) -> Sample: ...
    def close(self) -> None: ...


class ByGroup:
    """Reads only: the group is the engine's."""

    def __init__(self, group: Group1 | Group2) -> None:
        self._group = group

    def read(self, before: Sample | None) -> Sample:
        return self._group.read(before)

    def close(self) -> None:
        self._group.files.close()


class ByEngine:
    """The last that the engine told; it is asked again beside the loop."""

    def __init__(self, ask: Callable[[Callable[[Sample], None]], None]) -> None:
        self._ask, self._last, self._due = ask, Sample(), 0.0

    def read(self, before: Sample | None) -> Sample:
        del before
        if monotonic() >= self._due:
            self._due = monotonic() + EVERY
            self._ask(self._take)
        return self._last

    def _take(self, sample: Sample) -> None:
        self._last = sample

    def close(self) -> None:
        pass


def group_of(pid: int, container: str) -> ByGroup | None:
    """The control group of a container whose first process has this number; None: not here."""
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


def stats(client: Client, container: str) -> Sample:
    path = f"/containers/{container}/stats"
    return to_sample(client.call("GET", path, {"stream": False, "one-shot": True}))


def to_sample(said: Mapping[str, Any]) -> Sample:
    """The engine's statistics as a sample; what it leaves out is 0."""
    cpu, memory = said.get("cpu_stats") or {}, said.get("memory_stats") or {}
    throttling = cpu.get("throttling_data") or {}
    own = memory.get("stats") or {}
    blocks = (said.get("blkio_stats") or {}).get("io_service_bytes_recursive") or ()
    return Sample(
        cpu=(cpu.get("cpu_usage") or {}).get("total_usage", 0) / 1e9,
        memory=own.get("total_rss", own.get("anon", memory.get("usage", 0))),
        block_io=sum(b["value"] for b in blocks if b["op"].lower() in ("read", "write")),
        periods=throttling.get("periods", 0),
        throttled=throttling.get("throttled_periods", 0),
    )
