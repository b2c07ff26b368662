"""The snapshot as a plan would leave it."""

import pytest

from headway.core.cycle.project import Overlay, project
from headway.core.cycle.validate import check
from headway.core.model.decision import Move, Place, Plan, Scale, SetShare, Suspend
from headway.core.model.job import Phase, Task
from headway.core.model.snapshot import Trigger
from headway.core.model.units import ReplicaId, Resources
from making import job, replica, snapshot

WORKERS = Task(name="worker", replicas=1, least=1, most=3, request=Resources(cpu=0.5))


def world():
    return snapshot(
        nodes=("a", "b"),
        jobs=[job("x", cpu=0.25), job("y", phase=Phase.PENDING, tasks=(WORKERS,))],
        replicas=[replica("x")],
    )


def seen(*decisions):
    return project(Plan(decisions=decisions), world())


def test_an_empty_plan_changes_nothing():
    s = world()
    assert project(Plan(), s) is s


def test_a_share():
    r = seen(SetShare(replica=ReplicaId("x/main-0"), limit=0.5, weight=2.0)).replicas["x/main-0"]
    assert (r.limit, r.weight) == (0.5, 2.0)


def test_a_placement_starts_the_job_and_takes_the_room():
    s = seen(Place(job="y", where=((ReplicaId("y/worker-0"), "b"),)))
    assert s.jobs["y"].phase is Phase.STARTING
    assert [r.phase for r in s.of("y")] == [Phase.STARTING]
    assert s.nodes["b"].taken.cpu == 0.5
    assert not list(s.waiting)
    assert s.running == tuple(r for r in s.replicas.values() if r.job == "x")
    assert sorted(s.alike.values()) == [[0], [1]]


def test_nodes_alike_change_kind_together():
    s = snapshot(nodes=("a", "b", "c"), jobs=[job("y", phase=Phase.PENDING, tasks=(WORKERS,))])
    after = project(Plan(decisions=(Place(job="y", where=((ReplicaId("y/worker-0"), "b"),)),)), s)
    assert sorted(after.alike.values()) == [[0, 2], [1]]
    assert sorted(s.alike.values()) == [[0, 1, 2]]


def test_a_move_keeps_room_in_both_places():
    s = seen(Move(replica=ReplicaId("x/main-0"), to="b"))
    assert (s.nodes["a"].taken.cpu, s.nodes["b"].taken.cpu) == (0.25, 0.25)
    assert s.replicas["x/main-0"].phase is Phase.MIGRATING


def test_a_suspended_job_is_on_its_way_out():
    s = seen(Suspend(job="x"))
    assert s.jobs["x"].phase is Phase.SUSPENDING
    assert s.replicas["x/main-0"].phase is Phase.SUSPENDING


def test_scaling_adds_and_removes():
    s = snapshot(
        nodes=("a", "b"), jobs=[job("g", tasks=(WORKERS,))], replicas=[replica("g", task="worker")]
    )
    d = Scale(
        job="g",
        task="worker",
        add=((ReplicaId("g/worker-1"), "b"),),
        remove=(ReplicaId("g/worker-0"),),
    )
    after = project(Plan(decisions=(d,)), s)
    assert [r.phase for r in after.of("g")] == [Phase.STOPPING, Phase.STARTING]


@pytest.mark.parametrize(
    "decision",
    [
        SetShare(replica=ReplicaId("no/main-0")),
        Place(job="no", where=((ReplicaId("no/main-0"), "a"),)),
        Place(job="y", where=((ReplicaId("y/worker-0"), "nowhere"),)),
        Move(replica=ReplicaId("no/main-0"), to="a"),
        Move(replica=ReplicaId("x/main-0"), to="nowhere"),
        Scale(job="no", task="main"),
        Scale(job="x", task="main", remove=(ReplicaId("no/main-0"),)),
        Scale(job="x", task="main", add=((ReplicaId("x/main-1"), "nowhere"),)),
        Suspend(job="no"),
    ],
    ids=str,
)
def test_a_decision_about_an_unknown_name_changes_nothing(decision):
    before, after = world(), seen(decision)
    for table in ("nodes", "jobs", "replicas"):
        assert dict(getattr(after, table)) == dict(getattr(before, table))
    assert check(Plan(decisions=(decision,)), before).refused


def test_what_was_seen_is_left_alone():
    s = world()
    project(Plan(decisions=(Place(job="y", where=((ReplicaId("y/worker-0"), "b"),)),)), s).nodes[
        "b"
    ]
    assert s.nodes["b"].taken.cpu == 0
    assert [j.id for j in s.waiting] == ["y"]


def test_a_node_that_a_placement_does_not_touch_is_as_it_was():
    s = seen(Place(job="y", where=((ReplicaId("y/worker-0"), "b"),)))
    assert [r.id for r in s.only("a", Trigger.TICK).running] == ["x/main-0"]
    assert [r.id for r in s.only("b", Trigger.TICK).on("b")] == ["y/worker-0"]
    shared = seen(SetShare(replica=ReplicaId("x/main-0"), limit=0.5))
    assert shared.only("a", Trigger.TICK).running[0].limit == 0.5
    assert shared.has("a")


def test_an_overlay_never_writes_to_its_base():
    base = {"a": 1, "b": 2}
    over = Overlay(base)
    over.put("c", 3)
    over.put("a", 9)
    over.drop("b")
    over.drop("nobody")
    assert (list(over), len(over), over["a"], over["c"]) == (["a", "c"], 2, 9, 3)
    with pytest.raises(KeyError):
        over["b"]
    over.put("b", 4)
    assert list(over) == ["a", "b", "c"]
    assert base == {"a": 1, "b": 2}
