"""Find the cgroup of a pod, of either version and of either driver of the kubelet."""

from contextlib import suppress
from glob import escape
from pathlib import Path

from headway.backend.local.enforcement.cgroup import Group1, Group2
from headway.backend.usage import UsageSample

CONTROLLERS = ("cpu", "cpuacct", "memory", "blkio")
DEPTH = 3
"""The kubelet may be told to put its cgroups below others."""


class PodCgroup:
    """Read only: nothing is created here, and nothing removed."""

    def __init__(self, group: Group1 | Group2) -> None:
        self._group = group

    def read(self) -> UsageSample | None:
        """Return the usage; None: the cgroup does not exist any more."""
        with suppress(OSError, ValueError):
            return self._group.read()
        return None

    def close(self) -> None:
        self._group.files.close()


def find(root: str, uid: str) -> PodCgroup | None:
    with suppress(OSError):
        if Path(root, "cgroup.controllers").exists():
            inside = _locate(root, uid)
            return PodCgroup(Group2(root, inside)) if inside else None
        inside = _locate(f"{root}/cpu", uid)
        there = [c for c in CONTROLLERS if inside and Path(root, c, inside).is_dir()]
        if {"cpu", "cpuacct"} <= set(there):
            return PodCgroup(Group1({c: f"{root}/{c}" for c in there}, inside))
    return None


def _locate(base: str, uid: str) -> str:
    """Return the path of a pod's cgroup relative to the base; "": there is none."""
    name, slice_name = escape(uid), escape(uid.replace("-", "_"))
    inner = (
        f"kubepods/pod{name}",
        f"kubepods/*/pod{name}",
        f"*kubepods.slice/*-pod{slice_name}.slice",
        f"*kubepods.slice/*/*-pod{slice_name}.slice",
    )
    for depth in range(DEPTH):
        for pattern in inner:
            found = next(Path(base).glob("*/" * depth + pattern), None)
            if found is not None:
                return str(found.relative_to(base))
    return ""
