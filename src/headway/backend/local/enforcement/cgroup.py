"""Control groups, versions 1 and 2: the kernel divides CPU among groups of processes.

    base/headway/RUN/NODE/REPLICA        a node has a limit, a replica a limit and a weight

Files that are read repeatedly are kept open: a read takes 1 µs, an open 15 µs.
"""

import os
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import ClassVar

from headway.backend.cfs import NORMAL, PERIOD, cpu_quota, cpu_shares
from headway.backend.local.enforcement import cgroupfs
from headway.backend.local.enforcement.cgroupfs import number, read, write
from headway.backend.local.enforcement.homes import Homes
from headway.backend.procfs import descendants
from headway.backend.usage import UsageSample

MOVES = 20
"""Maximum number of times that the processes of a group are listed and moved."""
NOWHERE: Mapping[str, str] = {}


class Unavailable(Exception):
    """A version of cgroups that cannot be used on this machine."""


class _Open:
    """Files kept open for reading."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}

    def read(self, path: str) -> str:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(file, 16384, 0).decode()

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()


class _Group:
    """The group of a replica: common part of both versions."""

    def __init__(self, folders: Iterable[str], cores: float | None) -> None:
        self.folders = tuple(folders)
        self.cores = cores
        """Limit of the node. Version 1 refuses a higher limit in a group of the node."""
        self.files = _Open()
        self.homes: Homes = {}
        """Original groups of adopted processes."""
        for folder in self.folders:
            os.makedirs(folder, exist_ok=True)

    def entrances(self) -> tuple[str, ...]:
        """Return files. A process that writes `0` to each of them is in the group."""
        return tuple(f"{folder}/cgroup.procs" for folder in self.folders)

    def lead(self, pid: int) -> None:
        """Note the first process, which enters the group by itself."""

    def take(self, pid: int, homes: Homes) -> None:
        """Move a running process and its descendants into the group."""
        self.homes = homes
        for each in descendants(pid):
            for entrance in self.entrances():
                with suppress(ProcessLookupError):
                    write(entrance, str(each))

    def release(self) -> None:
        """Move adopted processes back to their original group, or to its nearest existing parent.
        Processes that cannot be moved stay in this group, without a limit.
        """
        for folder in self.folders:
            for mount, home in self.homes.items():
                if folder.startswith(f"{mount}/"):
                    self._empty(folder, cgroupfs.nearest(home, mount))
        if self.homes and self.pids():
            with suppress(OSError):
                self.set_share(None, 1.0)

    def _empty(self, folder: str, into: str) -> None:
        for _ in range(MOVES):  # they may fork meanwhile
            with suppress(OSError):
                members = read(f"{folder}/cgroup.procs").split()
                for pid in members:
                    with suppress(ProcessLookupError):
                        cgroupfs.put(pid, into)
                if not members:
                    return

    def set_share(self, limit: float | None, weight: float) -> None:
        raise NotImplementedError

    def quota(self, limit: float | None) -> int | None:
        if limit is None:
            return None
        return cpu_quota(limit if self.cores is None else min(limit, self.cores))

    def pids(self) -> list[int]:
        with suppress(OSError):
            return [int(p) for p in read(f"{self.folders[0]}/cgroup.procs").split()]
        return []

    def signal(self, number: int) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def close(self) -> bool:
        """Kill the processes of the group, unless they were adopted, and remove it. Return False to
        try again later.
        """
        self.files.close()
        if self.homes:
            self.release()
        else:
            self.signal(signal.SIGKILL)
        left = [folder for folder in self.folders if not cgroupfs.remove(folder)]
        return not left


class Group1(_Group):
    """Version 1: one hierarchy for each controller."""

    def __init__(self, bases: dict[str, str], name: str, cores: float | None = None) -> None:
        where = {controller: f"{base}/{name}" for controller, base in bases.items()}
        super().__init__(dict.fromkeys(where.values()), cores)
        self.where = where

    def set_share(self, limit: float | None, weight: float) -> None:
        cpu = self.where["cpu"]
        write(f"{cpu}/cpu.shares", str(cpu_shares(weight)))
        quota = self.quota(limit)
        write(f"{cpu}/cpu.cfs_quota_us", str(-1 if quota is None else quota))

    def share(self) -> tuple[float | None, float]:
        """Return limit and weight, as set in the kernel."""
        quota = int(read(f"{self.where['cpu']}/cpu.cfs_quota_us"))
        shares = int(read(f"{self.where['cpu']}/cpu.shares"))
        return (None if quota < 0 else quota / PERIOD), shares / NORMAL

    def set_memory(self, most: float) -> None:
        if "memory" in self.where:
            write(f"{self.where['memory']}/memory.limit_in_bytes", str(int(most)))

    def read(self, before: UsageSample | None = None) -> UsageSample:
        """Return the usage. `before`: read only CPU, and take memory and block I/O from this
        sample.
        """
        stat = self.files.read(f"{self.where['cpu']}/cpu.stat")
        return UsageSample(
            cpu=int(self.files.read(f"{self.where['cpuacct']}/cpuacct.usage")) / 1e9,
            memory=before.memory if before else self._memory(),
            block_io=before.block_io if before else self._block_io(),
            periods=number(stat, "nr_periods "),
            throttled=number(stat, "nr_throttled "),
        )

    def _memory(self) -> int:
        folder = self.where.get("memory")
        return number(self.files.read(f"{folder}/memory.stat"), "total_rss ") if folder else 0

    def _block_io(self) -> int:
        folder = self.where.get("blkio")
        path = f"{folder}/blkio.throttle.io_service_bytes"
        return int(self.files.read(path).split()[-1]) if folder else 0

    def killed_for_memory(self) -> bool:
        with suppress(OSError, KeyError):
            return number(read(f"{self.where['memory']}/memory.oom_control"), "oom_kill ") > 0
        return False


class Group2(_Group):
    """Version 2: one hierarchy, whose controllers are switched on level by level."""

    def __init__(self, base: str, name: str, cores: float | None = None) -> None:
        super().__init__([f"{base}/{name}"], cores)
        self.folder = self.folders[0]

    def set_share(self, limit: float | None, weight: float) -> None:
        write(f"{self.folder}/cpu.weight", str(min(10000, max(1, round(100 * weight)))))
        quota = self.quota(limit)
        write(f"{self.folder}/cpu.max", f"{'max' if quota is None else quota} {PERIOD}")

    def share(self) -> tuple[float | None, float]:
        quota, period = read(f"{self.folder}/cpu.max").split()
        weight = int(read(f"{self.folder}/cpu.weight"))
        return (None if quota == "max" else int(quota) / int(period)), weight / 100

    def set_memory(self, most: float) -> None:
        with suppress(FileNotFoundError):  # the memory controller may not be delegated
            write(f"{self.folder}/memory.max", str(int(most)))

    def read(self, before: UsageSample | None = None) -> UsageSample:
        stat = self.files.read(f"{self.folder}/cpu.stat")
        return UsageSample(
            cpu=number(stat, "usage_usec ") / 1e6,
            memory=before.memory if before else number(self._optional("memory.stat"), "anon "),
            block_io=before.block_io if before else self._block_io(),
            periods=number(stat, "nr_periods "),
            throttled=number(stat, "nr_throttled "),
        )

    def _block_io(self) -> int:
        pairs = (field.partition("=") for field in self._optional("io.stat").split())
        return sum(int(value) for key, _, value in pairs if key in ("rbytes", "wbytes"))

    def _optional(self, name: str) -> str:
        with suppress(FileNotFoundError):
            return self.files.read(f"{self.folder}/{name}")
        return ""

    def killed_for_memory(self) -> bool:
        with suppress(OSError, KeyError):
            return number(read(f"{self.folder}/memory.events"), "oom_kill ") > 0
        return False

    def close(self) -> bool:
        if not self.homes:
            with suppress(OSError):
                write(f"{self.folder}/cgroup.kill", "1")
        return super().close()


class Cgroup1:
    """Nodes and replicas as groups of version 1."""

    name = "cgroup1"
    prefix: ClassVar[tuple[str, ...]] = ()

    def __init__(self, run: str, found: Mapping[str, str] = NOWHERE) -> None:
        """`found`: the groups of this run that an earlier process created, perhaps elsewhere."""
        bases = cgroupfs.bases1()
        if not {"cpu", "cpuacct"} <= bases.keys():
            raise Unavailable("no cpu and cpuacct controllers of cgroup version 1 are mounted")
        self.bases = {c: f"{base}/headway/{run}" for c, base in bases.items()}
        self.bases |= {c: base for c, base in found.items() if os.path.isdir(base)}
        self.ceilings: dict[str, float | None] = {}
        try:
            for base in self.bases.values():
                os.makedirs(base, exist_ok=True)
            # All runs together have the weight of one busy process per core.
            top = f"{os.path.dirname(self.bases['cpu'])}/cpu.shares"
            write(top, str(cpu_shares(os.cpu_count() or 1)))
            self._held = [cgroupfs.hold(base) for base in dict.fromkeys(self.bases.values())]
        except OSError as error:
            raise Unavailable(f"permission denied for cgroup version 1: {error}") from None

    @property
    def place(self) -> dict[str, str]:
        """Where the groups of this run are, for a process that resumes it from another group."""
        return self.bases

    def add_node(self, node: str, cores: float, ceiling: float | None) -> None:
        Group1(self.bases, node).set_share(ceiling, cores)
        self.ceilings[node] = ceiling

    def group(self, node: str, name: str) -> Group1:
        return Group1(self.bases, f"{node}/{name}", self.ceilings[node])

    def set_available(self, node: str, cores: float) -> None:
        """Nothing to do: the kernel divides what other processes leave by weight."""

    def used(self) -> dict[str, float]:
        """CPU time of all replicas, also of those that have ended."""
        return {"all": int(read(f"{self.bases['cpuacct']}/cpuacct.usage")) / 1e9}

    def remove_groups(self) -> None:
        cgroupfs.clear(dict.fromkeys(self.bases.values()))

    def close(self) -> None:
        for each in self._held:
            os.close(each)


class Cgroup2:
    """Nodes and replicas as groups of version 2, at the root or in a delegated part."""

    name = "cgroup2"
    prefix: ClassVar[tuple[str, ...]] = ()

    def __init__(self, run: str, found: Mapping[str, str] = NOWHERE) -> None:
        self.ceilings: dict[str, float | None] = {}
        reasons = []
        known = found.get("", "")
        if known and os.path.isdir(known):
            self.base, self._held = known, cgroupfs.hold(known)
            return
        for base in cgroupfs.bases2():
            try:
                cgroupfs.enable(base)
                self.base = cgroupfs.below(base, "headway", run)
                self._held = cgroupfs.hold(self.base)
            except OSError as error:
                reasons.append(f"{base}: {error.strerror}")
            else:
                return
        raise Unavailable("; ".join(reasons) or "no cgroup version 2 with a cpu controller")

    @property
    def place(self) -> dict[str, str]:
        """Where the groups of this run are, for a process that resumes it from another group."""
        return {"": self.base}

    def add_node(self, node: str, cores: float, ceiling: float | None) -> None:
        cgroupfs.below(self.base, node)
        Group2(self.base, node).set_share(ceiling, cores)
        self.ceilings[node] = ceiling

    def group(self, node: str, name: str) -> Group2:
        return Group2(f"{self.base}/{node}", name, self.ceilings[node])

    def set_available(self, node: str, cores: float) -> None:
        """Nothing to do: the kernel divides what other processes leave by weight."""

    def used(self) -> dict[str, float]:
        """CPU time of all replicas, also of those that have ended."""
        return {"all": number(read(f"{self.base}/cpu.stat"), "usage_usec ") / 1e6}

    def remove_groups(self) -> None:
        cgroupfs.clear([self.base])

    def close(self) -> None:
        os.close(self._held)
