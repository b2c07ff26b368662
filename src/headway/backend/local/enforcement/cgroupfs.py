"""Find the mounted control groups, and access their files. Uses only the standard library."""

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from errno import EBUSY
from pathlib import Path
from time import monotonic, sleep, time
from typing import NamedTuple

REST = "headway-rest"
"""Child group for the processes of a version 2 group that delegates its controllers."""
CONTROLLERS = {"cpu", "memory", "io"}
UNUSED = 60.0
"""Age in seconds from which an unused group is removed. A younger one may be about to be used."""
PATIENCE = 2.0
"""Seconds to wait for exiting processes when the groups of a run are removed."""


class Hierarchy(NamedTuple):
    """A mounted hierarchy, as seen by a process."""

    version: int
    controllers: tuple[str, ...]
    """Controllers of version 1. Version 2 lists them in its files."""
    mount: str
    folder: str
    """Group of the process."""


def hierarchies(pid: int | str = "self") -> list[Hierarchy]:
    own = {}
    for line in read(f"/proc/{pid}/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        own.update(dict.fromkeys(names.split(","), path))
    found = []
    for line in read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        known = {"cgroup": options.split(","), "cgroup2": [""]}.get(kind, [])
        ours = tuple(name for name in known if name in own)
        if ours:
            inner = own[ours[0]].removeprefix(root.rstrip("/")).rstrip("/")
            found.append(Hierarchy(1 if kind == "cgroup" else 2, ours, mount, mount + inner))
    return found


def bases1() -> dict[str, str]:
    """Version 1: return the folder of our own group for each controller."""
    wanted = ("cpu", "cpuacct", "memory", "blkio")
    found = {c: h.folder for h in hierarchies() for c in h.controllers if c in wanted}
    return {c: folder for c, folder in found.items() if os.path.isdir(folder)}


def bases2() -> list[str]:
    """Version 2: return where groups can be created: at the root, or in our own group."""
    for h in hierarchies():
        if h.version == 2:
            places = dict.fromkeys((h.mount, h.folder.removesuffix(f"/{REST}")))
            return [place for place in places if _has_cpu(place)]
    return []


def put(pid: str, folder: str) -> None:
    """Move a process into a group, or into its child for processes."""
    try:
        write(f"{folder}/cgroup.procs", pid)
    except OSError as error:
        if error.errno != EBUSY:
            raise
        os.makedirs(f"{folder}/{REST}", exist_ok=True)
        write(f"{folder}/{REST}/cgroup.procs", pid)


def nearest(folder: str, mount: str) -> str:
    """Return the group, or its nearest existing parent."""
    while folder != mount and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def _has_cpu(base: str) -> bool:
    with suppress(OSError):
        return "cpu" in read(f"{base}/cgroup.controllers").split()
    return False


def enable(folder: str) -> None:
    """Enable the controllers for child groups."""
    has = set(read(f"{folder}/cgroup.subtree_control").split())
    wanted = [c for c in read(f"{folder}/cgroup.controllers").split() if c in CONTROLLERS - has]
    if not wanted:
        return
    text = " ".join(f"+{c}" for c in wanted)
    try:
        write(f"{folder}/cgroup.subtree_control", text)
    except OSError as error:
        if error.errno != EBUSY:
            raise
        rest = f"{folder}/{REST}"
        os.makedirs(rest, exist_ok=True)
        for pid in read(f"{folder}/cgroup.procs").split():
            with suppress(ProcessLookupError):
                write(f"{rest}/cgroup.procs", pid)
        write(f"{folder}/cgroup.subtree_control", text)


def below(base: str, *names: str) -> str:
    """Create a group. Each level above it delegates the controllers."""
    for name in names:
        base = f"{base}/{name}"
        os.makedirs(base, exist_ok=True)
        enable(base)
    return base


def number(text: str, name: str) -> int:
    r"""Return the number after a name at the start of a line; 0 if there is none.

    >>> number("nr_periods 7\nnr_throttled 3\n", "nr_throttled ")
    3
    """
    _, found, rest = f"\n{text}".partition(f"\n{name}")
    return int(rest.split("\n", 1)[0]) if found else 0


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def remove(folder: str) -> bool:
    with suppress(OSError):
        os.rmdir(folder)
    return not os.path.exists(folder)


def clear(runs: Iterable[str], patience: float = PATIENCE) -> None:
    """Remove groups from the innermost one, as their processes exit, and the empty parent."""
    until = monotonic() + patience
    for run in runs:
        inner = [top for top, _, _ in os.walk(run, topdown=False)]
        while (inner := [f for f in inner if not remove(f)]) and monotonic() < until:
            sleep(0.02)
        remove(os.path.dirname(run))


def hold(folder: str) -> int:
    """Lock the groups of a run: `sweep` leaves them while the returned descriptor is open."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def sweep(least_age: float = UNUSED) -> None:
    """Remove the empty groups of runs without an active process. A resumed run creates
    them again.
    """
    before = time() - least_age
    for mount in dict.fromkeys([*bases1().values(), *bases2()]):
        for run in list(Path(mount, "headway").glob("*/")):
            with suppress(OSError):  # it is held, or removed by another process
                _remove_unused(str(run), before)


def _remove_unused(run: str, before: float) -> None:
    file = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        inner = [top for top, _, _ in os.walk(run, topdown=False)]
        used = (os.stat(f).st_mtime > before or read(f"{f}/cgroup.procs").strip() for f in inner)
        if not any(used):
            for folder in inner:
                remove(folder)
    finally:
        os.close(file)
