"""Speed of the simulator; every cycle runs through `Loop.step`."""

import gc
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from time import process_time

from headway.bench.figure import Figure
from headway.core.model.job import JobSpec
from headway.core.model.node import Node
from headway.core.model.units import JobId, NodeId, Resources
from headway.policy.registry import build
from headway.runtime.journal import FileJournal
from headway.sim.driver import simulate
from headway.sim.scenario import Arrival, Scenario
from headway.sim.world import World


def bench_sim(scale: float) -> list[Figure]:
    """Each time is the best of a few runs, as is the machine's rate: other load on the machine only
    adds time.
    """
    small = min(cpu_seconds(crowd(50, 8)) for _ in range(3)) * scale
    thousand = min(cpu_seconds(crowd(1000, 10)) for _ in range(3)) * scale
    runs = [_in_subprocess(100_000, 1000) for _ in range(2)]
    big, peak = min(cpu for cpu, _ in runs) * scale, max(peak for _, peak in runs)
    with tempfile.TemporaryDirectory() as folder:
        journals = [Path(folder) / f"journal-{i}.jsonl" for i in range(2)]
        written = min(cpu_seconds(crowd(100_000, 1000), path) for path in journals) * scale
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


def crowd(jobs: int, nodes: int) -> Scenario:
    """Single-replica jobs of mixed size and demand with random arrivals on equal nodes."""
    dice = Random(1)
    mean_work, load, at, arrivals = 131.7, 0.9, 0.0, []
    for i in range(jobs):
        at += dice.expovariate(load * nodes / mean_work)
        work = dice.choice([40, 60, 90, 130, 200, 270]) * dice.uniform(0.8, 1.2)
        demand = dice.choice([1, 1, 1, 0.5, 0.2])
        name = JobId(f"job-{i}")
        arrivals.append(Arrival(id=name, at=at, spec=JobSpec(), work=work, demand=demand))
    capacity = Resources(cpu=1.0, memory=64 * 2.0**30)
    return Scenario(
        nodes=tuple(Node(id=NodeId(f"node-{i}"), capacity=capacity) for i in range(nodes)),
        jobs=tuple(arrivals),
    )


def timed(scenario: Scenario, policy: str, journal: Path | None = None) -> tuple[float, World]:
    """CPU seconds of one simulation, and the resulting world."""
    gc.collect()
    book = FileJournal(journal, durable=False) if journal else None
    made = build(policy)
    began = process_time()
    world = simulate(scenario, made, journal=book)
    if book:
        book.close()
    return process_time() - began, world


def cpu_seconds(scenario: Scenario, journal: Path | None = None) -> float:
    return timed(scenario, "fair", journal)[0]


def peak_memory() -> float:
    """Peak memory of this process, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _in_subprocess(jobs: int, nodes: int) -> tuple[float, float]:
    """CPU seconds and peak memory of a run in its own process."""
    code = (
        "from headway.bench.simulator import crowd, cpu_seconds, peak_memory\n"
        f"print(cpu_seconds(crowd({jobs}, {nodes})), peak_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    cpu, peak = map(float, done.stdout.split())
    return cpu, peak
