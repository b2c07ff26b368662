"""What may be carried out, and what is refused in words."""

from dataclasses import replace

import pytest

from headway.core.cycle.cluster_state import assemble, remember
from headway.core.cycle.validate import check
from headway.core.estimate.step_rate import Speed
from headway.core.model.capabilities import ALL, Capabilities
from headway.core.model.decision import Move, Place, Plan, Scale, SetShare, Suspend
from headway.core.model.job import Mode, Phase, Task
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import ReplicaId, Resources
from making import history, job, node, replica, running, snapshot

WORKERS = Task(name="worker", replicas=2, least=2, most=3, request=Resources(cpu=0.5))


def world(**more):
    """X runs on a and could save itself; g, a gang of two workers, waits; b is empty."""
    return snapshot(
        nodes=("a", "b", node("down", up=False)),
        jobs=[
            job("x", cpu=0.6),
            job("g", phase=Phase.PENDING, tasks=(WORKERS,)),
            *more.pop("jobs", ()),
        ],
        replicas=[replica("x"), *more.pop("replicas", ())],
    )


def test_a_job_restricted_to_some_nodes_goes_to_no_other():
    picky = Task(request=Resources(cpu=0.1), nodes=("b",))
    s = snapshot(nodes=("a", "b"), jobs=[job("p", phase=Phase.PENDING, tasks=(picky,))])
    for where, why in (("a", "main cannot run on node a"), ("b", "")):
        plan = Plan(decisions=(Place(job="p", where=((ReplicaId("p/main-0"), where),)),))
        assert [r.why for r in check(plan, s).refused] == ([why] if why else [])


def place(*nodes, gang="g"):
    return Place(
        job=gang, where=tuple((ReplicaId.of(gang, "worker", i), n) for i, n in enumerate(nodes))
    )


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        pytest.param(SetShare(replica=ReplicaId("x/main-0"), limit=0.5), "", id="a share"),
        pytest.param(
            SetShare(replica=ReplicaId("x/main-0"), limit=0.01), "", id="the least ceiling"
        ),
        pytest.param(
            SetShare(replica=ReplicaId("x/main-0"), limit=0.001), "below the minimum", id="too low"
        ),
        pytest.param(
            SetShare(replica=ReplicaId("x/main-0"), weight=-1.0), "too small", id="negative"
        ),
        pytest.param(
            SetShare(replica=ReplicaId("ghost/main-0")), "not running", id="share of nobody"
        ),
        pytest.param(place("b", "b"), "", id="a gang that fits"),
        pytest.param(place("b"), "incomplete gang", id="half a gang"),
        pytest.param(place("b", "b", "b", "b"), "incomplete gang", id="more than it may have"),
        pytest.param(place("a", "b"), "node a has too little free capacity", id="no room"),
        pytest.param(
            place("b", "b", "b"), "node b has too little free capacity", id="no room for the third"
        ),
        pytest.param(place("b", "c"), "node c is not available", id="no such node"),
        pytest.param(place("b", "down"), "node down is not available", id="a node that is down"),
        pytest.param(place("b", gang="x"), "not pending", id="already running"),
        pytest.param(Move(replica=ReplicaId("x/main-0"), to="b"), "", id="a move"),
        pytest.param(
            Move(replica=ReplicaId("x/main-0"), to="a"), "already on node a", id="a move to itself"
        ),
        pytest.param(
            Move(replica=ReplicaId("ghost/main-0"), to="b"), "not running", id="a move of nobody"
        ),
        pytest.param(Suspend(job="x"), "", id="suspend"),
        pytest.param(Suspend(job="g"), "not running", id="suspend what waits"),
        pytest.param(Scale(job="g", task="worker"), "not running", id="scale what waits"),
        pytest.param(Scale(job="x", task="worker"), "no such", id="scale a task it has not"),
    ],
)
def test_each_rule(decision, why):
    verdict = check(Plan(decisions=(decision,)), world())
    if why:
        assert why in verdict.refused[0].why
        assert not verdict.accepted
    else:
        assert verdict.accepted == (decision,)


def test_a_job_without_checkpoints_is_neither_moved_nor_suspended():
    s = snapshot(nodes=("a", "b"), jobs=[job("x", mode=Mode.NONE)], replicas=[replica("x")])
    plan = Plan(decisions=(Move(replica=ReplicaId("x/main-0"), to="b"), Suspend(job="x")))
    assert ["cannot save" in r.why for r in check(plan, s).refused] == [True, True]


def test_a_weight_below_a_five_hundredth_of_the_node_is_refused():
    s = running("x", "y")
    light = SetShare(replica=ReplicaId("x/main-0"), weight=0.001)
    heavy = SetShare(replica=ReplicaId("y/main-0"), weight=1000.0)
    assert "too small" in check(Plan(decisions=(light,)), s).refused[0].why
    assert check(Plan(decisions=(heavy,)), s).accepted  # x was not decided about
    both = Plan(decisions=(SetShare(replica=ReplicaId("x/main-0"), weight=3.0), heavy))
    assert check(both, s).accepted
    none = Plan(decisions=(SetShare(replica=ReplicaId("x/main-0"), weight=0.0),))
    assert "positive" in check(none, running("x")).refused[0].why


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (SetShare(replica=ReplicaId("x/main-0"), limit=0.5), "shares cannot be changed"),
        (Move(replica=ReplicaId("x/main-0"), to="b"), "replicas cannot be migrated"),
        (Suspend(job="x"), "jobs cannot be suspended"),
        (Scale(job="x", task="main"), "jobs cannot be scaled"),
    ],
)
def test_what_the_platform_or_the_job_does_not_allow_is_refused(decision, why):
    nothing = Capabilities(shares=False, migrate=False, suspend=False, scale=False)
    state = history(nodes="ab", jobs=[job("x")], replicas=[replica("x")])
    plan = Plan(decisions=(decision,))
    remember(state, Observation(at=1.0, capabilities=nothing))
    refused = check(plan, assemble(state, Trigger.TICK)).refused
    assert [r.why for r in refused] == [f"{why} on this platform"]
    own = replace(job("x"), capabilities=nothing)
    remember(state, Observation(at=2.0, capabilities=ALL, jobs=(own,)))
    refused = check(plan, assemble(state, Trigger.TICK)).refused
    assert [r.why for r in refused] == [f"{why} for this job"]


def test_a_plan_is_judged_as_it_goes_along():
    s = world(jobs=[job("h", phase=Phase.PENDING, tasks=(WORKERS,))])
    verdict = check(Plan(decisions=(place("b", "b"), place("b", "b", gang="h"))), s)
    assert len(verdict.accepted) == 1
    assert "too little free capacity" in verdict.refused[0].why


def test_one_act_for_each_in_a_cycle():
    twice = Plan(decisions=(Suspend(job="x"), Suspend(job="x")))
    assert check(twice, world()).refused[0].why == "only one action for each job in a cycle"


def test_replicas_of_a_job_may_move_in_one_cycle_and_each_takes_its_room():
    workers = Task(name="worker", replicas=3, least=3, most=3, request=Resources(cpu=0.5))
    there = [replica("w", task="worker", index=i) for i in range(3)]
    nodes = (node("a", cpu=2.0), "b")
    s = snapshot(nodes=nodes, jobs=[job("w", tasks=(workers,))], replicas=there)
    first, second, third = (Move(replica=r.id, to="b") for r in there)
    verdict = check(Plan(decisions=(first, second, third, first, Suspend(job="w"))), s)
    assert verdict.accepted == (first, second)
    assert [r.why for r in verdict.refused] == [
        "node b has too little free capacity",
        "only one action for each job in a cycle",
        "only one action for each job in a cycle",
    ]


def test_a_replica_in_transit_is_left_alone():
    s = snapshot(nodes=("a", "b"), jobs=[job("x")], replicas=[replica("x", phase=Phase.MIGRATING)])
    plan = Plan(
        decisions=(
            Move(replica=ReplicaId("x/main-0"), to="b"),
            SetShare(replica=ReplicaId("x/main-0")),
        )
    )
    assert len(check(plan, s).refused) == 2


def test_a_user_may_ask_for_less_than_the_least_ceiling():
    little = job("x", tasks=(Task(limit=0.002),))
    s = snapshot(jobs=[little], replicas=[replica("x")])
    verdicts = [
        check(Plan(decisions=(SetShare(replica=ReplicaId("x/main-0"), limit=limit),)), s)
        for limit in (0.002, 0.001)
    ]
    assert [bool(v.accepted) for v in verdicts] == [True, False]


def test_scaling_keeps_to_its_bounds_and_needs_room():
    s = snapshot(
        nodes=("a", "b"),
        jobs=[job("g", tasks=(WORKERS,))],
        replicas=[replica("g", task="worker", index=i) for i in range(2)],
    )

    def refused(add=(), remove=()):
        d = Scale(job="g", task="worker", add=add, remove=remove)
        verdict = check(Plan(decisions=(d,)), s)
        return verdict.refused[0].why if verdict.refused else ""

    third, fourth = (ReplicaId("g/worker-2"), "b"), (ReplicaId("g/worker-3"), "b")
    assert refused(add=(third,)) == ""
    assert "outside 2 to 3" in refused(add=(third, fourth))
    assert "outside 2 to 3" in refused(remove=(ReplicaId("g/worker-0"),))
    assert "no such" in refused(remove=(ReplicaId("g/worker-9"),))
    assert "no such" in refused(add=((ReplicaId("g/worker-0"), "b"),))
    assert "too little free capacity" in refused(add=((ReplicaId("g/worker-2"), "a"),))
    assert "adds and removes no replica" in refused()


def test_an_empty_plan_is_fine():
    assert not check(Plan(), world()).accepted


def part(*names, gang="g"):
    return Place(
        job=gang, where=tuple((ReplicaId.named(gang, n), "b") for n in names), partial=True
    )


def half(phase=Phase.STARTING, **spec):
    """Of h's two workers, one has a place."""
    return world(
        jobs=[job("h", phase=phase, tasks=(WORKERS,), mode=Mode.NONE, **spec)],
        replicas=[replica("h", on="b", task="worker", phase=phase)],
    )


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        pytest.param(part("worker-0"), "", id="a part of a gang"),
        pytest.param(part(), "not pending", id="no part of it"),
        pytest.param(part("worker-7"), "not pending", id="who is not of it"),
        pytest.param(part("worker-1", gang="h"), "", id="the rest"),
        pytest.param(part("worker-0", gang="h"), "not pending", id="the same again"),
        pytest.param(part("main-0", gang="x"), "no replicas to place", id="who runs"),
        pytest.param(part("main-0", gang="ghost"), "no replicas to place", id="nobody"),
        pytest.param(Suspend(job="h"), "", id="it may always be sent back"),
    ],
)
def test_a_gang_may_be_placed_in_parts_if_the_decision_says_so(decision, why):
    verdict = check(Plan(decisions=(decision,)), half())
    assert bool(verdict.accepted) is not bool(why)
    assert all(why in r.why for r in verdict.refused)


def test_only_an_asynchronous_job_is_joined_while_it_runs():
    for kind, accepted in (("async", 1), ("sync", 0)):
        there = half(Phase.RUNNING, speed=Speed(kind=kind))
        found = check(Plan(decisions=(part("worker-1", gang="h"),)), there)
        assert len(found.accepted) == accepted


def test_what_a_suspended_job_once_had_is_no_longer_counted():
    idle = replica("s", on=None, task="worker", index=2, phase=Phase.PENDING)
    here = [replica("s", on="b", task="worker", index=i) for i in range(2)]
    s = snapshot(nodes=("b", "c"), jobs=[job("s", tasks=(WORKERS,))], replicas=[*here, idle])
    grow = Scale(job="s", task="worker", add=((ReplicaId("s/worker-2"), "c"),))
    assert check(Plan(decisions=(grow,)), s).accepted
