"""The bars for distributed jobs: `dragon` against pod by pod at the highest load."""

from statistics import fmean

from headway.bench.figure import Figure
from headway.papers.gang_claims import value
from headway.papers.gang_experiments import gang_experiments
from headway.papers.gang_runner import run_gangs
from headway.runtime.result import Result
from headway.sim.compare import in_parallel

LOAD = 1.2
SEEDS = 10
ELAPSED = 0.5
"""Of pod by pod's, at most."""
USEFUL = 1.2
"""Times pod by pod's, at least."""


def bench_gangs(first: int, seeds: int = SEEDS) -> list[Figure]:
    """`seeds` of them from `first` on; ratios are means of each seed's."""
    figures = []
    for name in ("E-D1", "E-D2"):
        e = gang_experiments()[name].under("spread", "dragon")
        tasks = [(e, LOAD, seed) for seed in range(first, first + seeds)]
        pairs = [(ran[3][0], ran[3][1]) for ran in in_parallel(run_gangs, tasks)]
        calm = [pair for pair in pairs if not pair[0].deadlocks]
        figures += _figures(f"{name}, {seeds} seeds", pairs)
        if calm and len(calm) < len(pairs):
            figures += _figures(f"{name}, {len(calm)} seeds without deadlock", calm)
    return figures


def _figures(name: str, pairs: list[tuple[Result, Result]]) -> list[Figure]:
    elapsed = [b.mean_completion_s / a.mean_completion_s for a, b in pairs]
    useful = [value(a, "useful", "gpu") / value(b, "useful", "gpu") for a, b in pairs]
    return [
        Figure(f"{name}: elapsed, dragon over pod by pod", fmean(elapsed), "x", ELAPSED),
        Figure(f"{name}: the same, worst seed", max(elapsed), "x"),
        Figure(f"{name}: useful GPUs, pod by pod over dragon", fmean(useful), "x", 1 / USEFUL),
    ]
