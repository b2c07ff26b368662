"""Select how shares are enforced on this machine."""

import os
from collections.abc import Mapping
from typing import TypeAlias

from headway.backend.local.enforcement.cgroup import (
    NOWHERE,
    Cgroup1,
    Cgroup2,
    Group1,
    Group2,
    Unavailable,
)
from headway.backend.local.enforcement.nice import Nice, NiceGroup
from headway.errors import ConfigError, Denied

ABOUT = {
    "cgroup2": "cgroup v2 (kernel weights and limits)",
    "cgroup1": "cgroup v1 (kernel weights and limits)",
    "nice": "nice and pacing (no writable cgroup)",
}


Enforcement: TypeAlias = Cgroup1 | Cgroup2 | Nice
Group: TypeAlias = Group1 | Group2 | NiceGroup


def choose(run: str, wanted: str = "", found: Mapping[str, str] = NOWHERE) -> Enforcement:
    """Return the best available enforcement. `wanted` (HEADWAY_ENFORCEMENT) requires a certain one.
    `found`: groups that an earlier process of the run has created.
    """
    wanted = wanted or os.environ.get("HEADWAY_ENFORCEMENT", "auto")
    if wanted not in ("auto", *ABOUT):
        raise ConfigError(
            f"HEADWAY_ENFORCEMENT is {wanted!r}", hint=f"one of auto, {', '.join(ABOUT)}"
        )
    for kind in (Cgroup2, Cgroup1):
        if wanted in ("auto", kind.name):
            try:
                return kind(run, found)
            except Unavailable as error:
                if wanted != "auto":
                    raise Denied(
                        str(error),
                        hint="run as root or in a delegated scope (systemd-run --user --scope "
                        "-p Delegate=yes headway …), or leave out HEADWAY_ENFORCEMENT",
                    ) from None
    return Nice()
