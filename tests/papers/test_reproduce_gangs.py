"""`headway reproduce E-D1 E-D2 E-K1`: distributed jobs, by load."""

import json
from dataclasses import replace

import pytest

from headway.papers.claims import Claim, Publication, judge, published, reasons
from headway.papers.experiments import DISTRIBUTED_ARMS, experiments
from headway.papers.measures import Runs
from headway.papers.render.tables import claim_table, verdict
from headway.papers.runner import reproduce, run_seed
from headway.sim.build import to_scenario

KEYS = {
    "experiment", "about", "seeds", "jobs", "baseline", "resource", "loads", "published", "misses",
}  # fmt: skip
ARM = {
    "arm", "waiting_s", "running_s", "elapsed_s", "makespan_s", "allocated", "useful",
    "to_quality_s", "deadlocks",
}  # fmt: skip


# -- experiments ---------------------------------------------------------------------------------


def test_the_catalogue_is_drawn_as_it_says():
    e = {name: one for name, one in experiments().items() if one.distributed}
    assert list(e) == ["E-D1", "E-D2", "E-K1"]
    assert [list(one.workloads) for one in e.values()] == [[0.6, 0.9, 1.2]] * 3
    assert [one.resource for one in e.values()] == ["gpu", "gpu", "cpu"]
    drawn = to_scenario(e["E-D1"].workloads[0.9], seed=3)
    assert (len(drawn.nodes), len(drawn.jobs)) == (2, 25)
    for job in drawn.jobs:
        ps, worker = job.spec.tasks
        assert (ps.name, ps.replicas, ps.request.cpu) == ("ps", 1, 2.0)
        assert worker.replicas in (1, 2, 3, 4)
        assert (worker.least, worker.most) == (1, 2 * worker.replicas)
        assert (worker.request.cpu, worker.request.gpu, worker.limit) == (4.0, 1.0, None)
        assert job.steps in (300, 600, 1200, 2400)
    worker = to_scenario(e["E-K1"].workloads[0.6], seed=0).jobs[0].spec.tasks[1]
    assert (worker.replicas, worker.least, worker.most, worker.limit) == (3, 1, 6, 2.0)


def test_the_load_is_what_the_jobs_need_of_the_cluster():
    """Arrival rate times the mean of what each would hold, over the capacity."""
    needed = arrived = 0.0
    for seed in range(20):
        drawn = to_scenario(experiments()["E-D1"].workloads[0.9], seed=seed)
        for job in drawn.jobs:
            w = job.spec.tasks[1].replicas
            needed += w * job.steps * (1 / w + 0.01 * w)  # GPU-seconds, on one node
        arrived += drawn.jobs[-1].at
    assert needed / (8 * arrived) == pytest.approx(0.9, rel=0.15)


# -- claims --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kips():
    """One seed of E-K1 at two loads."""
    e = experiments()["E-K1"].under("spread", "kips")
    by_load = {load: run_seed(e, load, 0)[3] for load in (0.6, 1.2)}
    return Runs(
        e,
        {
            load: {arm: [result] for arm, result in zip(e.arms, results, strict=True)}
            for load, results in by_load.items()
        },
    )


@pytest.mark.parametrize(
    ("bounds", "completions", "deadlocks", "expected"),
    [
        ({"points": 15.0}, (40.0, 55.0), (0, 1), "agrees"),
        ({"points": 15.0}, (40.0, 55.0), (1, 0), "misses"),
        ({"points": 15.0}, (40.0, 55.0), (1, 1), "agrees"),
        ({"points": 15.0}, (60.0,), (1,), "misses"),
        ({"points": 15.0}, (10.0,), (0,), "misses"),
    ],
)
def test_a_claim_must_hold_with_and_without_deadlocks(
    kips, bounds, completions, deadlocks, expected
):
    (result,) = kips.results[1.2]["spread"]
    base = [replace(result, mean_completion_s=100.0, deadlocks=n) for n in deadlocks]
    ours = [replace(result, mean_completion_s=seconds) for seconds in completions]
    runs = Runs(kips.experiment, {1.2: {"spread": base, "kips": ours}})
    claim = Claim(
        what="x", arm="kips", load=1.2, measure="mean_change", unit="%", published=-65.0,
        agrees=bounds,
    )  # fmt: skip
    assert judge(claim, runs, {}).verdict == expected


def test_the_best_load_has_the_largest_change(kips):
    for claim in published()["E-K1"].claims:
        at = [judge(claim.model_copy(update={"load": x}), kips, {}).ours[0] for x in (0.6, 1.2)]
        best = max(at) if claim.published > 0 else min(at)
        assert judge(claim, kips, {}).ours == [best]


def test_a_miss_is_listed_with_its_known_reason():
    e = experiments()["E-D1"].under("spread", "gang")
    small = replace(e, workloads={0.6: e.workloads[0.6]})
    wonder = Claim(
        what="a wonder", arm="gang", load=0.6, measure="mean_change", unit="%", published=-99.0,
        agrees={"points": 1.0}, why="much",
    )  # fmt: skip
    publication = Publication(about="x", claims=(wonder,), order=("gang", "spread"))
    (found,) = reproduce([small], [0], publications={"E-D1": publication})
    assert [row[-1] for row in claim_table(found).rows] == ["misses", "not counted: fails"]
    text = verdict(found)
    assert text.startswith("0 of 1")
    assert "1 that no text publishes, of which 0 hold" in text
    assert "A wonder (gang against spread at load 0.6)" in text
    assert reasons()["much"] in text


# -- the command ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("one_core")
@pytest.mark.untraced
def test_json_and_pages_have_every_arm_and_load(headway, tmp_path):
    page, text = tmp_path / "p.html", tmp_path / "p.md"
    ran = headway("reproduce", "E-D1", "--seeds", 1, "--json", "--html", page, "--markdown", text)
    assert ran.code == 0
    (found,) = json.loads(ran.out)
    assert set(found) == KEYS
    assert (found["experiment"], found["jobs"], found["seeds"]) == ("E-D1", 25, [0])
    assert [load["load"] for load in found["loads"]] == [0.6, 0.9, 1.2]
    for load in found["loads"]:
        assert [arm["arm"] for arm in load["arms"]] == list(DISTRIBUTED_ARMS)
        assert all(set(arm) == ARM for arm in load["arms"])
        first = load["arms"][0]
        both = first["waiting_s"]["mean"] + first["running_s"]["mean"]
        assert first["elapsed_s"]["mean"] == pytest.approx(both)
        assert first["useful"]["mean"] < first["allocated"]["mean"] <= 1
    assert len(found["published"]) == 2 + 9
    assert sum(p["counted"] for p in found["published"]) == 2
    drawn = page.read_text(encoding="utf-8")
    for measure in ("Waiting", "Running", "Elapsed", "Makespan", "Allocated", "Useful"):
        assert f"{measure} against load" in drawn
    assert "| 1.2 | dragon |" in text.read_text(encoding="utf-8")


@pytest.mark.usefixtures("one_core")
@pytest.mark.untraced
def test_single_and_distributed_experiments_share_a_page(headway, tmp_path):
    page, text = tmp_path / "p.html", tmp_path / "p.md"
    ran = headway(
        "reproduce", "E-K1", "E-F1", "--seeds", 1, "--html", page, "--markdown", text
    )  # fmt: skip
    assert ran.code == 0
    for part in (ran.out, page.read_text(encoding="utf-8"), text.read_text(encoding="utf-8")):
        assert "E-F1" in part
        assert "E-K1" in part
        assert "published figures agree" in part
