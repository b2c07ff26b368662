"""Find and remove everything that a cluster created, by process id, path and name."""

import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from headway.backend.local.enforcement.cgroupfs import clear
from testcluster import groups
from testcluster.layout import Layout, Trouble

PATIENCE = 20.0
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
CNI = Path("/var/lib/cni/results")
LOGS = Path("/var/log/containers")


def in_memory(layout: Layout) -> None:
    """Mount its directory in memory: faster to write, and removed at once."""
    words = ["mount", "-t", "tmpfs", "-o", "mode=0700", "headway-cluster", str(layout.root)]
    subprocess.run(words, check=True)


def processes(layout: Layout) -> set[int]:
    """Return processes in its cgroups, and those with its directory in their command line."""
    found = groups.processes(layout)
    mark = f"{layout.root}/".encode()
    for pid in (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()):
        with suppress(OSError):
            if mark in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(pid)
    return found - {os.getpid()}


def mounts(layout: Layout) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    there = (line.split()[1] for line in lines)
    return [m for m in there if m == str(layout.root) or m.startswith(f"{layout.root}/")]


def bridges(layout: Layout) -> list[str]:
    ours = layout.bridge(0)[:-1]
    return [p.name for p in Path("/sys/class/net").iterdir() if p.name.startswith(ours)]


def files(layout: Layout) -> list[Path]:
    """Return files that programs of the cluster write outside its directory."""
    found = list(CNI.glob(f"{layout.group}-*")) if CNI.exists() else []
    links = list(LOGS.iterdir()) if LOGS.exists() else []
    for link in links:
        with suppress(OSError):
            if link.readlink().is_relative_to(layout.root):
                found.append(link)
    for note in layout.root.glob("node-*/state/io.containerd.runtime.v2.task/*/*/address"):
        with suppress(OSError):
            found.append(Path(note.read_text().removeprefix("unix://")))
    return found


def left(layout: Layout) -> list[str]:
    """Describe what still exists; [] if nothing does."""
    there = [f"process {pid}" for pid in sorted(processes(layout))]
    there += [f"mount {m}" for m in mounts(layout)]
    there += [f"bridge {b}" for b in bridges(layout)]
    there += [f"group {g}" for g in groups.tops(layout)]
    there += [f"file {f}" for f in files(layout)]
    return there + ([f"directory {layout.root}"] if layout.root.exists() else [])


def end(layout: Layout) -> None:
    """Remove the cluster. Idempotent; works if some processes have died. It retries because a
    process can start while others are removed.
    """
    for _ in range(3):
        _end(layout)
        if not (still := left(layout)):
            return
        sleep(0.2)
    raise Trouble(f"could not be removed: {', '.join(still)}")


def _end(layout: Layout) -> None:
    until = monotonic() + PATIENCE
    while there := processes(layout):
        for pid in there:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if monotonic() > until:
            raise Trouble(f"processes survived SIGKILL: {sorted(there)}")
        sleep(0.05)
    outside = files(layout)
    _forward_as_before(layout)
    while (here := mounts(layout)) and monotonic() < until:
        for mount in reversed(here):
            subprocess.run(["umount", "--lazy", mount], check=False, stderr=subprocess.DEVNULL)
    for bridge in bridges(layout):
        subprocess.run(["ip", "link", "delete", bridge], check=False)
    clear(groups.tops(layout), patience=5.0)
    for path in outside:
        path.unlink(missing_ok=True)
    shutil.rmtree(layout.root, ignore_errors=True)


def _forward_as_before(layout: Layout) -> None:
    """Restore `ip_forward`, unless another cluster still needs it."""
    others = [p for p in layout.root.parent.glob("headway-cluster-*") if p != layout.root]
    with suppress(OSError, ValueError, KeyError):
        before = json.loads((layout.root / "cluster.json").read_text())["ip_forward"]
        if not others:
            FORWARD.write_text(before)
