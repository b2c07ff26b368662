"""The guarantee of `headway`: no job finishes later than under fair sharing.

Each row is a workload, drawn with many seeds, and the bars that hold on it. Rows differ in what is
known about job sizes, and in the number of nodes. The guarantee refers to even placement; rows
against `spread` show what remains of it beside kube-scheduler, which places by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from headway.bench.figure import Figure
from headway.papers.experiments import experiments
from headway.runtime.result import Result
from headway.sim.compare import compare, in_parallel, run_seed
from headway.spec.workload import Workload, make_workload

WORK = [40, 60, 90, 130, 200, 270]
DEMAND = {"full": [1.0], "mixed": [1, 1, 1, 0.5, 0.2]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A workload and its bars. Times are relative to fair sharing."""

    name: str
    against: str = "fair"
    experiment: str = ""
    """A workload of several nodes (`headway reproduce`), instead of those below."""
    jobs: tuple[int, ...] = (10, 15)
    """Numbers of jobs, drawn with every seed."""
    demand: str = "mixed"
    sizes: dict[str, float | bool] = field(default_factory=dict)
    knows: tuple[Any, ...] = ("all",)
    """What is known of the jobs, in turn."""
    foreign: tuple[float, float] | None = None
    """Part of the node that other processes use; changes every 30 s."""
    mean: float
    """Mean completion."""
    makespan: float = 1.05
    slower: float | None = None
    """Fraction of jobs that may be slower by more than 1 % and one second; None: not judged."""
    worst: float
    """Completion of a single job."""
    beyond: float = 0.0
    """Fraction of jobs that may exceed `worst`."""
    known: float | None = None
    """Mean of the completions of the jobs of known size, beside others."""
    unknown: tuple[float, float] = (0.95, 1.01)
    """The same of the others: least and most."""


def _both(name: str, **bars: Any) -> list[Row]:
    """A row with ten jobs and one with fifteen."""
    return [Row(name=f"{name}, {n} jobs", jobs=(n,), **bars) for n in (10, 15)]


def _clusters(experiment: str, nodes: str, mean: float, chance: float) -> list[Row]:
    """A row against even placement, and one against kube-scheduler; `chance`: its mean."""
    name = f"{nodes} nodes, {experiment}"
    return [
        Row(name=name, experiment=experiment, mean=mean, slower=0.003, worst=1.03, beyond=0.001),
        Row(name=name, experiment=experiment, against="spread", mean=chance, slower=0.25,
            worst=1.5, beyond=0.05),
    ]  # fmt: skip


# fmt: off
ROWS = [
    Row(name="full, 10 jobs", jobs=(10,), demand="full", mean=0.57, makespan=1.0, slower=0.0,
        worst=1.01),
    Row(name="full, 15 jobs", jobs=(15,), demand="full", mean=0.55, makespan=1.0, slower=0.0,
        worst=1.01),
    Row(name="mixed, 10 jobs", jobs=(10,), mean=0.69, makespan=1.0, slower=0.003, worst=1.03),
    Row(name="mixed, 15 jobs", jobs=(15,), mean=0.63, makespan=1.0, slower=0.003, worst=1.03),
    *_both("wrong by 1.5", sizes={"wrong": 1.5}, mean=0.85, makespan=1.02, worst=1.15),
    *_both("wrong by 3", sizes={"wrong": 3}, mean=0.95, makespan=1.05, worst=1.25, beyond=0.01),
    *_both("from an earlier run", sizes={"earlier": 0.1}, mean=0.75, makespan=1.01, slower=0.02,
           worst=1.10),
    *_both("loss curves alone", sizes={"curves": True}, mean=1.02, makespan=1.05, worst=1.25),
    *_both("nothing known", sizes={"nothing": True}, mean=1.02, makespan=1.05, worst=1.10),
    Row(name="two thirds known", knows=("all", "nothing", "all"), mean=0.80, known=0.68,
        slower=0.005, worst=1.03),
    Row(name="half known", knows=("all", "nothing"), mean=0.87, known=0.72, slower=0.005,
        worst=1.03),
    Row(name="a third known", knows=("nothing", "all", "nothing"), mean=0.95, known=0.80,
        slower=0.01, worst=1.05),
    Row(name="announced after 5 %", knows=({"after": "5%"},), mean=0.74, slower=0.01, worst=1.05),
    Row(name="announced after 20 %", knows=({"after": "20%"},), mean=0.82, slower=0.01, worst=1.05),
    Row(name="foreign load", foreign=(0.3, 0.6), mean=0.75, makespan=1.01, slower=0.02, worst=1.08),
    *_clusters("E-S4", "four", mean=0.78, chance=0.78),
    *_clusters("E-S5", "four", mean=0.68, chance=0.70),
    *_clusters("E-S6", "eight", mean=0.92, chance=0.89),
]
# fmt: on


def bench_promises(seeds: Sequence[int]) -> list[Figure]:
    """Every row with these seeds."""
    rows = [figure for row in ROWS for figure in evaluate(row, seeds)]
    return [*rows, *announcing(seeds)]


def workload(row: Row, jobs: int) -> Workload:
    if row.experiment:
        return experiments()[row.experiment].workloads[None]
    drawn = {"work": WORK, "vary": 0.2, "demand": DEMAND[row.demand]}
    arrivals = {"uniform": [0, 200], "jobs": jobs, "profile": drawn, "knows": row.knows}
    foreign = {"between": row.foreign, "every_s": 30} if row.foreign else ()
    return make_workload(arrivals=arrivals, sizes=row.sizes, nodes=[{"foreign": foreign}])


def evaluate(row: Row, seeds: Sequence[int]) -> list[Figure]:
    """Run a row with all seeds in parallel processes."""
    pairs = list[tuple[Result, Result]]()
    for count in row.jobs[:1] if row.experiment else row.jobs:
        fair, ours = compare(workload(row, count), [row.against, "headway"], seeds)
        pairs += zip(ours, fair, strict=True)
    means = [a.mean_completion_s / b.mean_completion_s for a, b in pairs]
    makespan = fmean(_end(a) / _end(b) for a, b in pairs)
    jobs = [job for a, b in pairs for job in zip(a.per_job, b.per_job, strict=True)]
    ratios = {x.name: list[float]() for x, _ in jobs}
    for x, y in jobs:
        ratios[x.name].append(x.completion_s / y.completion_s)
    every = [ratio for found in ratios.values() for ratio in found]
    slower = sum(a.slower for a, _ in pairs) / len(every)
    beyond = sum(ratio > row.worst for ratio in every) / len(every)
    name = f"{row.name}: " if row.against == "fair" else f"{row.name}, {row.against}: "
    return [
        Figure(name + f"mean completion against {row.against}", fmean(means), "x", row.mean),
        Figure(name + "the same, worst seed", max(means), "x"),
        Figure(name + f"makespan against {row.against}", makespan, "x", row.makespan + 1e-6),
        Figure(name + "slower jobs", slower, "", row.slower),
        Figure(name + f"jobs beyond {row.worst:g}", beyond, "", row.beyond),
        Figure(name + "worst job", max(every), "x"),
        *_classes(row, ratios),
    ]


def announcing(seeds: Sequence[int], counts: Sequence[int] = (10, 15)) -> list[Figure]:
    """Half of the jobs announce their size. For each of the others: its completion if it announces
    its size as well, against its completion if it does not.
    """
    tasks = [(count, seed) for count in counts for seed in seeds]
    ratios = [pair for found in in_parallel(_announced, tasks) for pair in found]
    worse = [told / kept for told, kept in ratios if told > 1.01 * kept + 1]
    return [
        Figure("announcing, half known: jobs worse off", len(worse) / len(ratios), "", 0.02),
        Figure("announcing, half known: worst job", max(worse, default=1.0), "x", 1.15),
        Figure("announcing, half known: mean", fmean(told / kept for told, kept in ratios), "x"),
    ]


def _announced(count: int, seed: int) -> list[tuple[float, float]]:
    """Return the completion of each job of unknown size with and without an announcement."""
    half = next(row for row in ROWS if row.name == "half known")
    knows = [half.knows[i % len(half.knows)] for i in range(count)]

    def completions(knows: Sequence[Any]) -> list[float]:
        drawn = workload(replace(half, knows=tuple(knows)), count)
        _, [result] = run_seed(drawn, ["headway"], seed, None, None)
        return [job.completion_s for job in sorted(result.per_job, key=lambda job: job.name)]

    kept = completions(knows)
    unknown = [i for i in range(count) if knows[i] == "nothing"]
    told = {i: completions([*knows[:i], "all", *knows[i + 1 :]])[i] for i in unknown}
    return [(told[i], kept[i]) for i in unknown]


def _classes(row: Row, ratios: dict[str, list[float]]) -> list[Figure]:
    """Means of the jobs of known and of unknown size, where there are both."""
    if row.known is None:
        return []
    classes: dict[bool, list[float]] = {True: [], False: []}
    for name, found in ratios.items():
        number = int(name.rpartition("-")[2]) - 1
        classes[row.knows[number % len(row.knows)] == "all"] += found
    low, high = row.unknown
    unknown = fmean(classes[False])
    return [
        Figure(f"{row.name}: jobs of known size", fmean(classes[True]), "x", row.known),
        Figure(f"{row.name}: jobs of unknown size", unknown, "x", high),
        Figure(f"{row.name}: the same, inverse", 1 / unknown, "x", 1 / low),
    ]


def _end(result: Result) -> float:
    return max(j.finished_s for j in result.per_job)
