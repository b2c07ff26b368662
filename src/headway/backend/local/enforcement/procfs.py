"""What /proc tells of processes. Standard library only."""

import os
from contextlib import suppress
from typing import NamedTuple

TICK = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Stat(NamedTuple):
    pid: int
    group: int
    cpu: float
    """Core-seconds, including reaped children."""
    memory: int
    """Bytes resident."""


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _fields(pid: int) -> list[bytes]:
    """Of `stat`, from the state on; empty: it is gone."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        text = file.read()
        return text[text.rindex(b")") + 2 :].split()
    return []


def stat(pid: int) -> Stat | None:
    """None: it is gone."""
    fields = _fields(pid)
    if not fields or fields[0] in (b"Z", b"X"):
        return None
    ticks = sum(map(int, fields[11:15]))
    return Stat(pid, int(fields[2]), ticks * TICK, int(fields[21]) * PAGE)


def groups(leaders: set[int]) -> dict[int, list[Stat]]:
    """The processes of these process groups, by one pass over all there are."""
    found: dict[int, list[Stat]] = {leader: [] for leader in leaders}
    for seen in map(stat, _pids()):
        if seen is not None and seen.group in found:
            found[seen.group].append(seen)
    return found


def descendants(pid: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for each in _pids():
        if fields := _fields(each):
            children.setdefault(int(fields[1]), []).append(each)
    found, look_at = [], [pid]
    while look_at:
        found.append(look_at.pop())
        look_at += children.get(found[-1], [])
    return found


def environment(pid: int) -> dict[str, str]:
    """The environment it was started with; empty if it cannot be read."""
    with suppress(OSError):
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = file.read().decode(errors="replace").split("\0")
        return dict(p.split("=", 1) for p in pairs if "=" in p)
    return {}


def marked(**marks: str) -> list[int]:
    """Processes with all of these variables: what an ended replica left."""
    wanted = {f"{name}={value}".encode() for name, value in marks.items()}
    found = []
    for pid in _pids():
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if wanted <= set(file.read().split(b"\0")):
                found.append(pid)
    return found


def available_memory() -> int:
    """Bytes available without swapping."""
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def machine_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * PAGE
