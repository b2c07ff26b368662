"""Benchmarks of the local backend: enforcement of shares, reaction time, overhead and gain."""

import json
import os
import pty
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import monotonic, sleep, time
from typing import Any, TypeVar

from headway.backend import procfs
from headway.backend.local import launcher
from headway.backend.local.enforcement.select import Enforcement, Group, choose
from headway.bench.figure import Figure
from headway.core.cycle.validate import Verdict
from headway.core.estimate.progress import percentile
from headway.core.model.decision import Outcome, Plan
from headway.core.model.job import Phase
from headway.core.model.snapshot import Observation, Trigger
from headway.demo import demo_workload, medians, run_once
from headway.runtime.journal import Journal
from headway.runtime.result import Result
from headway.runtime.start import begin
from headway.spec.arrivals import to_yaml
from headway.spec.workload import make_workload

SECONDS = 30.0
"""Duration of each measurement of shares."""
BUSY = """
import hashlib, sys, threading
block = bytes(1 << 20)
def work():
    while True: hashlib.blake2b(block).digest()
for _ in range(int(sys.argv[1]) - 1): threading.Thread(target=work, daemon=True).start()
work()
"""


# -- enforcement -------------------------------------------------------------------------------


def bench_enforcement() -> list[Figure]:
    """Jobs with one thread more than cores; CPU as accounted by the kernel."""
    cores = len(os.sched_getaffinity(0))
    chosen = choose(f"bench-{os.getpid()}")
    slack = 2 if chosen.name == "nice" else 1  # pacing is half as accurate
    chosen.add_node("machine", float(cores), None)
    try:
        free = _unmanaged(cores)
        (alone,) = _managed(chosen, [(None, 1.0)])
        (quarter,) = _managed(chosen, [(cores / 4, 1.0)])
        heavy, light = _managed(chosen, [(None, 3.0), (None, 1.0)])
    finally:
        chosen.close()
    by = chosen.name
    return [
        Figure(f"{by}: alone, relative to unmanaged", alone / free, "x"),
        Figure(f"{by}: alone, lost", max(0.0, 1 - alone / free), "", 0.05),
        Figure(f"{by}: limit of a quarter, fraction of the machine", quarter / cores, ""),
        Figure(f"{by}: limit, deviation", abs(quarter / cores - 0.25), "", 0.03 * slack),
        Figure(f"{by}: weights 3:1, ratio", heavy / light, "x"),
        Figure(f"{by}: weights, relative deviation", abs(heavy / light / 3 - 1), "", 0.15 * slack),
    ]


def _busy(cores: int) -> list[str]:
    return [sys.executable, "-c", BUSY, str(cores + 1)]


def _unmanaged(cores: int) -> float:
    """Cores that a busy job uses without Headway."""
    child = subprocess.Popen(_busy(cores))
    try:
        sleep(1.0)
        before, began = procfs.stat(child.pid), monotonic()
        sleep(SECONDS)
        after = procfs.stat(child.pid)
        took = monotonic() - began
        return (after.cpu - before.cpu) / took if before and after else 0.0
    finally:
        child.kill()
        child.wait()


def _managed(chosen: Enforcement, shares: Sequence[tuple[float | None, float]]) -> list[float]:
    """Cores that concurrent busy jobs use under these limits and weights."""
    with tempfile.TemporaryDirectory() as folder:
        running = [_start(chosen, Path(folder) / f"busy-{i}") for i in range(len(shares))]
        try:
            for (group, _), (limit, weight) in zip(running, shares, strict=True):
                group.set_share(limit, weight)
            _wait(running, 3.0)
            before, began = [group.read().cpu for group, _ in running], monotonic()
            _wait(running, SECONDS)
            after, took = [group.read().cpu for group, _ in running], monotonic() - began
        finally:
            for group, child in running:
                group.signal(9)
                child.wait()
            while not all([group.close() for group, _ in running]):  # noqa: C419 - close every group
                sleep(0.02)
        return [(b - a) / took for a, b in zip(before, after, strict=True)]


def _start(chosen: Enforcement, folder: Path) -> tuple[Group, subprocess.Popen[bytes]]:
    group = chosen.group("machine", folder.name)
    files = launcher.Files(folder, folder / "records", 1)
    child = launcher.start(
        files, (*chosen.prefix, *_busy(len(os.sched_getaffinity(0)))),
        cpus=None, env={**os.environ, "HEADWAY_DIR": str(folder)}, where="/",
        entrances=group.entrances(),
    )  # fmt: skip
    group.lead(child.pid)
    return group, child


def _wait(running: list[tuple[Group, Any]], seconds: float) -> None:
    """Sleep, and read the groups once a second as a run does, which pacing needs."""
    until = monotonic() + seconds
    while monotonic() < until:
        sleep(min(1.0, max(0.0, until - monotonic())))
        for group, _ in running:
            group.read()


# -- reaction ----------------------------------------------------------------------------------


class _TimedJournal(Journal):
    """Records when the plan after the first observation of an event is settled."""

    def __init__(self, inner: Journal) -> None:
        self.inner = inner
        self.seen: list[tuple[str, str]] = []
        self.answered: dict[tuple[str, str], float] = {}

    def intend(
        self, trigger: Trigger, seen: Observation, plan: Plan, verdict: Verdict, memory: Any
    ) -> None:
        self.inner.intend(trigger, seen, plan, verdict, memory)
        started = [("pid", r.job) for r in seen.replicas if r.phase is Phase.RUNNING]
        self.seen = [*started, *(("exit", j.id) for j in seen.jobs if j.phase.ended)]

    def settle(self, outcomes: tuple[Outcome, ...]) -> None:
        self.inner.settle(outcomes)
        for what in self.seen:
            self.answered.setdefault(what, time())


def bench_reaction() -> list[Figure]:
    """Time from the start or exit of a busy job, by the timestamps of the files that its shell
    writes, until all shares are written.
    """
    spin = "import time; end = time.time() + 2\nwhile time.time() < end: pass"
    jobs = [_inline(f"j{i}", [sys.executable, "-S", "-c", spin], at=0.4 * i) for i in range(50)]
    with tempfile.TemporaryDirectory() as data:
        run = begin(make_workload(jobs=jobs), Path(data) / "w.yaml", "headway", data=Path(data))
        run.loop.journal = timed = _TimedJournal(run.loop.journal)
        run.go()
        delays: dict[str, list[float]] = {"pid": [], "exit": []}
        for (what, job), answered in timed.answered.items():
            event = run.folder.path / "jobs" / job / "main-0" / f"{what}.1"
            delays[what].append(1000 * (answered - event.stat().st_mtime))
    figures = []
    for kind, took in (("start", delays["pid"]), ("exit", delays["exit"])):
        name, slow = f"{kind} until shares are written", percentile(sorted(took), 0.95)
        figures += [
            Figure(f"{kind}s", len(took), ""),
            Figure(f"{name}, median", median(took), "ms"),
            Figure(f"{name}, 95th percentile", slow, "ms", 100),
        ]
    return figures


def _inline(name: str, command: list[str], at: float = 0.0) -> dict[str, Any]:
    return {"name": name, "at": at, "spec": {"tasks": [{"command": command}]}}


# -- overhead ----------------------------------------------------------------------------------

CHATTY = """
import sys, time
for i in range(int(sys.argv[1])):
    for line in range(10): print(f"batch {line} of epoch {i}, 12.5 images/s, memory 1.2 GB")
    print(f"step {i} loss {1 / (i + 1):.4f}", flush=True)
    time.sleep(1)
"""
MEASURED = 120
"""Seconds."""
REPORTING = """
import json, os, sys, time, headway
run, took = headway.attach(), []
for i in range(20000):
    began = time.perf_counter_ns()
    run.report(i, loss=1 / (i + 1))
    took.append(time.perf_counter_ns() - began)
    time.sleep(0.001)
took.sort()
print(json.dumps([took[len(took) // 2] / 1000, took[int(0.99 * len(took))] / 1000]))
"""


def bench_overhead() -> list[Figure]:
    """Twenty jobs that each print ten lines and a loss a second, displayed on a terminal."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        chatty = [sys.executable, "-S", "-c", CHATTY, str(MEASURED + 25)]
        jobs = [_inline(f"j{i}", chatty) for i in range(20)]
        jobs.append(_inline("sdk", [sys.executable, "-c", REPORTING]))
        path = data / "w.yaml"
        path.write_text(to_yaml(make_workload(jobs=jobs)))
        with _on_terminal(["run", str(path), "--data", str(data)]) as pid:
            sleep(8.0)
            before, began = _headway_cpu(pid, data), monotonic()
            sleep(MEASURED)
            after, took = _headway_cpu(pid, data), monotonic() - began
        sdk = json.loads(next(data.glob("runs/2*/jobs/sdk/main-0/out.log")).read_text())
    return [
        Figure("20 jobs: all of Headway, fraction of a core", (after - before) / took, "", 0.01),
        Figure("SDK: one report in a managed job, median", sdk[0], "µs", 20),
        Figure("SDK: one report in a managed job, 99th percentile", sdk[1], "µs", 200),
    ]


@contextmanager
def _on_terminal(words: list[str]) -> Iterator[int]:
    """Run Headway with its live display on a terminal that is read."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "headway", *words],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "COLUMNS": "120", "LINES": "50", "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(theirs)
    threading.Thread(target=_drain, args=(ours,), daemon=True).start()
    try:
        yield child.pid
    finally:
        child.send_signal(2)
        child.wait()


def _drain(file: int) -> None:
    try:
        while os.read(file, 65536):
            pass
    except OSError:
        os.close(file)


def _headway_cpu(pid: int, data: Path) -> float:
    """Core-seconds of Headway, its pacer and the shells that wait for the jobs."""
    claims = (launcher.claim_of(p.parent, 1) for p in data.glob("runs/2*/records/*/*/claim.1"))
    shells = [claim.pid for claim in claims if claim and claim.alive]
    below = [p for p in procfs.descendants(pid) if not procfs.environment(p).get("HEADWAY_DIR")]
    return sum(_own_cpu(p) for p in dict.fromkeys([*below, *shells]))


def _own_cpu(pid: int) -> float:
    """Core-seconds of a process without its children, which include reaped jobs."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * procfs.TICK


# -- gain ----------------------------------------------------------------------------------------


def bench_real() -> list[Figure]:
    """Five real jobs: A A for the noise, then A B A B …; medians of each job."""
    workload = demo_workload()
    with tempfile.TemporaryDirectory() as data:

        def measure(policy: str) -> Result:
            return undisturbed(lambda: run_once(workload, policy, Path(data))[0])

        same = [measure("fair"), measure("fair")]
        runs = [(measure("fair"), measure("headway")) for _ in range(5)]
    fair, ours = zip(*runs, strict=True)
    times = ([j.completion_s for j in result.per_job] for result in same)
    band = max(abs(1 - b / a) for a, b in zip(*times, strict=True))
    before, after = medians(fair), medians(ours)
    ratios = {n: after[n] / before[n] for n in before}
    mean, beyond = sum(after.values()) / sum(before.values()), max(ratios.values()) - 1 - band
    makespans = [median(r.makespan_s for r in results) for results in (fair, ours)]
    return [
        Figure("mean completion against fair", mean, "x", 0.80),
        Figure("noise band: fair against itself, worst job", band, ""),
        Figure("worst job against fair, beyond the band", beyond, "", 0.05),
        *(Figure(f"{n} against fair", ratio, "x") for n, ratio in ratios.items()),
        Figure("makespan against fair", makespans[1] / makespans[0], "x"),
    ]


T = TypeVar("T")
STOLEN = 0.03
"""Share of the CPU; a measurement during which others took more is repeated."""


def undisturbed(measure: Callable[[], T]) -> T:
    """Repeat a measurement, at most twice, if other virtual machines took CPU during it."""
    for _ in range(3):
        before, began = _stolen(), monotonic()
        found = measure()
        stolen = (_stolen() - before) / (monotonic() - began) / (os.cpu_count() or 1)
        if stolen <= STOLEN:
            break
    return found


def _stolen() -> float:
    """CPU seconds that the hypervisor gave to others."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) * procfs.TICK
