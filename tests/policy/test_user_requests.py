"""Requests to scale a job: which replicas come and go, and where."""

from dataclasses import replace

import pytest

from headway.core.cycle.validate import check
from headway.core.model.capabilities import ALL
from headway.core.model.decision import Scale
from headway.core.model.job import Elastic, Phase, Task
from headway.core.model.snapshot import Request, Trigger
from headway.core.model.units import Resources
from headway.policy.common.user_requests import UserRequests
from headway.policy.registry import build
from making import job, node, replica, snapshot


def world(*indices, cpu=0.0, phase=Phase.RUNNING, nodes=("a", "b"), only=None):
    request = Resources(cpu=cpu)
    worker = Task(name="worker", least=1, most=4, request=request, nodes=only)
    placed = [replica("x", task="worker", index=i) for i in indices]
    if indices:
        placed.append(replica("x", task="ps"))
    x = job("x", phase=phase, tasks=(Task(name="ps"), worker))
    return snapshot(
        jobs=[x], replicas=placed, nodes=[node(n, cpu=1.0) for n in nodes], trigger=Trigger.ASKED
    )


def asked(s, count, task="worker", name="x"):
    s.requests = (Request(job=name, wish="scale", task=task, count=count),)
    return UserRequests().decide(s, None)[0]


def leaving(s, node="a"):
    s.requests = (Request(job="x", wish="leave", to=node),)
    moves = UserRequests().decide(s, None)[0].decisions
    assert all(m.reason == f"node {node} is drained" for m in moves)
    return [(m.replica.name, m.to) for m in moves]


def cordoned(s, *names):
    s.nodes = {n: replace(each, cordoned=n in names) for n, each in s.nodes.items()}
    return s


def test_replicas_leave_a_node_that_is_cordoned_for_those_with_room():
    s = cordoned(world(0, 1, cpu=0.6, nodes=("a", "b", "c")), "a")
    assert leaving(s) == [("worker-0", "b"), ("worker-1", "c"), ("ps-0", "b")]
    assert leaving(s, "b") == [], "none is there"


def test_replicas_that_fit_nowhere_else_stay():
    assert leaving(cordoned(world(0, cpu=0.6), "a", "b")) == []
    only_there = world(0, cpu=0.6, only=("a",))
    assert leaving(cordoned(only_there, "a")) == [("ps-0", "b")]
    full = cordoned(world(0, 1, cpu=0.6), "a")
    assert leaving(full) == [("worker-0", "b"), ("ps-0", "b")]


def test_a_replica_that_is_leaving_already_is_left_alone():
    s = cordoned(world(0), "a")
    s.replicas = {k: replace(r, phase=Phase.MIGRATING) for k, r in s.replicas.items()}
    assert leaving(s) == []


def test_replicas_that_the_cluster_took_are_replaced_and_none_is_removed():
    s = world(0, 2)
    s.requests = (Request(job="x", wish="replace", task="worker", count=3),)
    (scale,) = UserRequests().decide(s, None)[0].decisions
    assert [r.name for r, _ in scale.add] == ["worker-1"]
    assert scale.reason == "in place of a replica that the cluster took"
    s.requests = (Request(job="x", wish="replace", task="worker", count=1),)
    assert UserRequests().decide(s, None)[0].decisions == ()


def names(replicas):
    return [r.name for r in replicas]


def test_the_lowest_free_numbers_join_on_the_emptiest_nodes():
    (scale,) = asked(world(0, 2), 4).decisions
    assert isinstance(scale, Scale)
    assert [(r.name, to) for r, to in scale.add] == [("worker-1", "b"), ("worker-3", "b")]
    assert (scale.remove, scale.reason) == ((), "requested by a user")


def test_the_highest_numbers_leave_and_worker_0_stays():
    (scale,) = asked(world(3, 0, 1), 1).decisions
    assert (names(scale.remove), scale.add) == (["worker-1", "worker-3"], ())


def test_a_task_that_may_use_only_some_nodes_gets_those():
    (scale,) = asked(world(0, only=("a",)), 2).decisions
    assert [to for _, to in scale.add] == ["a"]


@pytest.mark.parametrize(
    ("count", "cpu", "why"),
    [
        (3, 0.4, ""),
        (4, 0.7, "node a has too little free capacity"),
        (5, 0.0, "5 replicas are outside 1 to 4"),
        (0, 0.0, "0 replicas are outside 1 to 4"),
        (1, 0.0, "it adds and removes no replica"),
    ],
)
def test_a_size_that_does_not_fit_is_refused_in_words(count, cpu, why):
    s = world(0, cpu=cpu)
    refused = check(asked(s, count), s).refused
    assert [r.why for r in refused] == ([why] if why else [])


def test_a_job_that_is_changing_is_refused():
    s = world(0, phase=Phase.MIGRATING)
    assert [r.why for r in check(asked(s, 2), s).refused] == ["it is not running"]


def test_nothing_is_decided_for_pending_and_unknown_jobs_and_unknown_tasks():
    assert asked(world(phase=Phase.PENDING), 2).decisions == ()
    assert asked(world(0), 2, name="ghost").decisions == ()
    assert asked(world(0), 2, task="chief").decisions == ()


def test_nothing_is_decided_where_jobs_cannot_be_scaled():
    s = world(0)
    s.capabilities = replace(ALL, scale=False)
    assert asked(s, 2).decisions == ()


@pytest.mark.parametrize("policy", ["headway", "fair", "dragon", "kips", "optimus", "spread"])
def test_every_policy_leaves_the_request_to_the_user(policy):
    s = world(0, 1)
    s.requests = (Request(job="x", wish="scale", task="worker", count=3),)
    whole = build(f"@{policy}")
    plan, _ = whole.decide(s, whole.begin())
    scales = [d for d in check(plan, s).accepted if isinstance(d, Scale)]
    assert [d.reason for d in scales] == ["requested by a user"]


@pytest.mark.parametrize("name", ["x", "ghost"])
def test_what_moves_with_its_whole_gang_is_moved_first(name):
    """Independent replicas then move in the same restart."""
    worker = Task(name="worker", replicas=2, most=4, elastic=Elastic.INDEPENDENT)
    placed = [replica("x", task="worker", index=i) for i in (1, 0)] + [replica("x", task="ps")]
    s = snapshot(
        jobs=[job("x", phase=Phase.RUNNING, tasks=(worker, Task(name="ps")))],
        replicas=placed, nodes=[node("a"), node("b")], trigger=Trigger.ASKED,
    )  # fmt: skip
    s.requests = (Request(job=name, wish="move", to="b"),)
    plan, _ = UserRequests().decide(s, None)
    moved = ["ps-0", "worker-0", "worker-1"] if name == "x" else []
    assert names(d.replica for d in plan.decisions) == moved


@pytest.mark.parametrize(
    ("at", "moved"), [(("b", "a"), ["worker-1"]), (("b", "b"), ["worker-0", "worker-1"])]
)
def test_only_replicas_that_are_elsewhere_move_and_the_refusal_is_left_if_none_is(at, moved):
    worker = Task(name="worker", replicas=2, most=2)
    placed = [replica("x", task="worker", index=i, on=n) for i, n in enumerate(at)]
    s = snapshot(
        jobs=[job("x", phase=Phase.RUNNING, tasks=(worker,))],
        replicas=placed, nodes=[node("a"), node("b")], trigger=Trigger.ASKED,
    )  # fmt: skip
    s.requests = (Request(job="x", wish="move", to="b"),)
    plan, _ = UserRequests().decide(s, None)
    assert names(d.replica for d in plan.decisions) == moved
