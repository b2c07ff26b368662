"""Information about processes and the machine from /proc. Uses only the standard library."""

import os
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

TICK = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PF_KTHREAD = 0x00200000


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
    """Return the fields of `stat` from the state on; empty: the process does not exist."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        text = file.read()
        return text[text.rindex(b")") + 2 :].split()
    return []


def stat(pid: int) -> Stat | None:
    """Return group, CPU and memory of a process; None: it does not exist."""
    fields = _fields(pid)
    if not fields or fields[0] in (b"Z", b"X"):
        return None
    ticks = sum(map(int, fields[11:15]))
    return Stat(pid, int(fields[2]), ticks * TICK, int(fields[21]) * PAGE)


def start_time(pid: int) -> int:
    """Return the start in ticks since the boot, which with the pid identifies a process; 0: it does
    not exist.
    """
    fields = _fields(pid)
    return int(fields[19]) if fields and fields[0] not in (b"Z", b"X") else 0


def boot_id() -> str:
    """Return the id of the present boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def is_kernel_thread(pid: int) -> bool:
    fields = _fields(pid)
    return bool(fields) and bool(int(fields[6]) & PF_KTHREAD)


def ancestors(pid: int) -> list[int]:
    """Return a process, its parent, and so on up to the first process."""
    found = [pid]
    while (fields := _fields(found[-1])) and (parent := int(fields[1])) > 0:
        found.append(parent)
    return found


def cpu(pid: int) -> float:
    """Return the core-seconds of a process and its reaped children; 0: it was reaped."""
    return sum(map(int, _fields(pid)[11:15])) * TICK


def idle_time() -> float:
    """Return the core-seconds in which the machine was idle or waited for I/O."""
    with open("/proc/stat", "rb") as file:
        fields = file.readline().split()
    return (int(fields[4]) + int(fields[5])) * TICK


def groups(leaders: set[int]) -> dict[int, list[Stat]]:
    """Return the processes of these process groups, by one pass over all processes."""
    found: dict[int, list[Stat]] = {leader: [] for leader in leaders}
    for seen in map(stat, _pids()):
        if seen is not None and seen.group in found:
            found[seen.group].append(seen)
    return found


def sessions() -> dict[int, list[int]]:
    """Return the processes of each session, by one pass over all processes."""
    found: dict[int, list[int]] = {}
    for pid in _pids():
        fields = _fields(pid)
        if fields and fields[0] not in (b"Z", b"X"):
            found.setdefault(int(fields[3]), []).append(pid)
    return found


def descendants(pid: int) -> list[int]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = {}
    for each in _pids():
        if fields := _fields(each):
            children.setdefault(int(fields[1]), []).append(each)
    found, look_at = [], [pid]
    while look_at:
        found.append(look_at.pop())
        look_at += children.get(found[-1], [])
    return found


def words(pid: int) -> bytes:
    """Return the command line of a process; empty: it has ended or is executing a new program."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""


def environment(pid: int) -> dict[str, str]:
    """Return the initial environment of a process; empty if it cannot be read."""
    with suppress(OSError):
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = file.read().decode(errors="replace").split("\0")
        return dict(p.split("=", 1) for p in pairs if "=" in p)
    return {}


def marked(**marks: str) -> list[int]:
    """Return the processes with all of these variables, for example those that a replica left."""
    wanted = {f"{name}={value}".encode() for name, value in marks.items()}
    found = []
    for pid in _pids():
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if wanted <= set(file.read().split(b"\0")):
                found.append(pid)
    return found


def busy_time(cpus: Collection[int]) -> float:
    """Return the core-seconds in which these CPUs were busy, including steal time."""
    names, ticks = {f"cpu{cpu}" for cpu in cpus}, 0
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            name, *fields = line.split(maxsplit=9)
            if name in names:
                user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
                ticks += user + nice + system + irq + softirq + steal
            elif not name.startswith("cpu"):
                break
    return ticks * TICK


def available_memory() -> int:
    """Return the bytes that are available without swapping."""
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def machine_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * PAGE
