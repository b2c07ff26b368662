"""Examine this machine: what Headway can use, what is missing, and what to do about it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headway.backend import procfs
from headway.backend.docker.discovery import connect, engine_targets
from headway.backend.local.enforcement.cgroup import Cgroup1, Cgroup2, Unavailable
from headway.core.model.units import Seconds
from headway.errors import HeadwayError
from headway.runtime.network_filesystem import network_mount
from headway.runtime.run_status import active_runs
from headway.runtime.targets import api

FREE = 2**30
"""Free bytes of disk below which journals and checkpoints are at risk."""
LOAD = 0.5
"""Load average per core above which measurements on this machine are unreliable."""
PATIENCE: Seconds = 5.0
"""Timeout for an answer of the cluster."""
SCOPE = "systemd-run --user --scope -p Delegate=yes headway …"


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    state: str
    """`ok`, `limited` (works with a restriction) or `missing` (an optional part is not
    available)."""
    found: str
    hint: str = ""

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def examine(data: Path) -> Iterator[Finding]:
    """Yield a finding for each part of Headway. Cluster and engine are contacted."""
    yield _machine()
    yield _shares()
    yield _disk(data)
    yield _runs(data)
    yield _docker()
    yield _kubernetes()
    yield _logout()


def _machine() -> Finding:
    cores = len(os.sched_getaffinity(0))
    memory = procfs.machine_memory() / 2**30
    load = os.getloadavg()[0]
    found = f"{cores} cores, {memory:.0f} GiB, load {load:.1f}"
    if load > LOAD * cores:
        return Finding("machine", "limited", found, "other programs use it: jobs share the rest")
    return Finding("machine", "ok", found)


def _shares() -> Finding:
    reasons = []
    for kind, name in ((Cgroup2, "cgroup v2"), (Cgroup1, "cgroup v1")):
        try:
            kind("doctor").close()
        except (Unavailable, OSError) as error:
            reasons.append(str(error))
        else:
            return Finding("CPU shares", "ok", f"{name}, by the kernel")
    found = f"nice and pacing, without a writable cgroup ({'; '.join(reasons)})"
    return Finding("CPU shares", "limited", found, f"run as root, or: {SCOPE}")


def _disk(data: Path) -> Finding:
    there = next(path for path in (data, *data.parents) if path.exists())
    free = shutil.disk_usage(there).free
    found = f"{data}, {free / 2**30:.1f} GiB free"
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        hint = "choose another: --data DIRECTORY or HEADWAY_DATA"
        return Finding("data directory", "missing", f"{data}: {error.strerror}", hint)
    if mount := network_mount(data):
        hint = "headway serve needs a directory on a local disk: HEADWAY_DATA=DIRECTORY"
        return Finding("data directory", "limited", f"{found}, on the network ({mount})", hint)
    if free < FREE:
        return Finding("data directory", "limited", found, "headway clean --older-than 30d")
    return Finding("data directory", "ok", found)


def _runs(data: Path) -> Finding:
    active = active_runs(data)
    servers = sum("server" in run.about for run in active)
    if not active:
        return Finding("runs", "ok", "none is active", "headway serve, or headway run -- COMMAND")
    found = ["a server is active"] * bool(servers)
    found += [f"{len(active) - servers} active"] * (len(active) > servers)
    return Finding("runs", "ok", ", ".join(found), "headway ps")


def _docker() -> Finding:
    try:
        engines, _ = connect(engine_targets((), None))
        [engine] = engines
        found = f"{engine.client.url}, {engine.capacity.cpu:g} cores"
        return Finding("Docker", "ok", found)
    except HeadwayError as error:
        return Finding("Docker", "missing", error.message, error.hint)


def _kubernetes() -> Finding:
    if find_spec("kubernetes") is None:
        hint = "pip install 'headway[kubernetes]'"
        return Finding("Kubernetes", "missing", "the client is not installed", hint)
    try:
        there = api()
        version = there.get("/version", timeout=PATIENCE).get("gitVersion", "")
        return Finding("Kubernetes", "ok", f"{there.url} {version}, namespace {there.namespace}")
    except HeadwayError as error:
        return Finding("Kubernetes", "missing", error.message, error.hint)


def _logout() -> Finding:
    """Return whether processes of this user outlive a logout."""
    with suppress(OSError, StopIteration):
        text = Path("/etc/systemd/logind.conf").read_text(encoding="utf-8")
        line = next(x for x in text.splitlines() if x.startswith("KillUserProcesses="))
        if line.partition("=")[2].strip().lower() in ("yes", "true", "1", "on"):
            hint = "loginctl enable-linger, or start headway serve as a service"
            return Finding("logout", "limited", "ends all processes of a user", hint)
    return Finding("logout", "ok", "jobs continue after it")
