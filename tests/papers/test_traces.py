"""What the paper modes do in the papers' own experiments, decision by decision."""

from collections import Counter

import pytest

from headway.core.estimate.category import Category
from headway.papers.experiments import experiments, select
from headway.papers.observed import REBALANCED, MoveJournal
from headway.policy.registry import build
from headway.runtime.journal import Journal
from headway.sim.build import to_scenario
from headway.sim.driver import simulate

G, W, C = Category.GROWING, Category.WATCHED, Category.CONVERGED


class CategoryJournal(Journal):
    """Keeps, for each job and decision, how often it has reported and its category after it."""

    def __init__(self):
        self.reports, self.seen = Counter(), []

    def intend(self, trigger, seen, plan, verdict, memory):
        del trigger, plan, verdict
        self.reports.update(r.replica for r in seen.reports)
        for node in memory.members[1].members.values():
            for replica, category in node.categories.items():
                self.seen.append((seen.at, replica.job, self.reports[replica], category))

    def of(self, reports):
        """The categories of all jobs at decisions after this many reports."""
        return {category for _, _, count, category in self.seen if count == reports}


def traced(arm):
    journal = CategoryJournal()
    scenario = to_scenario(experiments()["E-F1"].workloads[None], seed=0)
    simulate(scenario, build(arm), journal=journal)
    return journal


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.15])
@pytest.mark.parametrize("interval", [20, 30, 60])
def test_in_flowcon_a_newcomer_is_new_until_it_has_reported(alpha, interval):
    """Algorithm 2, line 7. Its first report may make it watched, and only its second converged."""
    found = traced(f"flowcon:paper,threshold={alpha},interval={interval}")
    assert found.of(0) == {G}
    assert {job for _, job, count, _ in found.seen if count == 0} == {
        "vae-torch",
        "mnist-torch",
        "mnist-tf",
    }
    assert C not in found.of(1)
    assert W in found.of(1)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.15])
@pytest.mark.parametrize("interval", [20, 30, 60])
def test_in_flowcon_a_newcomer_may_be_new_until_its_second_report(alpha, interval):
    """The other reading: growth between two intervals needs two reports."""
    found = traced(f"flowcon:paper,threshold={alpha},interval={interval},cold_start=unknown")
    assert found.of(0) == found.of(1) == {G}
    assert C not in found.of(2)
    assert W in {category for _, _, count, category in found.seen if count >= 2}


def test_in_flowcon_vae_is_converged_when_the_second_job_arrives():
    """Thesis 6.1.3: its limit is 0.25 from 40 s on, so it was in WL at 20 s, after one report."""
    found = traced("flowcon:paper,threshold=0.05,interval=20")
    vae = {at: category for at, job, _, category in found.seen if job == "vae-torch"}
    assert [vae[at] for at in (0.0, 20.0, 40.0)] == [G, W, C]
    other = traced("flowcon:paper,threshold=0.05,interval=20,cold_start=unknown")
    vae = {at: category for at, job, _, category in other.seen if job == "vae-torch"}
    assert [vae[at] for at in (0.0, 20.0, 40.0, 60.0)] == [G, G, W, C], "too late for 6.1.3"


@pytest.mark.untraced
@pytest.mark.parametrize("name", ["E-S4", "E-S5"])
def test_in_specon_most_runs_are_rebalanced(name):
    """Thesis 6.2.3, figure 6.22: jobs move again (-R) after all have converged."""
    (experiment,) = select([name])
    rebalanced = 0
    for seed in range(10):
        moves = MoveJournal()
        scenario = to_scenario(experiment.workloads[None], seed=seed)
        simulate(scenario, build(experiment.paper_arm(None)), journal=moves)
        rebalanced += any(REBALANCED in reason for *_, reason in moves.made)
    assert rebalanced >= 5


@pytest.mark.untraced
def test_in_specon_the_jobs_of_the_fixed_schedule_converge():
    """Thesis 6.2.2, α = 0.01: without convergence, no job could gain by a migration."""

    class Converged(Journal):
        def intend(self, trigger, seen, plan, verdict, memory):
            del trigger, seen, plan, verdict
            judged = memory.members[0].judged
            found.update(r.job for r, j in judged.items() if j.category is C)

    found = set()
    (experiment,) = select(["E-S1"])
    scenario = to_scenario(experiment.workloads[None], seed=0)
    simulate(scenario, build(experiment.paper_arm(None)), journal=Converged())
    assert len(found) == 20
