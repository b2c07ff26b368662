"""Measure what it costs this machine to run several trainings at once.

Fluid sharing, which the simulator assumes, loses nothing: k trainings together do as much work in a
second as one. Real ones lose caches and switch contexts. Each round lets some of the trainings run
for a moment, with ceilings or without, between two rounds of as many trainings as fill the cores.
Only the ratio to these counts, because other processes use the machine too. The others are stopped
meanwhile.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, Protocol, Self

import numpy as np

from headway.backend.local.enforcement import cgroupfs
from headway.backend.local.enforcement.cgroup import Group1, Group2
from headway.core.model.units import Cores, Seconds
from headway.errors import BackendError
from headway.sim.compare import Progress
from headway.trainings import torch_counter
from headway.trainings.__main__ import THREADS
from headway.trainings.counter import LAYOUT, read

LOADS = (1, 1.5, 2, 3, 4, 6, 8, 12)
"""Trainings at once, as multiples of those that fill the cores."""
MOST = 12
"""Trainings at once on a small machine; a large one has four times as many as fill it."""
CEILINGS = (1.0, 2.0, 4.0)
"""Sums of ceilings, as multiples of the cores."""
WARM_UP: Seconds = 0.2
"""Part of a round that is not measured: one period of the quotas, and caches."""
STARTUP: Seconds = 60.0
WEIGHT = 16.0
"""Weight of all trainings together for each core, beside 1 for any other process."""
Readings = list[tuple[float, float]]


class Trainings(Protocol):
    """Trainings that all run the same way, for example each in its own control group."""

    @property
    def pids(self) -> Sequence[int]: ...

    def counted(self) -> Readings:
        """Updates and CPU time of each so far."""
        ...

    def limit(self, number: int, cores: Cores | None) -> None:
        """Set the ceiling of one of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """`count` trainings whose ceilings add up to `ceilings` times the cores; None: no ceilings.
    Ratios to as many trainings as fill the cores, without ceilings.
    """

    count: int
    ceilings: float | None
    efficiency: float
    """Updates per second of CPU."""
    throughput: float
    """Updates per second."""
    noise: float
    """Standard error of `throughput`."""

    def wanted(self, full: int) -> float:
        """The CPU that they would use, as a multiple of the cores, which `full` of them fill."""
        return self.count / full if self.ceilings is None else self.ceilings


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    value: float
    error: float
    """Standard error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is left of the CPU of a node with more trainings than fill it: cpu / (1 + sharing +
    contention (threads / cores - 1) + oversubscription max(0, wanted / cores - 1)).
    """

    cores: int
    threads: int
    """Of each training."""
    points: tuple[Point, ...]
    sharing: Cost
    contention: Cost
    oversubscription: Cost

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def measure(
    trainings: Trainings,
    cores: int,
    *,
    threads: int = 1,
    seconds: Seconds = 1.0,
    repetitions: int = 5,
    ceilings: Sequence[float] = CEILINGS,
    progress: Progress = lambda done, total: None,
) -> Machine:
    """Measure on `cores` cores, to which these trainings of `threads` threads are bound."""
    rounds = _Rounds(trainings, seconds)
    full = filling(cores, threads)
    counts = sorted({round(full * load) for load in LOADS})
    plans = [
        (k, s)
        for k in counts
        for s in (None, *ceilings)
        if k <= len(trainings.pids) and (s is None or s * full < k)
    ]
    found: dict[tuple[int, float | None], list[tuple[float, float]]] = {p: [] for p in plans}
    done, total = 0, repetitions * len(plans)
    before = rounds.run(full, None)
    for _ in range(repetitions):
        for k, s in plans:
            progress(done, total)
            done += 1
            now = rounds.run(k, None if s is None else s * cores / k)
            after = rounds.run(full, None)
            base = [(a + b) / 2 for a, b in zip(before, after, strict=True)]
            found[k, s].append((now[0] / base[0], now[1] / base[1]))
            before = after
    points = tuple(_point(k, s, ratios) for (k, s), ratios in found.items())
    return Machine(cores=cores, threads=threads, points=points, **fit(points, full))


def filling(cores: int, threads: int) -> int:
    """Return how many trainings of `threads` threads fill the cores."""
    return max(1, cores // threads)


def fit(points: Sequence[Point], full: int) -> dict[str, Cost]:
    """Fit the law by least squares. Points are not weighted: few rounds can agree by chance."""
    known = [p for p in points if p.count > full]
    beyond = [[1, p.count / full - 1, max(0.0, p.wanted(full) - 1)] for p in known]
    x, y = np.array(beyond), np.array([1 / p.throughput - 1 for p in known])
    if len(known) < 3 or np.linalg.matrix_rank(x) < 2:
        raise ValueError("too few numbers of trainings beyond the cores")
    names: tuple[str, ...] = ("sharing", "contention", "oversubscription")
    if np.linalg.matrix_rank(x) < 3:  # no ceilings: both count the same
        x, names = x[:, [0, 2]], ("sharing", "oversubscription")
    inverse = np.linalg.inv(x.T @ x)
    values = inverse @ x.T @ y
    left = y - x @ values
    spread = float(left @ left) / max(1, len(known) - len(names))
    errors = np.sqrt(spread * np.diag(inverse))
    found = {"contention": Cost(value=0.0, error=0.0)}
    found |= {
        name: Cost(value=float(value), error=float(error))
        for name, value, error in zip(names, values, errors, strict=True)
    }
    return found


def _point(count: int, ceilings: float | None, ratios: Sequence[tuple[float, float]]) -> Point:
    efficiency, throughput = (list(column) for column in zip(*ratios, strict=True))
    middle = median(throughput)
    away = median(abs(t - middle) for t in throughput)  # robust: 1.48 of it is the deviation
    return Point(
        count=count,
        ceilings=ceilings,
        efficiency=median(efficiency),
        throughput=middle,
        noise=1.25 * 1.48 * away / len(ratios) ** 0.5,
    )


class _Rounds:
    def __init__(self, trainings: Trainings, seconds: Seconds) -> None:
        self.trainings, self.seconds = trainings, seconds

    def run(self, count: int, limit: Cores | None) -> tuple[float, float]:
        """Let the first `count` run; return their updates per second of CPU, and per second."""
        for i in range(count):
            self.trainings.limit(i, limit)
        self._signal(count, signal.SIGCONT)
        sleep(WARM_UP)
        since, before = monotonic(), self.trainings.counted()[:count]
        sleep(self.seconds)
        after, until = self.trainings.counted()[:count], monotonic()
        self._signal(count, signal.SIGSTOP)
        updates, cpu = (
            sum(b[i] - a[i] for a, b in zip(before, after, strict=True)) for i in (0, 1)
        )
        if not updates:
            why = f"no training made an update within {self.seconds:g} s: that is too short"
            raise BackendError(why, hint="measure longer (--seconds 5), on an idle machine")
        return updates / max(cpu, 1e-9), updates / (until - since)

    def _signal(self, count: int, number: int) -> None:
        for pid in self.trainings.pids[:count]:
            os.kill(pid, number)


class Processes:
    """Trainings as processes on the last cores, each in its own control group where that is
    possible; otherwise there are no ceilings. `torch`: an interpreter with PyTorch, which trains
    instead of numpy.
    """

    def __init__(
        self,
        cores: int,
        model: str = "vae",
        most: int = MOST,
        torch: str | None = None,
        threads: int = 1,
    ) -> None:
        self.cpus = sorted(os.sched_getaffinity(0))[-cores:]
        self.most, self.pids = most, list[int]()
        if torch is None:
            self._words = [sys.executable, "-m", "headway.trainings.counter", model]
        else:
            self._words = [torch, str(Path(torch_counter.__file__).parent)]
        self._environment = os.environ | dict.fromkeys(THREADS, str(threads))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()
        self._files: list[Path] = []
        self._groups: list[Group1 | Group2] = []

    def __enter__(self) -> Self:
        try:
            folder = Path(self._stack.enter_context(TemporaryDirectory()))
            group = self._grouping(f"headway-machine-{os.getpid()}")
            for i in range(self.most):
                self._start(folder / str(i))
                if group:
                    self._groups.append(group(f"{i}"))
                    self._groups[-1].take(self.pids[-1], {})
            self.stop_when_counting()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def limits(self) -> bool:
        return bool(self._groups)

    def stop_when_counting(self) -> None:
        """Stop each of them as soon as it trains."""
        end = monotonic() + STARTUP
        for process, path in zip(self._processes, self._files, strict=True):
            while not read(path)[0]:
                if (code := process.poll()) is not None or monotonic() > end:
                    why = f"exited with code {code}" if code is not None else "did not start"
                    hint = f"does {self._words[0]} have numpy, or PyTorch with --torch?"
                    raise BackendError(f"a training {why}", hint=hint)
                sleep(0.01)
            os.kill(process.pid, signal.SIGSTOP)

    def counted(self) -> Readings:
        return [read(path) for path in self._files]

    def limit(self, number: int, cores: Cores | None) -> None:
        if self._groups:
            self._groups[number].set_share(cores, 1.0)

    def _start(self, path: Path) -> None:
        path.write_bytes(LAYOUT.pack(0.0, 0.0))
        process = subprocess.Popen([*self._words, str(path)], env=self._environment)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        os.sched_setaffinity(process.pid, self.cpus)
        self.pids.append(process.pid)
        self._processes.append(process)
        self._files.append(path)

    def _grouping(self, name: str) -> Callable[[str], Group1 | Group2] | None:
        """Create a control group for all; return what makes one in it."""
        weight = WEIGHT * len(self.cpus)
        try:
            for base in cgroupfs.bases2():
                cgroupfs.enable(base)
                top = cgroupfs.below(base, name)
                self._stack.callback(cgroupfs.clear, [top])
                Group2(base, name).set_share(None, weight)
                return lambda inner: Group2(top, inner)
            bases = cgroupfs.bases1()
            if {"cpu", "cpuacct"} <= bases.keys():
                self._stack.callback(cgroupfs.clear, [f"{base}/{name}" for base in bases.values()])
                Group1(bases, name).set_share(None, weight)
                return lambda inner: Group1(bases, f"{name}/{inner}")
        except OSError:  # permission denied
            return None
        return None


def measure_machine(
    cores: int,
    *,
    threads: int,
    seconds: Seconds,
    repetitions: int,
    progress: Progress,
    torch: str | None,
) -> Machine:
    most = max(MOST, 4 * filling(cores, threads))
    with Processes(cores, most=most, torch=torch, threads=threads) as trainings:
        return measure(
            trainings, cores, threads=threads, seconds=seconds, repetitions=repetitions,
            progress=progress, ceilings=CEILINGS if trainings.limits else (),
        )  # fmt: skip
