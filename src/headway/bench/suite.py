"""All benchmarks by name, and how one is run.

CPU times are scaled to a reference machine: by the heap rate of this machine, measured in the same
run, over the reference rate of 1.5 million operations a second.
"""

import heapq
import subprocess
from collections.abc import Callable, Sequence
from os import sched_getaffinity
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from headway.bench.checkpoint_cost import bench_checkpoints
from headway.bench.decide import bench_decide
from headway.bench.distributed import bench_distributed
from headway.bench.fidelity import bench_fidelity
from headway.bench.figure import Figure
from headway.bench.gangs import bench_gangs
from headway.bench.local import bench_enforcement, bench_overhead, bench_reaction, bench_real
from headway.bench.promises import bench_promises
from headway.bench.results_page import growth_charts
from headway.bench.scripts import (
    bench_scripts,
    bench_scripts_again,
    bench_scripts_foreign,
    bench_scripts_interrupted,
)
from headway.bench.server import bench_server
from headway.bench.simulator import bench_sim
from headway.bench.soak import MINUTES, bench_soak
from headway.bench.submissions import bench_submissions
from headway.bench.traces import bench_traces

TRACES, SOAK = "traces", "soak"
"""Not part of `all`: one needs files, the other takes long."""
REFERENCE = 1.5
"""Million heap pops and pushes a second on the machine for which bars are stated."""
BENCHES: dict[str, Callable[[float], list[Figure]]] = {
    "sim": bench_sim,
    "decide": bench_decide,
    "enforcement": lambda scale: bench_enforcement(),
    "reaction": lambda scale: bench_reaction(),
    "overhead": lambda scale: bench_overhead(),
    "real": lambda scale: bench_real(),
    "scripts": lambda scale: bench_scripts(),
    "scripts-foreign": lambda scale: bench_scripts_foreign(),
    "scripts-interrupted": lambda scale: bench_scripts_interrupted(),
    "scripts-again": lambda scale: bench_scripts_again(),
    "checkpoints": lambda scale: bench_checkpoints(),
    "fidelity": lambda scale: bench_fidelity(),
    "server": lambda scale: bench_server(),
}
"""Each takes the factor by which it scales CPU times."""
SIMULATED: dict[str, tuple[Callable[[Sequence[int]], list[Figure]], int]] = {
    "promises": (bench_promises, 20),
    "gangs": (bench_gangs, 10),
}
"""Each takes the seeds of its simulations, by default 0 and so on, so many."""
ROUNDS: dict[str, tuple[Callable[[int], list[Figure]], int]] = {
    "distributed": (bench_distributed, 1),
    "submissions": (bench_submissions, 3),
}
"""Each takes the number of rounds of all its policies, by default so many. They take long and are
not part of `all`.
"""
DRAWN = 40


def run(
    name: str,
    folder: Path | None = None,
    draw: str = "",
    minutes: float = MINUTES,
    pairs: int | None = None,
) -> tuple[dict[str, Any], str]:
    """The result as plain data, and its charts; `folder`: the directory of the traces; `draw`: a
    text from which seeds are drawn; `minutes`: of a soak; `pairs`: rounds of all policies.
    """
    rate = score()
    scale = rate / REFERENCE
    if name in SIMULATED:
        bench, count = SIMULATED[name]
        figures = bench(drawn_seeds(draw) if draw else range(count))
    elif name == SOAK:
        figures = bench_soak(minutes)
    elif name in ROUNDS:
        compare, rounds = ROUNDS[name]
        figures = compare(pairs or rounds)
    else:
        figures = bench_traces(scale, folder) if name == TRACES else BENCHES[name](scale)
    result = {
        "bench": name,
        "commit": commit(),
        **({"draw": draw} if draw else {}),
        "cores": len(sched_getaffinity(0)),
        "score": rate,
        "figures": [f.plain() for f in figures],
    }
    return result, growth_charts(figures)


def drawn_seeds(text: str) -> list[int]:
    """Return seeds that depend on the text alone. Drawn from the hash of the measured commit, they
    cannot have been used in development.
    """
    dice = Random(text)
    return [dice.randrange(2**31) for _ in range(DRAWN)]


def score() -> float:
    """Speed of this machine: million pops and pushes a second on a heap of a thousand."""
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
    """The commit of this checkout; empty for an installed package."""
    found = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"],  # noqa: S607 - git from PATH
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()
