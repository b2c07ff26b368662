"""Benchmarks: what is measured, against which bar.

A figure's value is as a reference machine would have it: CPU seconds are scaled by this
machine's heap rate, taken in the same run, over the reference's 1.5 million a second.
"""

import gc
import heapq
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from math import log10
from os import sched_getaffinity
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter, process_time
from typing import Any

from headway.bench.checkpoints import bench_checkpoints
from headway.bench.decide import bench_cluster
from headway.bench.fidelity import bench_fidelity
from headway.bench.figure import Figure
from headway.bench.gangs import bench_gangs
from headway.bench.local import (
    bench_enforcement,
    bench_overhead,
    bench_reaction,
    bench_real,
)
from headway.bench.promises import ROWS, Row, evaluate, workload
from headway.bench.traces import bench_traces
from headway.core.cycle.policy import Chain, PerNode
from headway.core.model.decision import Plan
from headway.core.model.job import JobSpec
from headway.core.model.node import Node
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import JobId, NodeId, Resources
from headway.policy.placement.spread import Spread
from headway.policy.registry import build
from headway.policy.share.headway import Headway, HeadwayMemory
from headway.report.charts.plots import Mark, Series, lines
from headway.runtime.journal import FileJournal
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.sim.scenario import Arrival, Scenario

TRACES = "traces"
REFERENCE = 1.5
"""Million heap pops and pushes a second of the machine that bars are stated for."""


def run(name: str, folder: Path | None = None) -> tuple[dict[str, Any], str]:
    """The result as plain data, and a plot of growth where there is one. `folder`: the traces."""
    before = score()
    traces = name == TRACES
    figures = bench_traces(before / REFERENCE, folder) if traces else BENCHES[name](before)
    result = {
        "bench": name,
        "commit": commit(),
        "cores": len(sched_getaffinity(0)),
        "score": before,
        "figures": [f.plain() for f in figures],
    }
    return result, growth([f for f in figures if f.x is not None])


def growth(figures: list[Figure]) -> str:
    """A plot for each axis, a line for each series."""
    plots = []
    for axis in dict.fromkeys(f.axis for f in figures):
        here = [f for f in figures if f.axis == axis]
        bars = [Mark(x=f.x or 0.0, y=f.bar, text=f"bar {f.bar:g}") for f in here if f.bar]
        found = [
            Series(name=name, points=[(f.x or 0.0, f.value) for f in here if f.series == name])
            for name in dict.fromkeys(f.series for f in here)
        ]
        unit = here[0].unit
        plots.append(lines(found, x=axis, y=unit, marks=bars, title=here[0].title))
    return "".join(plots)


def score() -> float:
    """Million pops and pushes a second on a heap of a thousand: how fast this machine is now."""
    heap = [(float(i), i) for i in range(1000)]
    count = 200_000
    best = float("inf")
    for _ in range(3):
        began = process_time()
        for i in range(count):
            at, _ = heapq.heappop(heap)
            heapq.heappush(heap, (at + 1000.0, i))
        best = min(best, process_time() - began)
    return count / best / 1e6


def commit() -> str:
    """Of the checkout this runs from; empty where it is installed."""
    found = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"],  # noqa: S607 - git is found on the path
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


# -- sim -----------------------------------------------------------------------------------------


def crowd(jobs: int, nodes: int, load: float = 0.9) -> Scenario:
    """Single-replica jobs of mixed size and demand, arriving at random on equal nodes."""
    dice = Random(1)
    mean_work, at, arrivals = 131.7, 0.0, []
    for i in range(jobs):
        at += dice.expovariate(load * nodes / mean_work)
        work = dice.choice([40, 60, 90, 130, 200, 270]) * dice.uniform(0.8, 1.2)
        demand = dice.choice([1, 1, 1, 0.5, 0.2])
        name = JobId(f"job-{i}")
        arrivals.append(Arrival(id=name, at=at, spec=JobSpec(), work=work, demand=demand))
    room = Resources(cpu=1.0, memory=64 * 2.0**30)
    return Scenario(
        nodes=tuple(Node(id=NodeId(f"node-{i}"), capacity=room) for i in range(nodes)),
        jobs=tuple(arrivals),
    )


def _cpu(scenario: Scenario, journal: Path | None = None, policy: str = "fair") -> float:
    gc.collect()
    book = FileJournal(journal, durable=False) if journal else None
    began = process_time()
    simulate(scenario, build(policy), journal=book)
    if book:
        book.close()
    return process_time() - began


def _in_a_process(jobs: int, nodes: int) -> tuple[float, float]:
    """CPU seconds and peak GB of a run in a process of its own."""
    code = (
        "from headway.bench.suite import crowd, _cpu, _peak\n"
        f"print(_cpu(crowd({jobs}, {nodes})), _peak())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    cpu, peak = map(float, done.stdout.split())
    return cpu, peak


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def bench_sim(rate: float) -> list[Figure]:
    """How fast the simulator runs, every cycle through `Loop.step`: the best of a few runs each,
    for the machine's rate is the best of three, too, and neighbours slow us down at random.
    """
    scale = rate / REFERENCE
    small = min(_cpu(crowd(50, 8)) for _ in range(3)) * scale
    thousand = min(_cpu(crowd(1000, 10)) for _ in range(3)) * scale
    runs = [_in_a_process(100_000, 1000) for _ in range(2)]
    big, peak = min(cpu for cpu, _ in runs) * scale, max(peak for _, peak in runs)
    with tempfile.TemporaryDirectory() as folder:
        books = [Path(folder) / f"journal-{i}.jsonl" for i in range(2)]
        written = min(_cpu(crowd(100_000, 1000), book) for book in books) * scale
    slowdown = (1000 / thousand) / (100_000 / big)
    return [
        Figure("50 jobs on 8 nodes", small, "s", 0.3),
        Figure("1,000 jobs on 10 nodes", thousand, "s"),
        Figure("100,000 jobs on 1,000 nodes", big, "s", 20.0),
        Figure("the same, peak memory", peak, "GB", 1.0),
        Figure("the same, with a journal", written, "s", 30.0),
        Figure("jobs per second, 1,000 jobs over 100,000", slowdown, "x", 2.0),
        Figure("jobs per second at 100,000", 100_000 / big, "1/s"),
    ]


# -- promises --------------------------------------------------------------------------------


def _promises(first: int) -> list[Figure]:
    figures = []
    for row in ROWS:
        found = evaluate(row, range(first, first + 20))
        name = f"{row.name}: "
        figures += [
            Figure(name + "mean completion against fair", found.mean, "x", row.mean),
            Figure(name + "the same, worst seed", found.worst_seed, "x"),
            Figure(name + "makespan against fair", found.makespan, "x", row.makespan + 1e-6),
            Figure(name + "slower jobs", found.slower, "", row.slower),
            Figure(name + f"jobs beyond {row.worst:g}", found.beyond, "", row.beyond),
            Figure(name + "worst job", found.worst, "x"),
        ]
    return figures


def bench_promises(rate: float) -> list[Figure]:
    """Nobody loses: 20 seeds of each workload."""
    del rate
    return _promises(0)


def bench_promises_unseen(rate: float) -> list[Figure]:
    """The same on seeds 1000 to 1019, which nobody looked at while building."""
    del rate
    return _promises(1000)


# -- decide ------------------------------------------------------------------------------------


def bench_decide(rate: float) -> list[Figure]:
    """What one decision of `headway` costs, by the number of jobs on the node; and what one of any
    policy costs in a large cluster.
    """
    scale = rate / REFERENCE
    costs = {n: _decision_ms(n) * scale for n in (5, 10, 20, 50, 100)}
    return [
        *(
            Figure(f"a decision for {n} jobs, median", ms, "ms", 5.0 if n == 50 else None, x=n)
            for n, ms in costs.items()
        ),
        Figure("growth from 10 to 100 jobs: exponent", log10(costs[100] / costs[10]), ""),
        *bench_cluster(scale),
    ]


def _decision_ms(jobs: int, most: int = 1000) -> float:
    """Median over decisions in the thick of a run, when every job is there."""
    took: list[float] = []

    class Timed(Headway):
        def decide(self, snapshot: Snapshot, memory: HeadwayMemory) -> tuple[Plan, HeadwayMemory]:
            began = perf_counter()
            found = super().decide(snapshot, memory)
            if len(snapshot.running) >= 0.8 * jobs and len(took) < most:
                took.append(perf_counter() - began)
            return found

    for seed in range(8):
        row = Row(name="", jobs=jobs, sizes={}, mean=1, makespan=1, worst=1)
        simulate(to_scenario(workload(row), seed=seed), Chain(Spread(), PerNode(Timed())))
        if len(took) >= most:
            break
    return 1000 * median(took)


BENCHES: dict[str, Callable[[float], list[Figure]]] = {
    "sim": bench_sim,
    "decide": bench_decide,
    "promises": bench_promises,
    "promises-unseen": bench_promises_unseen,
    "gangs": lambda rate: bench_gangs(0),
    "gangs-unseen": lambda rate: bench_gangs(1000),
    "enforcement": bench_enforcement,
    "reaction": bench_reaction,
    "overhead": bench_overhead,
    "real": bench_real,
    "checkpoints": bench_checkpoints,
    "fidelity": bench_fidelity,
}
