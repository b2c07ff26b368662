"""Cgroups of a cluster: one with a higher weight for its own programs, and one for each node."""

from contextlib import suppress
from pathlib import Path

from headway.backend.local.enforcement.cgroupfs import Hierarchy, enable, hierarchies, read, write
from testcluster.layout import Layout

PERIOD = 100_000
HEAVY = 8
"""Weight of the control plane relative to a node, and of the cluster relative to another process. A
leader gives up its lease when its calls take longer than 10 s."""


def make(layout: Layout, name: str, *, cpu: float | None = None, weight: float = 1.0) -> None:
    """Create a cgroup in every hierarchy. `cpu` is its limit in cores."""
    for h in hierarchies():
        folder = f"{h.mount}/{layout.group}/{name}"
        Path(folder).mkdir(parents=True, exist_ok=True)
        if h.version == 2:
            for above in (h.mount, f"{h.mount}/{layout.group}"):
                enable(above)
            if name != "control":
                enable(folder)
            if "cpu" in read(f"{folder}/cgroup.controllers").split():
                quota = "max" if cpu is None else str(round(cpu * PERIOD))
                write(f"{folder}/cpu.max", f"{quota} {PERIOD}")
                write(f"{folder}/cpu.weight", str(round(100 * weight)))
                write(f"{h.mount}/{layout.group}/cpu.weight", str(100 * HEAVY))
            continue
        if "cpuset" in h.controllers:
            _fill_cpuset(h, layout, name)
        if "cpu" in h.controllers:
            write(f"{folder}/cpu.shares", str(round(1024 * weight)))
            write(f"{h.mount}/{layout.group}/cpu.shares", str(1024 * HEAVY))
            if cpu is not None:
                write(f"{folder}/cpu.cfs_period_us", str(PERIOD))
                write(f"{folder}/cpu.cfs_quota_us", str(round(cpu * PERIOD)))


def _fill_cpuset(h: Hierarchy, layout: Layout, name: str) -> None:
    """Set CPUs and memory nodes: without them, a cgroup v1 cpuset accepts no process."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        all_of_them = read(f"{h.mount}/{file}")
        for folder in (layout.group, f"{layout.group}/{name}"):
            write(f"{h.mount}/{folder}/{file}", all_of_them)


def files(layout: Layout, name: str) -> list[str]:
    """Return the `cgroup.procs` files of a cgroup, one per hierarchy."""
    return [f"{h.mount}/{layout.group}/{name}/cgroup.procs" for h in hierarchies()]


def tops(layout: Layout) -> list[str]:
    there = (f"{h.mount}/{layout.group}" for h in hierarchies())
    return [top for top in there if Path(top).is_dir()]


def processes(layout: Layout) -> set[int]:
    """Return the ids of all processes in the cgroups of the cluster, including pods."""
    found = set[int]()
    for top in tops(layout):
        for path in Path(top).rglob("cgroup.procs"):
            with suppress(OSError):
                found.update(int(pid) for pid in path.read_text().split())
    return found
