"""The guarantee of `headway`: no job finishes later than under fair sharing.

Each row is a workload, drawn with many seeds, and the bars that hold on it. Rows differ in what is
known about job sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from headway.bench.figure import Figure
from headway.policy.registry import build
from headway.sim.build import to_scenario
from headway.sim.compare import in_parallel
from headway.sim.driver import simulate
from headway.spec.workload import Workload

WORK = [40, 60, 90, 130, 200, 270]
DEMAND = {"full": [1.0], "mixed": [1, 1, 1, 0.5, 0.2]}
SEEDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A workload and its bars. Times are relative to fair sharing."""

    name: str
    jobs: int
    demand: str = "mixed"
    sizes: dict[str, float | bool] = field(default_factory=dict)
    mean: float
    """Mean completion."""
    makespan: float
    slower: float = 1.0
    """Fraction of jobs that may be slower by more than 1 % and one second."""
    worst: float
    """Completion of a single job."""
    beyond: float = 0.0
    """Fraction of jobs that may exceed `worst`."""


def _both(name: str, **bars: Any) -> list[Row]:
    """A row with ten jobs and one with fifteen."""
    return [Row(name=f"{name}, {n} jobs", jobs=n, **bars) for n in (10, 15)]


# fmt: off
ROWS = [
    Row(name="full, 10 jobs", jobs=10, demand="full", mean=0.57, makespan=1.0, slower=0.0,
        worst=1.01),
    Row(name="full, 15 jobs", jobs=15, demand="full", mean=0.55, makespan=1.0, slower=0.0,
        worst=1.01),
    Row(name="mixed, 10 jobs", jobs=10, mean=0.69, makespan=1.0, slower=0.003, worst=1.03),
    Row(name="mixed, 15 jobs", jobs=15, mean=0.63, makespan=1.0, slower=0.003, worst=1.03),
    *_both("wrong by 1.5", sizes={"wrong": 1.5}, mean=0.85, makespan=1.02, worst=1.15),
    *_both("wrong by 3", sizes={"wrong": 3}, mean=0.95, makespan=1.05, worst=1.25, beyond=0.01),
    *_both("from an earlier run", sizes={"earlier": 0.1}, mean=0.75, makespan=1.01, slower=0.02,
           worst=1.10),
    *_both("loss curves alone", sizes={"curves": True}, mean=1.02, makespan=1.05, worst=1.25),
    *_both("nothing known", sizes={"nothing": True}, mean=1.02, makespan=1.05, worst=1.10),
]
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Figures over all seeds of a row."""

    mean: float
    worst_seed: float
    makespan: float
    slower: float
    worst: float
    beyond: float


def bench_promises(first: int) -> list[Figure]:
    """Every row with 20 seeds from `first` on."""
    figures = []
    for row in ROWS:
        found = evaluate(row, range(first, first + SEEDS))
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


def workload(row: Row) -> Workload:
    drawn = {"work": WORK, "vary": 0.2, "demand": DEMAND[row.demand]}
    return Workload.model_validate(
        {
            "apiVersion": "headway.dev/v1alpha1",
            "kind": "Workload",
            "arrivals": {"uniform": [0, 200], "jobs": row.jobs, "profile": drawn},
            "sizes": row.sizes,
        }
    )


def evaluate(row: Row, seeds: Sequence[int], policy: str = "headway") -> Outcome:
    """Run a row with all seeds in parallel processes."""
    means, spans, ratios, slower = [], [], [], 0
    for fair, ours in in_parallel(_run_seed, [(row, seed, policy) for seed in seeds]):
        pairs = [(ours[n] - at, end - at) for n, (at, end) in fair.items()]
        means.append(fmean(a for a, _ in pairs) / fmean(b for _, b in pairs))
        spans.append(max(ours.values()) / max(end for _, end in fair.values()))
        ratios += [a / b for a, b in pairs]
        slower += sum(a > 1.01 * b + 1 for a, b in pairs)
    return Outcome(
        mean=fmean(means),
        worst_seed=max(means),
        makespan=fmean(spans),
        slower=slower / len(ratios),
        worst=max(ratios),
        beyond=sum(r > row.worst for r in ratios) / len(ratios),
    )


def _run_seed(
    row: Row, seed: int, policy: str
) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:
    """Arrival and end of each job under fair sharing, and its end under the policy."""
    scenario = to_scenario(workload(row), seed=seed)
    fair, ours = (simulate(scenario, build(p)).finished for p in ("fair", policy))
    return (
        {j.arrival.id: (j.arrival.at, j.finished_at or 0.0) for j in fair},
        {j.arrival.id: j.finished_at or 0.0 for j in ours},
    )
