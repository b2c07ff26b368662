"""Original cgroups of adopted processes, recorded in the run directory."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from headway.backend import durable, procfs
from headway.backend.local.enforcement.cgroupfs import hierarchies

FILE = "homes.json"
OURS = "/headway/"

Homes = dict[str, str]
"""Original group by mount point of the hierarchy."""


def record(pid: int, run: Path) -> Homes:
    """Find the original group of a process, and store it before the process is moved.

    A process that a crashed Headway process left in a group of Headway has the recorded original
    group. If the record is lost, the parent of all groups of Headway is used.
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
