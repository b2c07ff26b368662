"""Usage of a container: from its cgroup if it is on this machine, else from the engine.

Reading a cgroup takes 30 µs; a request takes milliseconds of the engine's CPU
(`docs/decisions/0019-own-docker-client.md`).
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from typing import Any, TypeAlias

from headway.backend.docker.client import Client, objects
from headway.backend.local.enforcement.cgroup import Group1, Group2
from headway.backend.local.enforcement.cgroupfs import hierarchies
from headway.backend.usage import UsageSample
from headway.errors import BackendError


class ByGroup:
    """Reads the cgroup of a container, and never changes it."""

    over = False

    def __init__(self, group: Group1 | Group2, pid: int = 0) -> None:
        self._group, self._pid = group, pid

    def read(self, before: UsageSample | None) -> UsageSample:
        sample = self._group.read(before)
        return replace(sample, network_io=before.network_io if before else network_io(self._pid))

    def close(self) -> None:
        self._group.files.close()


class ByEngine:
    """Reads a stream of samples, one a second. A single request would take a second too."""

    def __init__(self, client: Client, container: str) -> None:
        self._last = UsageSample()
        self._stream = client.stream(f"/containers/{container}/stats")
        self.over = False
        """Whether the stream has ended."""
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
    """Return the cgroup of a container with this first process; None: it is on another machine."""
    with suppress(OSError, ValueError):
        found = [h for h in hierarchies(pid) if container in h.folder and os.path.isdir(h.folder)]
        bases = {c: h.folder for h in found for c in h.controllers if h.version == 1}
        if {"cpu", "cpuacct"} <= bases.keys():
            wanted = ("cpu", "cpuacct", "memory", "blkio")
            where = {c: os.path.dirname(f) for c, f in bases.items() if c in wanted}
            return ByGroup(Group1(where, os.path.basename(bases["cpu"])), pid)
        for h in found:
            if h.version == 2:
                parent, name = os.path.split(h.folder)
                return ByGroup(Group2(parent, name), pid)
    return None


def network_io(pid: int) -> int | None:
    """Return the bytes received and sent in the network namespace of a process; None: it is the
    namespace of Headway (`--network host`), or the process has exited.
    """
    with suppress(OSError):
        own, its = (os.stat(f"/proc/{who}/ns/net").st_ino for who in ("self", pid))
        if own != its:
            with open(f"/proc/{pid}/net/dev", encoding="ascii") as file:
                return interface_bytes(file)
    return None


def interface_bytes(lines: Iterable[str]) -> int | None:
    """Return the bytes received and sent, from lines of `/proc/PID/net/dev`, without the loopback
    device; None: there is no other interface.
    """
    named = [line.split(":") for line in lines if ":" in line]
    counts = [text.split() for name, text in named if name.strip() != "lo"]
    return sum(int(c[0]) + int(c[8]) for c in counts) if counts else None


def to_sample(said: Mapping[str, Any]) -> UsageSample:
    """Convert statistics of the engine to a sample. Missing fields are 0."""
    cpu, memory = said.get("cpu_stats") or {}, said.get("memory_stats") or {}
    throttling = cpu.get("throttling_data") or {}
    own = memory.get("stats") or {}
    networks = said.get("networks")
    blocks = (said.get("blkio_stats") or {}).get("io_service_bytes_recursive") or ()
    return UsageSample(
        cpu=(cpu.get("cpu_usage") or {}).get("total_usage", 0) / 1e9,
        memory=own.get("total_rss", own.get("anon", memory.get("usage", 0))),
        block_io=sum(b["value"] for b in blocks if b["op"].lower() in ("read", "write")),
        network_io=None
        if networks is None
        else sum(n["rx_bytes"] + n["tx_bytes"] for n in networks.values()),
        periods=throttling.get("periods", 0),
        throttled=throttling.get("throttled_periods", 0),
    )
