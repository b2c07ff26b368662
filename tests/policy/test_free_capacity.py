"""The search for free capacity that all policies for gangs share, and reservations."""

from dataclasses import replace

import pytest

from gangs import decide, gang, gpus, placed, there
from headway.core.cycle.free_capacity import slots
from headway.core.model.decision import CALM, Place, Suspend
from headway.core.model.job import Mode, Phase, Task
from headway.core.model.snapshot import Changes
from headway.core.model.units import ReplicaId, Resources
from headway.policy.common import gang_placement
from headway.policy.common.gang_placement import place_exhaustively, shape
from headway.policy.common.node_search import NodeSearch
from headway.policy.common.reservation import Release, Reserved, until_fits
from headway.policy.registry import build
from making import job, node, snapshot


def test_slots_are_counted_by_what_is_scarcest():
    there = gpus("a", 4, cpu=3.0)
    assert slots(there, Resources(cpu=1.0, gpu=1.0)) == 3
    assert slots(replace(there, up=False), Resources(cpu=1.0)) == 0
    assert slots(there, Resources()) == float("inf")


def test_capacity_is_taken_and_given_back():
    free = NodeSearch(snapshot(nodes=[gpus("a", 2), gpus("b", 2)]))
    one = Resources(gpu=1.0)
    free.take("a", one)
    assert (free.slots(one), slots(free.node("a"), one), slots(free.node("b"), one)) == (3, 1, 2)
    other = free.copy()
    other.give("a", one)
    assert (free.slots(one), other.slots(one)) == (3, 4)
    free.take("gone", one)
    free.give("gone", one)
    assert (free.slots(one), free.node("gone")) == (3, None)


def test_a_search_that_leads_nowhere_is_given_up(monkeypatch):
    """There is a way, and it is not the first."""
    found = snapshot(
        nodes=[node("a", cpu=1.0), node("b", cpu=0.9)],
        jobs=[
            job(
                "x",
                phase=Phase.PENDING,
                tasks=(
                    Task(name="ps", request=Resources(cpu=0.9)),
                    Task(name="worker", request=Resources(cpu=0.9, memory=1.0)),
                ),
            )
        ],
    )
    assert place_exhaustively(NodeSearch(found), found.jobs["x"], fewer=False) is not None
    monkeypatch.setattr(gang_placement, "TRIES", 1)
    assert place_exhaustively(NodeSearch(found), found.jobs["x"], fewer=False) is None


def test_jobs_of_one_shape_need_the_same():
    small, large = gang("s", 2, least=1, most=4), gang("l", 4, least=1, most=4)
    assert shape(small, fewer=True) == shape(large, fewer=True)
    assert shape(small, fewer=False) != shape(large, fewer=False)


def test_what_a_lost_node_would_release_counts_for_nothing():
    s = snapshot(nodes=[gpus("a", 1)], jobs=[gang("x", 2)])
    request = Resources(cpu=1.0, gpu=1.0)
    lost = [Release(replica=ReplicaId("y/worker-0"), node="lost", request=request)]
    free = NodeSearch(s)
    assert until_fits(free, s.jobs["x"], [lost], lambda *_: pytest.fail("no slots")) is None


def late(policy, s, **remembered):
    """Decide with a memory, in a cycle in which nothing has changed."""
    made = build(policy)
    memory = made.begin()
    for name, value in remembered.items():
        setattr(memory, name, value)
    s.changed = Changes()
    return made.decide(s, memory)


def test_what_has_no_room_with_or_without_what_is_kept_is_remembered():
    x = gang("x", 3, phase=Phase.RUNNING)
    jobs = [x, gang("big", 4, at=1.0), gang("also", 2, at=2.0), gang("too", 2, at=3.0)]
    s = snapshot(nodes=[gpus("a")], jobs=jobs, replicas=there("x", "a", "a", "a"))
    plan, memory = decide("gang", s)
    assert plan is CALM
    assert len(memory.misfits) == 2


def test_the_first_in_line_may_be_another_one_now():
    """Somebody older is back in the queue."""
    x = gang("x", 3, phase=Phase.RUNNING)
    s = snapshot(
        nodes=[gpus("a")], jobs=[x, gang("big", 4, at=1.0), gang("old", 3)],
        replicas=there("x", "a", "a", "a"),
    )  # fmt: skip
    _, memory = late("gang", s, reserved=Reserved(job="big", where=(), at=999.0))
    assert memory.reserved.job == "old"


def test_a_place_on_a_node_that_is_gone_is_none():
    x, y = gang("x", 3, phase=Phase.RUNNING), gang("y", 4, phase=Phase.RUNNING, work=900.0)
    for lost in ([], [gpus("lost", up=False)]):
        s = snapshot(
            nodes=[gpus("a"), gpus("b"), *lost], jobs=[x, y, gang("big", 4)],
            replicas=[*there("x", "a", "a", "a"), *there("y", "b", "b", "b", "b")],
        )  # fmt: skip
        old = Reserved(job="big", where=((ReplicaId("big/worker-0"), "lost"),), at=999.0)
        _, memory = late("gang", s, reserved=old)
        assert {node for _, node in memory.reserved.where} == {"a"}


def test_a_place_without_a_time_is_looked_for_again_when_something_changes():
    x = gang("x", 3, phase=Phase.RUNNING, work=None)
    s = snapshot(
        nodes=[gpus("a")], jobs=[x, gang("big", 4)], replicas=there("x", "a", "a", "a")
    )  # fmt: skip
    old = Reserved(job="big", where=())
    assert late("gang", s, reserved=old)[1].reserved is old
    s.changed = Changes(nodes=("a",))
    made = build("gang")
    memory = made.begin()
    memory.reserved = old
    assert made.decide(s, memory)[1].reserved.where


def test_what_leaves_already_is_not_sent_away_again():
    jobs = [
        gang("first", 2, at=2.0, phase=Phase.SUSPENDING),
        gang("second", 2, at=3.0, phase=Phase.RUNNING),
        gang("gone", 1, phase=Phase.RUNNING),
    ]
    replicas = [
        *there("first", "a", "a", phase=Phase.SUSPENDING), *there("second", "a", "a"),
    ]  # fmt: skip
    s = snapshot(nodes=[gpus("a")], jobs=[*jobs, gang("big", 4, at=1.0)], replicas=replicas)
    backfilled = {"first": None, "second": None, "ended": None}
    plan, memory = late("gang", s, backfilled=backfilled)
    assert [(type(d), d.job) for d in plan.decisions] == [(Suspend, "second")]
    assert memory.reserved.awaits == ("first", "second")


def test_a_cluster_of_another_size_may_have_room_for_what_had_none():
    down = gpus("c", 9, up=False)
    s = snapshot(nodes=[gpus("a"), gpus("b"), down], jobs=[gang("huge", 9)])
    key = shape(s.jobs["huge"], fewer=False)
    _, memory = late("gang", s, too_large=[key], cluster_size=(1.0, 32.0, 2.0**36, 4.0))
    assert memory.too_large == [key]
    assert memory.cluster_size == (2.0, 64.0, 2.0**37, 8.0)


def test_only_a_job_on_the_needed_nodes_releases_workers():
    """The job z gives first, but on another node than where y will start."""
    z = gang("z", 2, least=1, most=2, phase=Phase.RUNNING, work=None)
    x = gang("x", 3, least=1, most=3, phase=Phase.RUNNING, work=None)
    stiff = gang("stiff", 1, phase=Phase.RUNNING, work=None)
    y = gang("y", 1, cpu=3.0)
    s = snapshot(
        nodes=[gpus("a", 2, cpu=3.0), gpus("b", 4, cpu=9.0)],
        jobs=[z, x, stiff, y],
        replicas=[*there("z", "a", "a"), *there("x", "b", "b", "b"), *there("stiff", "b")],
        at=40.0,
    )
    plan, _ = late("dragon", s, since={"y": 0.0})
    assert [(d.job, len(d.remove)) for d in plan.decisions] == [("x", 1)]


def test_a_giver_of_unknown_size_counts_for_nothing():
    known = gang("known", 2, phase=Phase.RUNNING, work=400.0)
    x = gang("x", 2, least=1, most=2, phase=Phase.RUNNING, work=None)
    s = snapshot(
        nodes=[gpus("a")], jobs=[known, x, gang("y", 1)],
        replicas=[*there("known", "a", "a"), *there("x", "a", "a")], at=40.0,
    )  # fmt: skip
    plan, _ = late("dragon", s, since={"y": 0.0, "known": 40.0})
    assert [d.job for d in plan.decisions] == ["x"]


def test_a_starting_job_releases_nothing():
    x = gang("x", 3, least=1, most=3, phase=Phase.STARTING)
    replicas = there("x", "a", "a", "a", phase=Phase.STARTING)
    s = snapshot(nodes=[gpus("a")], jobs=[x, gang("y", 2)], replicas=replicas, at=40.0)
    assert not late("dragon", s, since={"y": 0.0})[0].decisions
    plain = gang("x", 1, phase=Phase.RUNNING)
    s = snapshot(nodes=[gpus("a")], jobs=[plain], replicas=there("x", "a"), at=90.0)
    assert not late("dragon", s)[0].decisions
    assert not late("optimus", s)[0].decisions


def test_optimus_gives_no_worker_to_a_job_of_unknown_speed():
    x = gang("x", 1, least=1, most=4)
    x = replace(x, spec=replace(x.spec, total_steps=None))
    assert decide("optimus", snapshot(nodes=[gpus("a")], jobs=[x]))[1].targets == {"x": 1}


@pytest.mark.parametrize("mode", [Mode.SDK, Mode.NONE])
def test_spare_room_is_anybodys(mode):
    jobs = [gang("x", 3), gang("y", 1, at=1.0, mode=mode, work=None)]
    s = snapshot(nodes=[gpus("a")], jobs=jobs)
    assert placed("gang", s) == {"x": ["a"] * 4, "y": ["a"] * 2}
    plan, _ = decide("gang", s)
    assert all(isinstance(d, Place) for d in plan.decisions)
