"""Delegate a control group to another user, who can then create groups in it."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headway.backend.cfs import cpu_shares
from headway.backend.local.enforcement import cgroupfs
from headway.errors import Denied

FILES = ("cgroup.procs", "tasks", "cgroup.threads", "cgroup.subtree_control")
"""Files of the group that the user may write. The limits of the group remain with root."""


@dataclass(frozen=True, slots=True)
class Delegated:
    folders: tuple[str, ...]
    """Folder of the group in each hierarchy."""
    entrances: tuple[str, ...]
    """Files. A process that writes `0` to each of them is in the group."""

    def holds(self, folder: str) -> bool:
        """Return whether a folder is a group below the delegated one."""
        plain = os.path.normpath(folder)
        above = any(plain.startswith(f"{top}/") for top in self.folders)
        return plain == folder and above and Path(folder).is_dir()

    def remove(self) -> None:
        """Remove all groups without processes."""
        for top in self.folders:
            for inner, _, _ in os.walk(top, topdown=False):
                cgroupfs.remove(inner)


def delegate(name: str, uid: int, gid: int) -> Delegated:
    reasons = []
    for version in (_version2, _version1):
        try:
            if found := version(name):
                for folder in found.folders:
                    _give(folder, uid, gid)
                return found
        except OSError as error:
            reasons.append(f"{error.filename}: {error.strerror}")
    raise Denied(
        "no control groups can be used: " + ("; ".join(reasons) or "none are mounted"),
        hint="run as root of the machine, or in a scope with Delegate=yes",
    )


def _version1(name: str) -> Delegated | None:
    bases = cgroupfs.bases1()
    if not {"cpu", "cpuacct"} <= bases.keys():
        return None
    folders = {c: f"{base}/{name}" for c, base in bases.items()}
    for folder in folders.values():
        Path(folder).mkdir(parents=True, exist_ok=True)
    cgroupfs.write(f"{folders['cpu']}/cpu.shares", str(cpu_shares(os.cpu_count() or 1)))
    unique = tuple(dict.fromkeys(folders.values()))
    return Delegated(unique, tuple(f"{folder}/cgroup.procs" for folder in unique))


def _version2(name: str) -> Delegated | None:
    for base in cgroupfs.bases2():
        cgroupfs.enable(base)
        top = cgroupfs.below(base, name)
        rest = f"{top}/{cgroupfs.REST}"
        Path(rest).mkdir(exist_ok=True)
        return Delegated((top,), (f"{rest}/cgroup.procs",))
    return None


def _give(folder: str, uid: int, gid: int) -> None:
    rest = f"{folder}/{cgroupfs.REST}"
    for path in (folder, rest, *(f"{f}/{name}" for f in (folder, rest) for name in FILES)):
        with suppress(FileNotFoundError):
            os.chown(path, uid, gid)
