"""Goals for distributed jobs: `dragon` against pod-by-pod placement at the highest load."""

from collections.abc import Sequence
from statistics import fmean

from headway.bench.figure import Figure
from headway.papers.experiments import experiments
from headway.papers.runner import run_seed
from headway.runtime.result import Result
from headway.sim.compare import in_parallel

LOAD = 1.2
ELAPSED = 0.5
"""Largest fraction of the elapsed time under pod-by-pod placement."""
USEFUL = 1.2
"""Smallest multiple of the useful GPUs under pod-by-pod placement."""


def bench_gangs(seeds: Sequence[int], names: Sequence[str] = ("E-D1", "E-D2")) -> list[Figure]:
    """A ratio is the mean of the ratios of each seed."""
    figures = []
    for name in names:
        e = experiments()[name].under("spread", "dragon")
        tasks = [(e, LOAD, seed) for seed in seeds]
        results = [found for _, _, _, found, _ in in_parallel(run_seed, tasks)]
        pairs = [(spread, dragon) for spread, dragon in results]
        without = [pair for pair in pairs if not pair[0].deadlocks]
        figures += _figures(f"{name}, {len(seeds)} seeds", pairs)
        if without and len(without) < len(pairs):
            label = f"{name}, seeds without deadlock"
            figures.append(Figure(f"{label}: number", len(without), ""))
            figures += _figures(label, without)
    return figures


def _figures(name: str, pairs: Sequence[tuple[Result, Result]]) -> list[Figure]:
    elapsed = [b.mean_completion_s / a.mean_completion_s for a, b in pairs]
    useful = [(a.gpu_useful or 0.0) / (b.gpu_useful or 1.0) for a, b in pairs]
    return [
        Figure(f"{name}: elapsed, dragon over pod by pod", fmean(elapsed), "x", ELAPSED),
        Figure(f"{name}: the same, worst seed", max(elapsed), "x"),
        Figure(f"{name}: useful GPUs, pod by pod over dragon", fmean(useful), "x", 1 / USEFUL),
    ]
