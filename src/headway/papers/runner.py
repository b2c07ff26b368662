"""Run the papers' experiments: every arm on the same jobs, seed by seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.papers.claims import JudgedClaim, Publication, judge, published
from headway.papers.experiments import Experiment, Load
from headway.papers.measures import Runs
from headway.papers.observed import MoveJournal, ObservedRun, observe
from headway.policy.registry import build
from headway.runtime.result import Result
from headway.sim.build import to_scenario
from headway.sim.compare import Progress, in_parallel
from headway.sim.driver import simulate
from headway.sim.summary import summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    experiment: Experiment
    publication: Publication
    runs: Runs
    observed: dict[str, ObservedRun]
    """The first seed by arm; empty for distributed jobs."""
    judged: list[JudgedClaim]

    @property
    def misses(self) -> list[JudgedClaim]:
        return [j for j in self.judged if j.counted and j.verdict == "misses"]

    @property
    def shown(self) -> str:
        """The arm of the paper's figures."""
        return self.experiment.paper_arm(self.publication.shown)


def reproduce(
    experiments: Sequence[Experiment],
    seeds: Sequence[int],
    progress: Progress = lambda done, total: None,
    publications: Mapping[str, Publication] | None = None,
) -> list[Reproduction]:
    for arm in {arm for e in experiments for arm in e.arms}:
        build(arm)  # fail on an unknown policy before the first simulation
    tasks = [
        (e, load, seed, seed == seeds[0] and not e.distributed)
        for e in experiments
        for load in e.workloads
        for seed in seeds
    ]
    results: dict[tuple[str, Load, int], list[Result]] = {}
    observed: dict[str, dict[str, ObservedRun]] = {e.id: {} for e in experiments}
    for done, (name, load, seed, found, seen) in enumerate(in_parallel(run_seed, tasks), 1):
        results[name, load, seed] = found
        observed[name] |= seen
        progress(done, len(tasks))
    runs = {e.id: Runs(e, {}) for e in experiments}
    for e in experiments:
        for load in e.workloads:
            by_arm = zip(*(results[e.id, load, seed] for seed in seeds), strict=True)
            runs[e.id].results[load] = dict(zip(e.arms, map(list, by_arm), strict=True))
    known = published() if publications is None else publications
    return [
        Reproduction(
            experiment=e,
            publication=known[e.id],
            runs=runs[e.id],
            observed=observed[e.id],
            judged=[judge(claim, runs[e.id], runs) for claim in known[e.id].all_claims(e)],
        )
        for e in experiments
    ]


SeedRun = tuple[str, Load, int, list[Result], dict[str, ObservedRun]]


def run_seed(experiment: Experiment, load: Load, seed: int, closely: bool = False) -> SeedRun:
    """Run all arms on the jobs of one seed; `closely`: record what charts need."""
    scenario = to_scenario(experiment.workloads[load], seed=seed)
    results: list[Result] = []
    observed: dict[str, ObservedRun] = {}
    for arm in experiment.arms:
        moves = MoveJournal()
        world = simulate(scenario, build(arm), journal=moves if closely else None, record=closely)
        results.append(summary(world, arm, results[0] if results else None))
        if closely:
            observed[arm] = observe(world, moves)
    return experiment.id, load, seed, results, observed
