"""How shares are enforced here: chosen by itself, and shown."""

import os
from typing import Protocol

from headway.backend.local.enforcement.cgroup import Cgroup1, Cgroup2, Group, Unavailable
from headway.backend.local.enforcement.nice import Nice
from headway.errors import ConfigError, Denied

ABOUT = {
    "cgroup2": "cgroup v2 (kernel weights and ceilings)",
    "cgroup1": "cgroup v1 (kernel weights and ceilings)",
    "nice": "nice and pacing (no cgroup is ours to use)",
}


class Enforcement(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def prefix(self) -> tuple[str, ...]:
        """What a job's command is started through."""
        ...

    def add_node(self, node: str, cores: float, ceiling: float | None) -> None:
        """`ceiling`: where its CPUs are more than its cores."""
        ...

    def group(self, node: str, name: str) -> Group: ...
    def close(self) -> None: ...


def choose(run: str, wanted: str = "") -> Enforcement:
    """The best that can be had; `wanted` (HEADWAY_ENFORCEMENT) insists on one."""
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
