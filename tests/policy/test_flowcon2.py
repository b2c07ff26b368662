"""FlowCon 2.0, our reconstruction (docs/papers/flowcon2.md)."""

import pytest

from headway.core.estimate.category import Category
from headway.core.model.decision import Place, SetShare
from headway.core.model.job import Phase, Task
from headway.core.model.report import Usage
from headway.core.model.snapshot import Trigger
from headway.core.model.units import ReplicaId, Resources
from headway.policy.placement.flowcon2 import FlowCon2
from headway.policy.registry import build
from headway.policy.share.flowcon import FlowCon, FlowConMemory
from making import heard, job, node, replica, snapshot

LETTER = {"N": Category.GROWING, "W": Category.WATCHED, "C": Category.CONVERGED}


def place(policy=None, *, new=("new",), nodes=None, used=None, starting=(), **words):
    """Where new jobs go in a cluster such as `n1="N W C"`: growing, watched, converged."""
    policy = policy or FlowCon2()
    memory, replicas = policy.begin(), []
    for name, text in words.items():
        here = dict(zip("abcdefgh", text.split(), strict=False))
        replicas += [replica(f"{name}{letter}", on=name) for letter in here]
        known = {
            ReplicaId.of(f"{name}{letter}", "main", 0): LETTER[c] for letter, c in here.items()
        }
        if known:
            memory.members[name] = FlowConMemory(interval=20.0, categories=known)
    replicas += [replica(f"s{n}", on=n, phase=Phase.STARTING) for n in starting]
    for r in replicas:
        r.usage = Usage(cpu=(used or {}).get(r.node, 0.5))
    waiting = [job(n, phase=Phase.PENDING) if isinstance(n, str) else n for n in new]
    s = snapshot(
        at=100.0,
        trigger=Trigger.ARRIVED,
        nodes=nodes or [node(n) for n in words],
        jobs=[*(job(r.job) for r in replicas), *waiting],
        replicas=replicas,
    )
    plan, _ = policy.decide(s, memory)
    return [n for d in plan.decisions if isinstance(d, Place) for _, n in d.where]


def test_a_new_job_goes_where_the_others_have_converged():
    """Half of a node with one growing job, or 1 - 2/(2·3) of one with two that have converged."""
    assert place(n1="N", n2="C C") == ["n2"]
    assert place(n1="N", n2="N C C") == ["n1"]


def test_a_watched_job_still_counts_as_one_that_learns():
    assert place(n1="W W", n2="N") == ["n2"]
    assert place(n1="W", n2="C") == ["n2"]


def test_a_faster_or_larger_node_gives_more():
    fast = [node("n1"), node("n2", speed=2.0), node("n3", cpu=4.0)]
    assert place(nodes=fast, n1="", n2="", n3="N") == ["n2"]
    assert place(nodes=fast, n1="", n2="N", n3="N") == ["n3"]


def test_ties_go_to_the_least_used_then_to_the_fewest_then_to_the_first():
    assert place(n1="N", n2="N", used={"n1": 0.9, "n2": 0.3}) == ["n2"]
    one = FlowCon2(floor_divisor=1e9)  # what has converged takes nothing: the shares are equal
    assert place(one, n1="N C", n2="N", used={"n1": 0.25, "n2": 0.5}) == ["n2"]
    assert place(n1="N", n2="N") == ["n1"]


def test_jobs_of_one_cycle_see_each_other_and_jobs_that_are_starting():
    assert place(new=("x", "y", "z"), n1="", n2="", n3="N") == ["n1", "n2", "n1"]
    assert place(n1="", n2="", starting=("n1",)) == ["n2"]


def test_pressure_is_specons_weights_by_the_speed_of_the_node():
    rule = FlowCon2(rule="pressure")
    assert place(rule, n1="N", n2="W") == ["n2"]
    assert place(rule, n1="N", n2="C C") == ["n1"]  # 2 + 2 and 2 + 2: the fewest
    assert place(rule, nodes=[node("n1"), node("n2", speed=2.0)], n1="", n2="N") == ["n1"]
    assert place(rule, nodes=[node("n1"), node("n2", speed=2.0)], n1="", n2="") == ["n2"]


def test_a_job_goes_only_where_it_fits_and_a_gang_whole():
    full = [node("n1", cpu=0.5), node("n2")]
    assert place(nodes=full, new=[job("x", phase=Phase.PENDING, cpu=1.0)], n1="", n2="N") == ["n2"]
    three = (Task(name="worker", replicas=3, least=3, most=3, request=Resources(cpu=1.0)),)
    gang = job("gang", phase=Phase.PENDING, tasks=three)
    assert place(new=[gang], n1="", n2="") == []


def test_on_each_node_it_is_flowcon():
    tracks = {"a": heard(1.0, 0.5, cpu=0.5), "b": heard(1.0, 0.9, cpu=0.5)}

    def world():
        s = snapshot(
            at=40.0,
            trigger=Trigger.STARTED,
            jobs=[job("a"), job("b")],
            replicas=[replica("a"), replica("b")],
        )
        for name, track in tracks.items():
            s.replicas[f"{name}/main-0"].history = track
        return s

    ours, theirs = FlowCon2(threshold=0.1), FlowCon(threshold=0.1)
    plan, memory = ours.decide(world(), ours.begin())
    alone, known = theirs.decide(world(), theirs.begin())
    assert plan.decisions == alone.decisions
    assert {type(d) for d in plan.decisions} == {SetShare}
    assert (plan.wake_after, plan.look) == (20.0, ("a",))
    assert memory.members["a"] == known


@pytest.mark.parametrize("settings", ["", ":paper", ":rule=pressure,threshold=0.2"])
def test_its_settings_are_flowcons_and_the_rule(settings):
    policy = build(f"flowcon2{settings}")
    inner = policy.on_a_node()
    assert (inner.soft, inner.threshold) == (
        settings != ":paper",
        0.2 if "0.2" in settings else 0.05,
    )
    assert policy.listens
    assert (policy.rule == "pressure") == ("pressure" in settings)
