"""The experiments with distributed jobs, run again: every arm, every load, seed by seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from headway.papers.gang_claims import (
    MEASURES,
    GangPublication,
    JudgedClaim,
    Runs,
    changes,
    judged,
    published_gangs,
    value,
)
from headway.papers.gang_experiments import GangExperiment
from headway.policy.registry import build
from headway.runtime.result import Result, over_seeds
from headway.sim.build import to_scenario
from headway.sim.compare import in_parallel
from headway.sim.driver import simulate
from headway.sim.summary import summary

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangsReproduced:
    experiment: GangExperiment
    publication: GangPublication
    runs: Runs
    judged: list[JudgedClaim]

    @property
    def seeds(self) -> list[int]:
        return [r.seed for r in next(iter(self.runs.values()))[self.experiment.baseline]]

    @property
    def misses(self) -> list[JudgedClaim]:
        return [j for j in self.judged if not j.holds]


def reproduce_gangs(
    experiments: Sequence[GangExperiment],
    seeds: Sequence[int],
    progress: Progress = lambda done, total: None,
) -> list[GangsReproduced]:
    tasks = [(e, load, seed) for e in experiments for load in e.workloads for seed in seeds]
    found: dict[tuple[str, float, int], list[Result]] = {}
    for done, (name, load, seed, results) in enumerate(in_parallel(run_gangs, tasks), 1):
        found[name, load, seed] = results
        progress(done, len(tasks))
    return [_reproduced(e, found, seeds) for e in experiments]


def run_gangs(
    experiment: GangExperiment, load: float, seed: int
) -> tuple[str, float, int, list[Result]]:
    """All arms on the jobs of one seed."""
    scenario = to_scenario(experiment.workloads[load], seed=seed)
    results: list[Result] = []
    for arm in experiment.arms:
        world = simulate(scenario, build(arm))
        results.append(summary(world, arm, results[0] if results else None))
    return experiment.id, load, seed, results


def _reproduced(
    e: GangExperiment, found: dict[tuple[str, float, int], list[Result]], seeds: Sequence[int]
) -> GangsReproduced:
    runs: Runs = {
        load: {arm: [found[e.id, load, s][i] for s in seeds] for i, arm in enumerate(e.arms)}
        for load in e.workloads
    }
    publication = published_gangs()[e.id]
    claims = [judged(e, claim, runs) for claim in publication.all(list(e.workloads))]
    return GangsReproduced(experiment=e, publication=publication, runs=runs, judged=claims)


def plain_gangs(one: GangsReproduced) -> dict[str, Any]:
    """One object an experiment, for `--json`."""
    e = one.experiment
    return {
        "experiment": e.id,
        "about": one.publication.about,
        "seeds": one.seeds,
        "jobs": next(iter(one.runs.values()))[e.baseline][0].jobs,
        "baseline": e.baseline,
        "resource": e.resource,
        "loads": [
            {"load": load, "arms": [gang_figures(one, load, arm) for arm in e.arms]}
            for load in one.runs
        ],
        "published": [j.plain() for j in one.judged],
        "misses": len(one.misses),
    }


def gang_figures(one: GangsReproduced, load: float, arm: str) -> dict[str, Any]:
    """Means over the seeds; a change is the mean of each seed's, in %."""
    e, ours = one.experiment, one.runs[load][arm]
    figures: dict[str, Any] = {"arm": arm}
    for measure in MEASURES:
        spread = over_seeds([value(r, measure, e.resource) for r in ours]) or {}
        by = fmean(changes(ours, one.runs[load][e.baseline], measure, e.resource))
        name = measure if measure in ("allocated", "useful") else f"{measure}_s"
        figures[name] = {"mean": spread["mean"], "sd": spread["sd"], "change_percent": by}
    quality = [r.mean_time_to_quality_s for r in ours if r.mean_time_to_quality_s is not None]
    figures["to_quality_s"] = fmean(quality) if quality else None
    figures["deadlocks"] = sum(r.deadlocks for r in ours)
    return figures
