"""Platforms that hold room on the target of a move before the replica is stopped."""

from dataclasses import replace

import pytest
from driver import Driver, found, workers

from headway.controller import commands as c
from headway.controller import events as e
from headway.controller.job_state import Checkpoint, from_plain, to_plain
from headway.core.model.decision import Move
from headway.core.model.job import Elastic, Mode, Phase
from headway.core.model.units import ReplicaId
from making import node

MAIN = ReplicaId("x/main-0")
RESERVES = {"reserves": True, "reserve_timeout": 60.0}


def moving(**spec):
    x = Driver(config=RESERVES, **spec)
    x.start()
    x.last(c.Start)
    assert x.act(Move(replica=MAIN, to="b")) == ""
    return x


def reserved(**spec):
    """It has room on `b`, as attempt 2."""
    x = moving(**spec)
    x.event(e.ReplicaPrepared(MAIN, 2))
    return x


def removed(x):
    return [(r.replica.name, r.attempt) for r in x.last(c.Remove)]


def still_runs(x):
    """Where it was, as if nothing had been decided."""
    r = x["main-0"]
    seen = r.to_core()
    assert (x.phase, r.attempt, seen.node, seen.bound_for) == (Phase.RUNNING, 1, "a", None)
    assert (x.stopped, removed(x), x.job.failures) == ([], [("main-0", 2)], 0)
    return x.job.not_moved


def test_a_replica_is_asked_to_save_when_it_has_room_on_the_target():
    x = moving()
    (reserve,) = x.last(c.Reserve)
    (there,) = reserve.replicas
    assert (there.replica, there.attempt, there.node, there.rank) == (MAIN, 2, "b", 0)
    assert x.disk["x"].replicas[0].reserved == 2, "that is durable first"
    assert (x.phase, x.last(c.RequestCheckpoint)) == (Phase.MIGRATING, [])
    seen = x["main-0"].to_core()
    assert (seen.node, seen.bound_for) == ("a", "b")
    x.event(e.ReplicaPrepared(MAIN, 2))
    x.event(e.ReplicaPrepared(MAIN, 2))
    (request,) = x.last(c.RequestCheckpoint)
    assert (request.attempt, x.stopped) == (1, [])


def test_what_holds_the_room_is_started_when_the_replica_has_saved_and_exited():
    x = reserved()
    x.save("main-0")
    assert (x.stopped, x.last(c.Start)) == (["main-0"], [])
    x.exit("main-0", 143)
    (start,) = x.last(c.Start)
    assert [(a.attempt, a.node) for a in start.replicas] == [(2, "b")]
    assert (removed(x), x.job.attempt) == ([("main-0", 1)], 2)
    x.event(e.ReplicaPrepared(MAIN, 2))
    assert len(x.last(c.Proceed)) == 1
    x.runs("main-0")
    x.event(e.ReplicaReported(MAIN, 2))
    assert (x.phase, x.job.moves, x.disk["x"].replicas[0].reserved) == (Phase.RUNNING, 1, 0)


def test_a_replica_that_saves_too_late_keeps_running_and_the_room_is_free_again():
    x = reserved()
    x.tick(10.0)
    assert "no new checkpoint within 10 s" in still_runs(x)
    assert len(x.last(c.CancelCheckpoint)) == 1


def test_a_script_that_does_not_save_when_it_is_stopped_starts_again_where_it_was():
    x = reserved(checkpoint=Mode.SIGTERM)
    assert x.stopped == ["main-0"]
    x.exit("main-0", 1, Checkpoint())
    (start,) = x.last(c.Start)
    assert [(a.attempt, a.node) for a in start.replicas] == [(3, "a")]
    assert removed(x) == [("main-0", 1), ("main-0", 2)]


def test_a_target_without_room_is_given_up_and_avoided_for_a_while():
    x = moving()
    x.event(e.ReplicaWaiting(MAIN, 2, "0/4 nodes are available", unschedulable=True))
    x.tick(9.0)
    x.event(e.ReplicaWaiting(MAIN, 2, "0/4 nodes are available", unschedulable=True))
    assert x.phase is Phase.MIGRATING
    x.tick(1.0)
    assert still_runs(x) == "not moved to b: 0/4 nodes are available"
    assert x.job.avoided == {"b": 70.0}
    assert x.act(Move(replica=MAIN, to="b")) == ""
    assert x.job.not_moved == ""


def test_a_target_that_finds_room_meanwhile_has_its_whole_time():
    x = moving()
    x.event(e.ReplicaWaiting(MAIN, 2, "full", unschedulable=True))
    x.tick(9.0)
    x.event(e.ReplicaWaiting(MAIN, 2, ""))
    x.tick(59.0)
    assert x.phase is Phase.MIGRATING
    x.tick(1.0)
    assert still_runs(x) == "not moved to b: no capacity within 60 s"
    assert x.job.avoided == {}


def test_a_container_that_cannot_start_on_the_target_ends_the_move():
    x = moving()
    x.event(e.ReplicaWaiting(MAIN, 2, "ErrImagePull"))
    x.tick(30.0)
    assert still_runs(x) == "not moved to b: ErrImagePull"


def test_room_that_is_refused_ends_the_move():
    x = moving()
    (reserve,) = x.last(c.Reserve)
    x.event(e.CommandFailed(reserve, "exceeded quota: team"))
    assert still_runs(x) == "not moved to b: exceeded quota: team"
    x.event(e.CommandFailed(reserve, "late"))
    assert x.phase is Phase.RUNNING


def test_a_refusal_for_a_replica_that_has_ended_changes_nothing():
    x = moving()
    (reserve,) = x.last(c.Reserve)
    x.exit("main-0", 0)
    assert (x.phase, removed(x)) == (Phase.SUCCEEDED, [("main-0", 1), ("main-0", 2)])
    x.event(e.CommandFailed(reserve, "late"))
    assert x.phase is Phase.SUCCEEDED


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (e.ReplicaExited(MAIN, 2, code=137, reason="evicted"), "evicted"),
        (e.ReplicaExited(MAIN, 2, code=137), "its reservation has ended"),
        (e.ReplicaRunning(MAIN, 2), "its reservation did not wait for the checkpoint"),
        (e.NodeChanged(replace(node("b"), up=False)), "node b was lost"),
    ],
)
@pytest.mark.parametrize("begin", [moving, reserved])
def test_room_that_is_lost_ends_the_move(begin, event, why):
    x = begin()
    x.event(event)
    assert still_runs(x) == f"not moved to b: {why}"


def test_a_replica_that_is_being_stopped_moves_without_the_room_that_it_lost():
    x = reserved()
    x.save("main-0")
    x.event(e.ReplicaExited(MAIN, 2, code=137))
    x.event(e.NodeChanged(replace(node("b"), up=False)))
    assert (x.phase, removed(x)) == (Phase.MIGRATING, [("main-0", 2)])
    x.exit("main-0", 143)
    (start,) = x.last(c.Start)
    assert [(a.attempt, a.node) for a in start.replicas] == [(3, "b")]


def test_what_happens_to_the_room_later_is_of_no_interest():
    x = reserved()
    x.event(e.ReplicaWaiting(MAIN, 2, "ErrImagePull"))
    x.event(e.ReplicaReported(MAIN, 2))
    assert (x.phase, x.controller.next_deadline()) == (Phase.MIGRATING, 10.0)


def test_a_lost_node_that_is_no_target_changes_nothing():
    x = moving()
    x.event(e.NodeChanged(replace(node("a"), up=False)))
    assert x.phase is Phase.MIGRATING


@pytest.mark.parametrize("begin", [moving, reserved])
def test_a_job_that_is_cancelled_gives_its_room_back(begin):
    x = begin()
    x.ask("cancel")
    assert (x.stopped, removed(x)) == (["main-0"], [("main-0", 2)])
    x.exit("main-0", 143)
    assert x.phase is Phase.CANCELLED


def test_a_cancelled_job_does_not_ask_for_room():
    x = Driver(config=RESERVES)
    x.start()
    x.persists = False
    x.act(Move(replica=MAIN, to="b"))
    x.ask("cancel")
    x.persists = True
    x.tick(1.0)
    assert x.last(c.Reserve) == []


def test_an_independent_replica_moves_and_the_others_keep_running():
    tasks = tuple(replace(t, elastic=Elastic.INDEPENDENT) for t in workers(2))
    x = Driver(config=RESERVES, tasks=tasks)
    x.start("worker-0", "worker-1")
    x.last(c.Start)
    second = ReplicaId("x/worker-1")
    assert x.act(Move(replica=second, to="b")) == ""
    (reserve,) = x.last(c.Reserve)
    assert [a.rank for a in reserve.replicas] == [1]
    assert [r.name for r in reserve.gang] == ["worker-0", "worker-1"]
    x.event(e.ReplicaPrepared(second, 2))
    assert x.stopped == ["worker-1"], "only a chief saves"


@pytest.mark.parametrize("begin", [moving, reserved])
def test_a_replica_that_the_cluster_ends_during_a_move_continues_in_the_reserved_room(begin):
    x = begin(backoff_limit=0)
    x.exit("main-0", 137, disrupted=True, reason="evicted")
    (start,) = x.last(c.Start)
    assert [(a.attempt, a.node) for a in start.replicas] == [(2, "b")]
    assert (x.phase, removed(x), x.job.failures) == (Phase.MIGRATING, [("main-0", 1)], 0)
    x.event(e.ReplicaPrepared(MAIN, 2))
    x.runs("main-0")
    x.event(e.ReplicaReported(MAIN, 2))
    assert (x.phase, x.job.moves) == (Phase.RUNNING, 1)


def test_a_gang_of_which_the_cluster_ends_one_starts_again_as_a_whole():
    x = Driver(config=RESERVES, tasks=workers(2))
    x.start("worker-0", "worker-1")
    assert x.act(Move(replica=ReplicaId("x/worker-1"), to="b")) == ""
    x.exit("worker-1", 137, disrupted=True)
    assert (x.phase, x.stopped) == (Phase.STOPPING, ["worker-0"])


# -- crashes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", [moving, reserved])
def test_a_move_that_had_only_begun_is_forgotten_by_a_crash(begin):
    x = begin()
    y = x.crash(found("main-0", 1), found("main-0", 2, running=False), config=RESERVES)
    assert (y.phase, y["main-0"].attempt, removed(y)) == (Phase.RUNNING, 1, [("main-0", 2)])
    assert y.disk["x"].replicas[0].reserved == 0
    y.act(Move(replica=MAIN, to="b"))
    (reserve,) = y.last(c.Reserve)
    assert reserve.replicas[0].attempt == 3


def stopping():
    x = reserved()
    x.save("main-0")
    return x


def test_room_is_kept_across_a_crash_for_a_replica_that_is_being_stopped():
    x = stopping()
    assert from_plain(to_plain(x.disk["x"])).replicas[0].reserved == 2
    y = x.crash(found("main-0", 1), found("main-0", 2, running=False), config=RESERVES)
    assert (y.stopped, removed(y)) == (["main-0"], [])
    y.exit("main-0", 143)
    (start,) = y.last(c.Start)
    assert [(a.attempt, a.node) for a in start.replicas] == [(2, "b")]


ENDED = e.ReplicaExited(MAIN, 2, code=1)


@pytest.mark.parametrize(
    "left", [(), [found("main-0", 2)], [found("main-0", 2, running=False, exited=ENDED)]]
)
def test_room_that_was_lost_with_a_crash_is_not_used(left):
    y = stopping().crash(found("main-0", 1), *left, config=RESERVES)
    assert removed(y) == [("main-0", 2) for _ in left]
    y.exit("main-0", 143)
    (start,) = y.last(c.Start)
    assert [(a.attempt, a.node) for a in start.replicas] == [(3, "b")]


def test_room_is_given_back_if_the_job_is_cancelled_before_its_start_there_is_durable():
    x = reserved()
    x.save("main-0")
    x.persists = False
    x.exit("main-0", 143)
    x.ask("cancel")
    assert (x.phase, removed(x), x.last(c.Start)) == (Phase.CANCELLED, [], [])
    x.persists = True
    x.tick(10.0)
    assert sorted(removed(x)) == [("main-0", 1), ("main-0", 2)]
    assert x.controller.finished
