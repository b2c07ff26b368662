"""`headway reproduce E-D1 E-D2 E-K1`: distributed jobs, by load."""

import json
from dataclasses import replace

import pytest

from headway.bench import gangs
from headway.errors import UnknownName
from headway.papers.gang_claims import (
    WHY,
    Claim,
    GangPublication,
    JudgedClaim,
    judged,
    published_gangs,
    spelled,
)
from headway.papers.gang_experiments import ARMS, gang_experiments, named
from headway.papers.gang_render import claim_rows, gangs_verdict
from headway.papers.gang_runner import reproduce_gangs
from headway.sim.build import to_scenario
from headway.sim.compare import run_seed

KEYS = {
    "experiment", "about", "seeds", "jobs", "baseline", "resource", "loads", "published", "misses",
}  # fmt: skip
ARM = {
    "arm", "waiting_s", "running_s", "elapsed_s", "makespan_s", "allocated", "useful",
    "to_quality_s", "deadlocks",
}  # fmt: skip


# -- what is run -------------------------------------------------------------------------------


def test_the_catalogue_is_drawn_as_it_says():
    e = gang_experiments()
    assert list(e) == ["E-D1", "E-D2", "E-K1"] == list(published_gangs())
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
        drawn = to_scenario(gang_experiments()["E-D1"].workloads[0.9], seed=seed)
        for job in drawn.jobs:
            w = job.spec.tasks[1].replicas
            needed += w * job.steps * (1 / w + 0.01 * w)  # GPU-seconds, on one node
        arrived += drawn.jobs[-1].at
    assert needed / (8 * arrived) == pytest.approx(0.9, rel=0.15)


def test_names_of_either_kind():
    single, gangs = named(["E-K1", "E-F1", "E-D1"])
    assert [e.id for e in single] == ["E-F1"]
    assert [e.id for e in gangs] == ["E-D1", "E-K1"]
    assert [len(some) for some in named([])] == [14, 3]
    with pytest.raises(UnknownName, match="E-D9"):
        named(["E-D9"])


# -- what is judged ------------------------------------------------------------------------------


def test_every_claim_is_of_an_arm_and_every_reason_is_known():
    for name, publication in published_gangs().items():
        for claim in publication.all(list(gang_experiments()[name].workloads)):
            assert {claim.arm, claim.against} <= set(ARMS)
            assert claim.why in ("", *WHY)
            assert spelled(claim)


@pytest.mark.parametrize(
    ("rule", "ours", "calm", "holds"),
    [
        ({"most": -50.0}, [-60.0, -45.0], [-60.0], True),
        ({"most": -50.0}, [-60.0, -45.0], [-45.0], False),
        ({"most": -50.0}, [-60.0, -45.0], [], True),
        ({"least": 20.0}, [19.0], [], False),
        ({"least": 20.0}, [21.0], [21.0], True),
    ],
)
def test_a_claim_must_hold_with_and_without_deadlocks(rule, ours, calm, holds):
    claim = Claim(what="x", arm="dragon", load=1.2, measure="elapsed", published=-65.0, **rule)
    assert JudgedClaim(claim=claim, load=1.2, ours=ours, calm=calm).holds is holds


def test_the_best_load_is_found():
    e = replace(gang_experiments()["E-K1"], arms=("spread", "kips"))
    runs = {}
    for load in (0.6, 1.2):
        _, results = run_seed(e.workloads[load], e.arms, 0, None, None)
        runs[load] = {arm: [result] for arm, result in zip(e.arms, results, strict=True)}
    for claim in published_gangs()["E-K1"].claims:
        found = judged(e, claim, runs)
        both = [judged(e, replace_load(claim, load), runs).ours[0] for load in runs]
        assert found.ours == [max(both) if claim.least is not None else min(both)]


def replace_load(claim, load):
    return claim.model_copy(update={"load": load})


def test_a_miss_is_named_with_what_is_known_of_it():
    e = gang_experiments()["E-D1"]
    small = replace(e, arms=("spread", "gang"), workloads={0.6: e.workloads[0.6]})
    wonder = Claim(
        what="a wonder", arm="gang", load=0.6, measure="elapsed", published="lower", most=-99.0,
        why="much",
    )  # fmt: skip
    told = GangPublication(about="x", claims=(wonder,), order=("gang", "spread"))
    found = reproduce_gangs_with(small, told)
    assert [row[-1] for row in claim_rows(found)] == ["misses", "misses"]
    said = gangs_verdict(found)
    assert said.startswith("0 of 2")
    assert "a wonder of gang against spread at load 0.6" in said
    assert WHY["much"] in said


def reproduce_gangs_with(experiment, publication):
    from headway.papers import gang_runner  # noqa: PLC0415 - patched here alone

    before = gang_runner.published_gangs
    gang_runner.published_gangs = lambda: {experiment.id: publication}
    try:
        (found,) = reproduce_gangs([experiment], [0])
    finally:
        gang_runner.published_gangs = before
    return found


# -- the command -------------------------------------------------------------------------------


def test_every_arm_and_load_is_told(headway, tmp_path):
    page, text = tmp_path / "p.html", tmp_path / "p.md"
    ran = headway("reproduce", "E-D1", "--seeds", 1, "--json", "--html", page, "--markdown", text)
    assert ran.code == 0
    (found,) = json.loads(ran.out)
    assert set(found) == KEYS
    assert (found["experiment"], found["jobs"], found["seeds"]) == ("E-D1", 25, [0])
    assert [load["load"] for load in found["loads"]] == [0.6, 0.9, 1.2]
    for load in found["loads"]:
        assert [arm["arm"] for arm in load["arms"]] == list(ARMS)
        assert all(set(arm) == ARM for arm in load["arms"])
        first = load["arms"][0]
        told = first["waiting_s"]["mean"] + first["running_s"]["mean"]
        assert first["elapsed_s"]["mean"] == pytest.approx(told)
        assert first["useful"]["mean"] < first["allocated"]["mean"] <= 1
    assert len(found["published"]) == 5 + 9
    drawn = page.read_text(encoding="utf-8")
    for measure in ("Waiting", "Running", "Elapsed", "Makespan", "Allocated", "Useful"):
        assert f"{measure} against load" in drawn
    assert "| 1.2 | dragon |" in text.read_text(encoding="utf-8")


def test_it_is_told_to_people_too(headway, tmp_path):
    page, text = tmp_path / "p.html", tmp_path / "p.md"
    ran = headway(
        "reproduce", "E-K1", "E-F1", "--seeds", 1, "--html", page, "--markdown", text
    )  # fmt: skip
    assert ran.code == 0
    assert "published figures and orders agree" in ran.out
    assert "E-F1" in page.read_text(encoding="utf-8")
    assert "E-K1" in page.read_text(encoding="utf-8")
    assert "## E-K1" in text.read_text(encoding="utf-8")


# -- the bars --------------------------------------------------------------------------------------


def test_the_bars_are_told_with_and_without_deadlocks(monkeypatch):
    class Small(dict):
        def __missing__(self, name):
            return gang_experiments()["E-D1"]

    monkeypatch.setattr(gangs, "gang_experiments", Small)
    found = gangs.bench_gangs(0, seeds=1)
    assert [(f.bar is None, f.name.split(":")[0]) for f in found[:2]] == [
        (False, "E-D1, 1 seeds"), (True, "E-D1, 1 seeds"),
    ]  # fmt: skip
    assert len(found) == 6
