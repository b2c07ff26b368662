"""Does nobody lose? `headway` against fair sharing, over many seeds and all that may be known
of a job's size. The workloads and bars are those that the policy was asked to meet.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from os import sched_getaffinity
from statistics import fmean

from headway.policy.registry import build
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.spec.workload import Workload

WORK = [40, 60, 90, 130, 200, 270]
DEMAND = {"full": [1.0], "mixed": [1, 1, 1, 0.5, 0.2]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table: a workload, and what must hold on it."""

    name: str
    demand: str = "mixed"
    jobs: int
    sizes: dict[str, float | bool]
    mean: float
    """Mean completion, as a part of fair sharing's."""
    makespan: float
    slower: float = 1.0
    """Part of the jobs that may be slower by more than 1 % and a second."""
    worst: float
    """Largest ratio of a job's completion to that under fair sharing."""
    beyond: float = 0.0
    """Part of the jobs that may be beyond even that."""


def _both(row: Row) -> list[Row]:
    """With ten jobs and with fifteen."""
    return [replace(row, name=f"{row.name}, {n} jobs", jobs=n) for n in (10, 15)]


ROWS = [
    Row(
        name="full, 10 jobs",
        demand="full",
        jobs=10,
        sizes={},
        mean=0.57,
        makespan=1.0,
        slower=0.0,
        worst=1.01,
    ),
    Row(
        name="full, 15 jobs",
        demand="full",
        jobs=15,
        sizes={},
        mean=0.55,
        makespan=1.0,
        slower=0.0,
        worst=1.01,
    ),
    Row(
        name="mixed, 10 jobs", jobs=10, sizes={}, mean=0.69, makespan=1.0, slower=0.003, worst=1.03
    ),
    Row(
        name="mixed, 15 jobs", jobs=15, sizes={}, mean=0.63, makespan=1.0, slower=0.003, worst=1.03
    ),
    *_both(
        Row(name="wrong by 1.5", jobs=0, sizes={"wrong": 1.5}, mean=0.85, makespan=1.02, worst=1.15)
    ),
    *_both(
        Row(
            name="wrong by 3",
            jobs=0,
            sizes={"wrong": 3},
            mean=0.95,
            makespan=1.05,
            worst=1.25,
            beyond=0.01,
        )
    ),
    *_both(
        Row(
            name="from an earlier run",
            jobs=0,
            sizes={"earlier": 0.1},
            mean=0.75,
            makespan=1.01,
            slower=0.02,
            worst=1.10,
        )
    ),
    *_both(
        Row(
            name="loss curves alone",
            jobs=0,
            sizes={"curves": True},
            mean=1.02,
            makespan=1.05,
            worst=1.25,
        )
    ),
    *_both(
        Row(
            name="nothing known",
            jobs=0,
            sizes={"nothing": True},
            mean=1.02,
            makespan=1.05,
            worst=1.10,
        )
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Over all seeds of a row."""

    mean: float
    worst_seed: float
    makespan: float
    slower: float
    worst: float
    beyond: float


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
    """One row, all seeds, in parallel processes."""
    tasks = [(row, seed, policy) for seed in seeds]
    with ProcessPoolExecutor(len(sched_getaffinity(0)), mp_context=get_context("spawn")) as pool:
        runs = list(pool.map(_one, *zip(*tasks, strict=True)))
    means, spans, ratios, slower = [], [], [], 0
    for fair, ours in runs:
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


def _one(
    row: Row, seed: int, policy: str
) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:
    """Arrival and end of each job under fair sharing, and its end under the policy."""
    scenario = to_scenario(workload(row), seed=seed)
    fair, ours = (simulate(scenario, build(p)).finished for p in ("fair", policy))
    return (
        {j.arrival.id: (j.arrival.at, j.finished_at or 0.0) for j in fair},
        {j.arrival.id: j.finished_at or 0.0 for j in ours},
    )
