"""Select how shares are enforced on this machine."""

import os
from typing import Protocol

from headway.backend.local.enforcement.cgroup import Cgroup1, Cgroup2, Group, Unavailable
from headway.backend.local.enforcement.nice import Nice
from headway.errors import ConfigError, Denied

ABOUT = {
    "cgroup2": "cgroup v2 (kernel weights and limits)",
    "cgroup1": "cgroup v1 (kernel weights and limits)",
    "nice": "nice and pacing (no writable cgroup)",
}


class Enforcement(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before the command of a replica."""
        ...

    def add_node(self, node: str, cores: float, ceiling: float | None) -> None:
        """`ceiling`: the limit of a node that has more CPUs than cores."""
        ...

    def group(self, node: str, name: str) -> Group: ...
    def close(self) -> None: ...


def choose(run: str, wanted: str = "") -> Enforcement:
    """The best one available; `wanted` (HEADWAY_ENFORCEMENT) requires a certain one."""
    wanted = wanted or os.environ.get("HEADWAY_ENFORCEMENT", "auto")
    if wanted not in ("auto", *ABOUT):
        raise ConfigError(
            f"HEADWAY_ENFORCEMENT is {wanted!r}", hint=f"one of auto, {', '.join(ABOUT)}"
        )
    for kind in (Cgroup2, Cgroup1):
        if wanted in ("auto", kind.name):
            try:
                return kind(run)
            except Unavailable as error:
                if wanted != "auto":
                    raise Denied(
                        str(error),
                        hint="run as root or in a delegated scope (systemd-run --user --scope "
                        "-p Delegate=yes headway …), or leave out HEADWAY_ENFORCEMENT",
                    ) from None
    return Nice()
