"""`spread`: the scores of kube-scheduler, and ties at random.

`tests/real/test_kubernetes_scheduler.py` compares it with the real program.
"""

from collections import Counter
from dataclasses import replace

import pytest

from headway.core.model.job import Phase, Task
from headway.core.model.units import NodeId, Resources
from headway.policy.placement.spread import (
    KubeSearch,
    Spread,
    balanced_1_17,
    balanced_allocation,
    least_allocated,
)
from headway.policy.registry import build
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.spec.workload import make_workload
from making import GIB, job, node, replica, snapshot

THESIS = {"cpu": 16.0, "memory": 64 * GIB}
MIB = 2.0**20
NONE = Resources()


def waiting(name, *, draw=0, **task):
    return replace(job(name, phase=Phase.PENDING, tasks=(Task(**task),)), draw=draw)


def placed(s, policy=None):
    plan, _ = (policy or Spread()).decide(s, None)
    return {d.job: [n for _, n in d.where] for d in plan.decisions}


def with_pods(count):
    pods = Resources(cpu=0.1 * count, memory=200 * MIB * count)
    return replace(node(**THESIS), nominal=pods, count=count)


@pytest.mark.parametrize(
    ("release", "found"),
    [
        ("1.34", [99, 98, 98, 97, 97, 97, 96, 96]),
        ("1.17", [198, 197, 197, 195, 195, 195, 193, 193]),
    ],
)
def test_on_the_nodes_of_the_thesis_two_and_three_pods_tie_and_four_to_six(release, found):
    """Pods without requests, the first to the eighth."""
    balanced = balanced_1_17 if release == "1.17" else balanced_allocation
    nodes = [with_pods(n) for n in range(8)]
    assert [least_allocated(n, NONE) + balanced(n, NONE) for n in nodes] == found


@pytest.mark.parametrize(
    ("request_", "least", "balanced", "before"),
    [
        pytest.param(Resources(cpu=1.0, memory=2 * GIB), 50, 100, 100, id="half of each"),
        pytest.param(Resources(cpu=1.0, memory=1 * GIB), 62, 87, 75, id="rounded down"),
        pytest.param(Resources(cpu=1.0), 72, 75, 54, id="memory counts as 200 MiB for the first"),
        pytest.param(Resources(cpu=3.0, memory=1 * GIB), 37, 62, 0, id="more than there is"),
    ],
)
def test_scores_are_whole_numbers(request_, least, balanced, before):
    there = node(cpu=2.0, memory=4 * GIB)
    assert least_allocated(there, request_) == least
    assert balanced_allocation(there, request_) == balanced
    assert balanced_1_17(there, request_) == before


def test_a_resource_that_a_node_does_not_have_is_not_scored():
    half = Resources(cpu=1.0)
    assert least_allocated(node(cpu=2.0, memory=0.0), half) == 50
    assert balanced_allocation(node(cpu=2.0, memory=0.0), half) == 100
    assert least_allocated(node(cpu=0.0, memory=0.0), half) == 0


def test_ties_are_drawn_by_seed_and_pod():
    nodes = [node(n, **THESIS) for n in "abcd"]

    def first(seed):
        return placed(snapshot(nodes=nodes, jobs=[waiting("x", draw=seed)]))["x"][0]

    found = Counter(first(seed) for seed in range(400))
    assert sorted(found) == list("abcd")
    expected = 100
    assert sum((n - expected) ** 2 / expected for n in found.values()) < 16.3  # p = 0.001, 3 d.f.
    assert [first(seed) for seed in range(9)] == [first(seed) for seed in range(9)]


def test_a_lower_score_is_never_drawn():
    """One pod on a, none on the others: a whole point."""
    nodes = [node(n, **THESIS) for n in "abc"]
    for seed in range(50):
        waits = waiting("x", draw=seed)
        s = snapshot(nodes=nodes, jobs=[job("y"), waits], replicas=[replica("y", on="a")])
        assert placed(s)["x"][0] in "bc"


def test_the_pods_of_one_cycle_see_those_before():
    """Four pods at once on four empty nodes: one on each, whatever the draw."""
    nodes = [node(n, **THESIS) for n in "abcd"]
    for seed in range(20):
        many = waiting("x", draw=seed, replicas=4, least=4, most=4)
        assert sorted(placed(snapshot(nodes=nodes, jobs=[many]))["x"]) == list("abcd")


def test_a_tie_is_drawn_among_the_nodes_that_will_do():
    nodes = [node("a", **THESIS), node("b", up=False), node("c", **THESIS), node("d", **THESIS)]
    allowed = tuple(map(NodeId, ("b", "c", "d", "gone")))
    found = {
        placed(snapshot(nodes=nodes, jobs=[waiting("x", draw=seed, nodes=allowed)]))["x"][0]
        for seed in range(30)
    }
    assert found == {"c", "d"}
    unseeded = waiting("x", draw=None, nodes=allowed)
    assert placed(snapshot(nodes=nodes, jobs=[unseeded])) == {"x": ["c"]}
    large = waiting("x", request=Resources(cpu=17.0))
    assert placed(snapshot(nodes=nodes, jobs=[large])) == {}


@pytest.mark.parametrize(
    ("size", "nodes", "score"),
    [
        pytest.param(92 * MIB, 1, 0, id="23 MiB for each node score nothing"),
        pytest.param(2000 * MIB, 1, 48, id="half of it where it is on one node of four"),
        pytest.param(2000 * MIB, 2, 100, id="from 1000 MiB on it is the most"),
        pytest.param(8000 * MIB, 4, 100, id="on all nodes it makes no difference"),
    ],
)
def test_an_image_counts_by_its_size_and_the_nodes_that_have_it(size, nodes, score):
    there = [
        replace(node(n, **THESIS), images=(("vae:1", size),) if i < nodes else ())
        for i, n in enumerate("abcd")
    ]
    task, other = Task(image="vae:1"), Task(image="other:1")
    search = KubeSearch(snapshot(nodes=there), "1.34")
    assert search._score(there[0], task) - search._score(there[0], Task()) == score
    assert search._score(there[0], other) == search._score(there[0], Task())
    if 0 < nodes < 4:
        assert search._score(there[3], task) == search._score(there[3], Task())


def test_nodes_with_other_images_are_not_alike():
    """The second node has the image: 48 points more than an empty node has room."""
    there = [node("a", **THESIS), replace(node("b", **THESIS), images=(("vae:1", 1000 * MIB),))]
    s = snapshot(nodes=there, jobs=[waiting("x", image="vae:1")])
    assert placed(s) == {"x": ["b"]}


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    twenty = {"every_s": 5, "jobs": 20, "profile": {"work": [2000], "demand": [16]}}
    w = make_workload(arrivals=twenty, nodes=[{"cpu": 16, "memory": "64Gi", "count": 4}])

    def ends(seed):
        world = simulate(to_scenario(w, seed=seed), build("spread"))
        return {j.arrival.id: j.finished_at for j in world.finished}

    assert ends(1) == ends(1)
    assert ends(1) != ends(2)
