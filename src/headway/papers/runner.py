"""The papers' experiments run again: every arm on the same jobs, seed by seed, and what came out
held against what was published.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from headway.papers.claims import WHY, Figure, Publication, Verdict, judge, published, spelled
from headway.papers.experiments import Experiment
from headway.papers.measures import Runs, arm_of, better, change, changes, measured, worse
from headway.papers.observed import Moves, Watched, watch
from headway.policy.registry import build
from headway.runtime.result import Result, over_seeds
from headway.sim.build import to_scenario
from headway.sim.compare import in_parallel
from headway.sim.driver import simulate
from headway.sim.summary import summary

Progress = Callable[[int, int], None]
TIMES = ("mean_completion_s", "median_completion_s", "p95_completion_s", "makespan_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A published figure beside ours."""

    figure: Figure
    arm: str
    ours: list[float]
    """By seed."""
    verdict: Verdict

    @property
    def why(self) -> str:
        """Why it misses, where that is known."""
        return WHY.get(self.figure.why, "") if self.verdict == "misses" else ""

    def plain(self) -> dict[str, Any]:
        return {
            "what": self.figure.what,
            "arm": self.arm,
            "unit": self.figure.unit,
            "published": self.figure.published,
            "ours": over_seeds(self.ours),
            "agrees_if": spelled(self.figure),
            "verdict": self.verdict,
            "given": self.figure.given,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduced:
    experiment: Experiment
    publication: Publication
    runs: Runs
    watched: dict[str, Watched]
    """The first seed, by arm."""
    judged: list[Judged]

    @property
    def baseline(self) -> list[Result]:
        return self.runs[self.experiment.baseline]

    @property
    def misses(self) -> list[Judged]:
        return [j for j in self.judged if j.verdict == "misses"]

    @property
    def shown(self) -> str:
        """The arm that the paper's pictures are of."""
        return self.experiment.arm(self.publication.shown)


def reproduce(
    experiments: Sequence[Experiment],
    seeds: Sequence[int],
    progress: Progress = lambda done, total: None,
) -> list[Reproduced]:
    for experiment in experiments:
        for arm in experiment.arms:
            build(arm)  # an unknown name should not cost a simulation
    tasks = [(e, seed, seed == seeds[0]) for e in experiments for seed in seeds]
    results: dict[tuple[str, int], list[Result]] = {}
    watched: dict[str, dict[str, Watched]] = {}
    for done, (name, seed, found, seen) in enumerate(in_parallel(run_seed, tasks), 1):
        results[name, seed] = found
        watched.update({name: seen} if seen else {})
        progress(done, len(tasks))
    runs = {
        e.id: {arm: [results[e.id, s][i] for s in seeds] for i, arm in enumerate(e.arms)}
        for e in experiments
    }
    by_name = {e.id: e for e in experiments}
    return [
        Reproduced(
            experiment=e,
            publication=published()[e.id],
            runs=runs[e.id],
            watched=watched[e.id],
            judged=[_judged(figure, e, by_name, runs) for figure in published()[e.id].figures],
        )
        for e in experiments
    ]


Ran = tuple[str, int, list[Result], dict[str, Watched]]


def run_seed(experiment: Experiment, seed: int, closely: bool) -> Ran:
    """All arms on the jobs of one seed; `closely`: keep what pictures are made of."""
    scenario = to_scenario(experiment.workload, seed=seed)
    results: list[Result] = []
    seen: dict[str, Watched] = {}
    for arm in experiment.arms:
        moves = Moves()
        world = simulate(scenario, build(arm), journal=moves, record=closely)
        results.append(summary(world, arm, results[0] if results else None))
        if closely:
            seen[arm] = watch(world, moves)
    return experiment.id, seed, results, seen


def _judged(
    figure: Figure, experiment: Experiment, known: Mapping[str, Experiment], runs: dict[str, Runs]
) -> Judged:
    ours = measured(figure, experiment, runs[experiment.id])
    other = known.get(figure.agrees.lower_than)
    held = measured(figure, other, runs[other.id]) if other else None
    arm = arm_of(figure, experiment)
    return Judged(figure=figure, arm=arm, ours=ours, verdict=judge(figure, ours, held))


# -- plain data --------------------------------------------------------------------------------


def plain(found: Reproduced) -> dict[str, Any]:
    """One object an experiment, for `--json`."""
    first = found.baseline[0]
    return {
        "experiment": found.experiment.id,
        "about": found.publication.about,
        "seeds": [r.seed for r in found.baseline],
        "jobs": first.jobs,
        "baseline": found.experiment.baseline,
        "arms": [arm_figures(found, arm) for arm in found.runs],
        "published": [j.plain() for j in found.judged],
        "misses": len(found.misses),
    }


def arm_figures(found: Reproduced, arm: str) -> dict[str, Any]:
    """Means over the seeds; a change in % is the mean of each seed's."""
    ours, seen = found.runs[arm], found.watched[arm]
    pairs = list(zip(ours, found.baseline, strict=True))
    times: dict[str, Any] = {}
    for name in TIMES:
        spread = over_seeds([getattr(r, name) for r in ours]) or {}
        by = fmean(change(getattr(a, name), getattr(b, name)) for a, b in pairs)
        times[name] = {"mean": spread["mean"], "sd": spread["sd"], "change_percent": by}
    return {
        "arm": arm,
        **times,
        "better": fmean(better(a, b) for a, b in pairs),
        "worse": fmean(worse(a, b) for a, b in pairs),
        "losers": fmean(a.slower for a in ours),
        "best_change_percent": min(min(changes(a, b)) for a, b in pairs),
        "worst_change_percent": max(max(changes(a, b)) for a, b in pairs),
        "moves": fmean(a.moves for a in ours),
        "growth_efficiency": seen.mean_growth,
        "cpu_by_node": {node: seen.mean_cpu(node) for node in seen.nodes},
    }
