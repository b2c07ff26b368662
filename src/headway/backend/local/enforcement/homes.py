"""The cgroups that adopted processes came from, recorded in the run directory."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from headway.backend import durable, procfs
from headway.backend.local.enforcement.cgroupfs import hierarchies

FILE = "homes.json"
OURS = "/headway/"

Homes = dict[str, str]
"""By mount of a hierarchy: the group in it."""


def record(pid: int, run: Path) -> Homes:
    """Find the home of a process, and store it before the process is moved.

    A process that a crashed Headway left in its group has the home that was recorded then; if
    that record is lost, the group above all of Headway's.
    """
    homes: Homes = {}
    for h in hierarchies(pid):
        above, ours, below = h.folder.partition(OURS)
        known = _load(run.parent / below.split("/")[0]) if ours else {}
        first = known.get(_key(pid), {}).get(h.mount)
        homes[h.mount] = (first or above) if ours else h.folder
    durable.write(run / FILE, json.dumps({**_load(run), _key(pid): homes}))
    return homes


def _load(run: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads((run / FILE).read_text())
        return found if isinstance(found, dict) else {}
    return {}


def _key(pid: int) -> str:
    """Pids are reused."""
    return f"{pid} {procfs.start_time(pid)} {procfs.boot_id()}"
