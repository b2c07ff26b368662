"""Simulation of traces of real clusters: CPU time and completion times. Files are found by name."""

from pathlib import Path
from statistics import fmean
from time import process_time

from headway.bench.figure import Figure
from headway.bench.simulator import timed
from headway.errors import ConfigError
from headway.sim.scenario import Scenario
from headway.sim.trace_import import Cluster, read_trace
from headway.sim.world import World

PHILLY, ITP = "philly.csv", "itp-cluster04.csv"
KS = 1000.0
FIFO_MEAN = 233.3
"""Mean completion in thousand seconds under strict FIFO on philly-5k (AccaSim)."""


def bench_traces(scale: float, folder: Path | None) -> list[Figure]:
    """CPU times are multiplied by `scale`."""
    if folder is None or not all((folder / name).is_file() for name in (PHILLY, ITP)):
        raise ConfigError(
            f"traces {PHILLY} and {ITP} not found",
            where=str(folder or ""),
            hint="headway bench traces DIRECTORY, or HEADWAY_TRACES=DIRECTORY",
        )
    few = Cluster(nodes=128, devices=4, first=5000, shortest=60, largest=32)
    began = process_time()
    five = read_trace(folder / PHILLY, "philly", few)
    reading = (process_time() - began) * scale
    return [
        Figure("reading philly.csv", reading, "s"),
        *_small(five, scale),
        *_large("itp-04", read_trace(folder / ITP, "itp", Cluster(nodes=64, devices=8)), scale),
        *_large("philly", read_trace(folder / PHILLY, "philly", Cluster()), scale, bar=30.0),
    ]


def _small(scenario: Scenario, scale: float) -> list[Figure]:
    """philly-5k: the first 5,000 jobs of at least a minute and at most 32 GPUs."""
    fifo, first = _best(scenario, "fifo", scale)
    las, second = _best(scenario, "tiresias", scale)
    off = abs(_mean(first) / FIFO_MEAN - 1)
    return [
        Figure("philly-5k, fifo", fifo, "s", 1.0),
        Figure("philly-5k, fifo: mean completion", _mean(first), "ks"),
        Figure(f"philly-5k, fifo: relative difference from {FIFO_MEAN} ks", off, "", 0.03),
        Figure("philly-5k, tiresias", las, "s", 2.0),
        Figure("philly-5k, tiresias: mean completion", _mean(second), "ks", 49.6),
    ]


def _large(name: str, scenario: Scenario, scale: float, bar: float | None = None) -> list[Figure]:
    jobs = len(scenario.jobs)
    figures = [Figure(f"{name}: jobs", jobs, "")]
    for policy in ("fifo", "tiresias"):
        took, world = _best(scenario, policy, scale, runs=2)
        figures += [
            Figure(f"{name}, {policy}", took, "s", bar),
            Figure(f"{name}, {policy}: jobs per second", jobs / took, "1/s"),
            Figure(f"{name}, {policy}: mean completion", _mean(world), "ks"),
        ]
    return figures


def _best(scenario: Scenario, policy: str, scale: float, runs: int = 3) -> tuple[float, World]:
    """The shortest CPU time of a few runs, and the resulting world."""
    best = float("inf")
    for _ in range(runs):
        took, world = timed(scenario, policy)
        best = min(best, took)
    return best * scale, world


def _mean(world: World) -> float:
    return fmean((j.finished_at or 0.0) - j.arrival.at for j in world.finished) / KS
