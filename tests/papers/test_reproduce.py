"""`headway reproduce`: the papers' experiments with single-replica jobs."""

import hashlib
import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from headway.core.cycle.validate import Verdict
from headway.core.model.decision import Move
from headway.core.model.job import Mode
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import ReplicaId
from headway.errors import UnknownName
from headway.papers.claims import Rule, figures, published, reasons
from headway.papers.experiments import OURS, experiments, select
from headway.papers.measures import MEASURES, SLOPES, overlap
from headway.papers.observed import MoveJournal, ObservedRun
from headway.papers.render.experiments_page import charts
from headway.papers.render.tables import arm_table, claim_table, verdict
from headway.papers.runner import reproduce
from headway.report.run_timeline import Integral
from headway.runtime.result import JobResult
from headway.sim.build import to_curve, to_scenario
from headway.sim.timeline import Stay
from headway.spec.catalogue import pool

KEYS = {"experiment", "about", "seeds", "jobs", "baseline", "arms", "published", "misses"}
ARM = {
    "arm", "mean_completion_s", "median_completion_s", "p95_completion_s", "makespan_s", "better",
    "worse", "losers", "best_change_percent", "worst_change_percent", "moves",
    "growth_efficiency", "cpu_by_node",
}  # fmt: skip


def single():
    return {name: e for name, e in experiments().items() if not e.distributed}


# -- experiments --------------------------------------------------------------------------------


def test_the_catalogue_is_unchanged():
    digest = hashlib.sha256((files("headway") / "data" / "catalogue.yaml").read_bytes())
    assert digest.hexdigest() == "50d89e4803ca84df6881d2fe05f85d7c74aabca4e2ad4cb412d54d4ded38902c"


def test_the_curves_of_the_specon_pool_pass_through_figure_3_1():
    curves = {name: to_curve(p.curve, p.steps, Path()) for name, p in pool("specon").items()}
    at = {name: curve.improvement(np.array([0.2, 0.27])) for name, curve in curves.items()}
    assert [at[m][0] for m in ("vae", "birnn", "gru")] == pytest.approx([0.65, 0.98, 0.90])
    assert at["gru"][1] == pytest.approx(0.99, abs=0.0002)


def test_every_experiment_of_the_catalogue_makes_a_scenario():
    listed = single()
    assert list(listed) == [
        *(f"E-F{i}" for i in range(1, 5)),
        *(f"E-G{i}" for i in range(1, 4)),
        *(f"E-S{i}" for i in range(1, 8)),
    ]
    jobs = {"E-F1": 3, "E-F2": 5, "E-F4": 15, "E-G2": 60, "E-S1": 20, "E-S6": 50, "E-S7": 25}
    for name, experiment in listed.items():
        scenario = to_scenario(experiment.workloads[None], seed=1)
        assert len(scenario.jobs) == jobs.get(name, len(scenario.jobs))
        whole = {round(n.capacity.cpu * n.speed, 9) for n in scenario.nodes}
        assert whole == ({0.5, 1.0, 2.0} if name == "E-G2" else {1.0})
        assert {n.capacity.cpu for n in scenario.nodes} == {1 if "F" in name else 16}
        assert all(job.spec.checkpoint is Mode.SDK for job in scenario.jobs), "jobs can move"
        costs = scenario.costs
        assert (costs.save, costs.restore, costs.sd) == (2.5, 2.5, 1.43)
    speeds = [n.speed * 16 for n in to_scenario(listed["E-G2"].workloads[None]).nodes]
    assert speeds == [2, 2, 1, 1, 1, 0.5, 0.5, 0.5]


def test_arms_are_baseline_paper_corrected_and_ours():
    five = experiments()["E-F2"].arms
    assert five[:2] == ("fair", "flowcon:paper,threshold=0.03,interval=30")
    assert five[-2:] == ("flowcon", OURS)
    assert len(experiments()["E-F1"].arms) == 1 + 25 + 2
    assert experiments()["E-S7"].arms == ("spread", "specon:paper", "specon", "even", OURS)


def test_jobs_of_an_arrival_trace_are_numbered_and_their_models_are_known():
    jobs = experiments()["E-S7"].workloads[None].jobs
    assert [j.at for j in jobs] == sorted(j.at for j in jobs)
    assert (jobs[0].name, jobs[0].model, jobs[-1].name) == ("job-01", "drnn", "job-25")
    assert {j.model for j in jobs} == {"drnn", "gru", "birnn", "rnn", "vae"}


# -- claims -------------------------------------------------------------------------------------


def test_claims_are_about_arms_jobs_and_measures_that_exist():
    assert set(published()) == set(experiments())
    for name, experiment in experiments().items():
        (workload, *_) = experiment.workloads.values()
        known = {j.id for j in to_scenario(workload, seed=0).jobs}
        for claim in published()[name].all_claims(experiment):
            assert claim.measure in (*MEASURES, *SLOPES)
            assert (claim.measure in SLOPES) <= isinstance(claim.at, tuple)
            assert set(claim.arms_in(experiment)) <= set(experiment.arms)
            assert claim.against in ("", *experiment.arms)
            assert set(claim.jobs) <= known
            assert claim.at in (None, "baseline", *experiment.settings)
            assert set(claim.over) <= set(experiment.settings)
            assert (claim.at is None and not claim.over) <= (len(experiment.settings) < 2)
            assert claim.load in (*experiment.workloads, "best" if experiment.distributed else None)
            assert claim.agrees.lower_than in ("", *experiments())
            assert claim.why in ("", *reasons())
            assert claim.agrees.describe(claim.unit)


@pytest.mark.parametrize(
    ("rule", "value", "ours", "verdict"),
    [
        ({"direction": -1}, "lower", [-0.2], "agrees"),
        ({"direction": -1}, "lower", [0.0], "misses"),
        ({"direction": 1}, "higher", [0.2], "agrees"),
        ({"part": 0.1}, 100.0, [91.0], "agrees"),
        ({"part": 0.1}, 100.0, [89.0], "misses"),
        ({"part": 0.1}, 100.0, [111.0], "misses"),
        ({"points": 5}, -10.0, [-14.0], "agrees"),
        ({"points": 5}, -10.0, [-16.0], "misses"),
        ({"points": 5}, -2.0, [0.0], "misses"),
        ({"points": 5}, -2.0, [1.0], "misses"),
        ({"points": 5}, (20.0, 30.0), [66.6], "misses"),
        ({"points": 5}, (20.0, 30.0), [16.0], "agrees"),
        ({"among": True}, -40.0, [-50.0, -10.0], "agrees"),
        ({"among": True}, -40.0, [-30.0, -10.0], "misses"),
        ({"among": True}, -40.0, [-60.0, -50.0], "misses"),
        ({"lower_than": "E-G3"}, "more", [1.0], "open"),
    ],
)
def test_a_rule_judges_the_mean_over_the_seeds(rule, value, ours, verdict):
    assert Rule(**rule).judge(value, ours) == verdict


def test_every_rule_accepts_the_published_figure_itself():
    claims = [c for p in published().values() for c in p.claims]
    numbers = [c for c in claims if not isinstance(c.published, str)]
    assert len(numbers) > 80
    for claim in numbers:
        ends = claim.published if isinstance(claim.published, tuple) else (claim.published,)
        for end in ends:
            assert claim.agrees.judge(claim.published, [end]) == "agrees", claim.what


def test_a_claim_may_compare_with_another_experiment():
    rule = published()["E-G2"].claims[0].agrees
    assert rule.judge("larger gain", [-5.0], [-3.0]) == "agrees"
    assert rule.judge("larger gain", [-5.0], [-7.0]) == "misses"


def test_a_claim_has_exactly_one_rule():
    with pytest.raises(ValueError, match="one rule"):
        Rule(among=True, points=3)


@pytest.mark.parametrize(
    ("rule", "unit", "text"),
    [
        ({"points": 8.5}, "%", "same direction, within 8.5 points"),
        ({"points": 4}, "jobs", "same direction, within 4"),
        ({"part": 0.1}, "s", "within 10 %"),
        ({"direction": -1}, "%", "lower"),
        ({"direction": 1}, "%", "higher"),
    ],
)
def test_a_rule_describes_itself(rule, unit, text):
    assert Rule(**rule).describe(unit) == text


# -- measures -----------------------------------------------------------------------------------


def job(name, began, ended):
    return JobResult(
        name=name,
        submitted_s=began,
        started_s=began,
        finished_s=ended,
        steps=1,
        moves=0,
        outcome="succeeded",
    )


def test_overlap_is_how_long_all_ran_together():
    jobs = [job("a", 0, 100), job("b", 40, 90), job("c", 80, 200)]
    assert overlap(jobs[:2]) == 50
    assert overlap(jobs) == 10
    assert overlap([jobs[0], job("d", 150, 160)]) == 0


def test_an_integral_follows_its_step_function():
    integral = Integral([(10.0, 1.0), (20.0, 0.5), (30.0, 0.0)])
    assert [integral.at(t) for t in (0, 15, 20, 26, 99)] == [0, 5, 10, 13, 15]


def test_a_move_is_marked_by_its_reason():
    moves = MoveJournal()
    for at, to, why in ((10.0, "b", "converged: -M"), (50.0, "c", "evened out: -R")):
        move = Move(replica=ReplicaId("j/main-0"), to=to, reason=why)
        seen = Observation(at=at, complete=False)
        moves.intend(Trigger.TICK, seen, None, Verdict(accepted=(move,), refused=()), None)
    moves.settle(())
    stays = [Stay(ReplicaId("j/main-0"), node, at, at + 9, moved_in=node != "a")
             for node, at in (("a", 0.0), ("b", 15.0), ("c", 55.0))]  # fmt: skip
    assert [moves.mark(stay) for stay in stays] == ["", "-M", "-R"]


def test_mean_cpu_of_a_node_covers_the_whole_run():
    cpu = {"a": [(0.0, 1.0), (50.0, 0.0)], "b": [(0.0, 0.5), (100.0, 0.0)]}
    seen = ObservedRun([], ["a", "b"], 2.0, {}, [], cpu, [(20.0, 0.1), (40.0, 0.3)], {})
    assert (seen.mean_cpu("a"), seen.mean_cpu("b")) == (0.5, 0.5)
    assert seen.mean_growth == pytest.approx(0.2)


# -- the command -------------------------------------------------------------------------------


def test_three_jobs_as_published(headway):
    ran = headway("reproduce", "E-F1", "--seeds", 1, "--json")
    assert ran.code == 0
    (found,) = json.loads(ran.out)
    assert set(found) == KEYS
    assert set(found["arms"][0]) == ARM
    assert (found["experiment"], found["jobs"], found["seeds"]) == ("E-F1", 3, [0])
    makespan, last, *_ = found["published"]
    assert makespan["ours"]["mean"] == pytest.approx(394.2)
    assert last["ours"]["mean"] == pytest.approx(84.6)
    assert (makespan["verdict"], last["verdict"]) == ("agrees", "agrees")
    together = [p["ours"]["mean"] for p in found["published"] if "together" in p["what"]]
    assert together[::2] == pytest.approx([240.2, 84.6], abs=0.1)
    assert found["arms"][0]["cpu_by_node"] == {"node-0": pytest.approx(1.0)}
    assert found["misses"] == sum(p["verdict"] == "misses" for p in found["published"])
    assert sum(p["counted"] for p in found["published"]) == 23
    assert all(p["why"] for p in found["published"][2:7])


def test_the_tables_name_the_misses_and_the_page_has_the_charts(headway, tmp_path):
    page, text = tmp_path / "deep" / "page.html", tmp_path / "reproduced.md"
    ran = headway("reproduce", "E-F1", "E-F2", "--seeds", 1, "--html", page, "--markdown", text)
    assert ran.code == 0
    assert "of 23 published figures agree. Not counted: 4" in ran.out
    assert "Makespan (5 %, 20 s" in ran.out
    assert "of 35 published figures agree. Not counted: 4" in " ".join(ran.out.split())
    assert "Fitted: the job sizes" in ran.out
    assert "decision 0034" in " ".join(ran.out.split())
    drawn = page.read_text(encoding="utf-8")
    for number in ("3.1", *(f"6.{i}" for i in range(1, 10))):
        assert f"Figure {number}: " in drawn
    assert "6.11: " not in drawn
    written = text.read_text(encoding="utf-8")
    assert "## E-F2" in written
    assert "| makespan | 5 %, 20 s | -2 % |" in written


def test_an_unknown_experiment_is_named_with_the_known_ones(headway):
    ran = headway("reproduce", "E-F9")
    assert ran.code == 2
    assert "E-F9" in ran.err
    assert "E-S6" in ran.err
    assert "E-D1" in ran.err
    assert "headway reproduce" in headway("reproduce", "--help").out


@pytest.mark.usefixtures("one_core")
@pytest.mark.untraced
def test_a_cluster_has_charts_by_node_and_claims_across_experiments():
    found = reproduce(select(["E-S5", "E-S7", "E-G2"]), [0])
    g2, s5, s7 = found
    drawn = "".join(charts(s5))
    for number in ("6.20", "6.21", "6.22", "6.23", "6.24"):
        assert f"Figure {number}: " in drawn
    assert "Figure" not in "".join(charts(s7))
    assert verdict(s7).startswith("Nothing is published")
    assert [row[-1] for row in claim_table(g2).rows] == ["open: not run", "open"]
    assert verdict(g2).startswith("0 of 0 published figures agree. Not counted: 2 open. Open: ")
    assert '"the largest"' in verdict(g2), "the abstract contradicts itself"


@pytest.mark.usefixtures("one_core")
@pytest.mark.untraced
def test_ours_is_compared_with_kube_scheduler_and_with_even_placement():
    """Guarantees refer to even placement: against it no job is slower."""
    (found,) = reproduce(select(["E-S5"]), [0])
    table = arm_table(found)
    by_chance, even = [dict(zip(table.header, row, strict=True)) for row in table.rows[-2:]]
    assert (by_chance["arm"], even["arm"]) == ("headway", "headway against even")
    assert float(even["losers"]) == 0 < float(by_chance["losers"])
    assert by_chance["mean"] == even["mean"], "the same runs"
    assert arm_table(reproduce(select(["E-F1"]), [0])[0]).rows[-1][0] == "headway"


@pytest.mark.untraced
def test_ten_jobs_have_the_growth_of_two_of_them():
    (found,) = reproduce(select(["E-F3"]), [0])
    drawn = "".join(charts(found))
    for number in ("6.10", "6.11", "6.12", "6.13", "6.14"):
        assert f"Figure {number}: " in drawn
    run = found.observed[found.shown]
    by_job = dict.fromkeys((at for at, _ in run.growth), 0.0)
    for line in run.growth_by_job.values():
        for at, growth in line:
            by_job[at] += growth
    assert list(by_job.items()) == run.growth


def test_every_chart_with_a_number_is_in_the_list_of_figures():
    listed = {}
    for figure in figures():
        for part in figure.number.split(", "):
            first, _, last = part.partition(" to ")
            numbers = [first] if not last else [f"6.{i}" for i in range(16, 21)]
            listed |= dict.fromkeys(numbers, figure.here)
    for publication in published().values():
        drawn = [number for numbers in publication.figures.values() for number in numbers]
        for number in (*drawn, *publication.growth):
            assert listed[number].startswith("drawn")
    assert {f"6.{i}" for i in range(1, 26)} <= set(listed)


def test_only_what_a_text_publishes_is_counted():
    for experiment in experiments().values():
        claims = list(published()[experiment.id].all_claims(experiment))
        for claim in claims:
            assert (claim.what == "elapsed, in order") == (claim.source == "none")
            assert ("published chart" in claim.what) == (claim.source == "repository")
            ours = {"dragon", OURS, "flowcon", "flowcon2", "specon", "gang", "gang+locality"}
            assert claim.source == "none" or not ours & set(claim.arms_in(experiment))


def test_claims_that_the_model_table_was_derived_from_are_baselines():
    given = [c for p in published().values() for c in p.claims if c.given]
    assert len(given) == 8
    assert all(c.at == "baseline" for c in given)


def test_experiments_are_selected_in_the_order_of_the_catalogue():
    assert [e.id for e in select(["E-K1", "E-S1", "E-F2"])] == ["E-F2", "E-S1", "E-K1"]
    assert len(select([])) == 17
    with pytest.raises(UnknownName, match="E-D9"):
        select(["E-D9"])
