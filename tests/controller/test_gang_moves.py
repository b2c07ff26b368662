"""Moves of replicas of a gang: the whole gang restarts, except for independent replicas."""

from dataclasses import replace

import pytest
from driver import Driver, found, workers

from headway.controller import commands as c
from headway.controller import events as e
from headway.controller.job_state import Checkpoint
from headway.core.model.decision import Move
from headway.core.model.job import Elastic, Mode, Phase, Task
from headway.core.model.units import ReplicaId
from making import node


def gang_of_two(elastic=Elastic.RESTART, **more):
    tasks = (Task(name="worker", replicas=2, least=1, most=3, elastic=elastic),)
    x = Driver(tasks=tasks, **more)
    x.start("worker-0", "worker-1")
    x.last(c.Start)
    return x


def move_of(index, to="b"):
    return Move(replica=ReplicaId.of("x", "worker", index), to=to)


def test_a_gang_of_which_a_replica_moves_restarts_as_a_whole_with_new_addresses():
    """A replica that keeps running knows the others only by their old addresses."""
    x = gang_of_two()
    assert x.act(move_of(1)) == ""
    assert (x.phase, x.stopped) == (Phase.MIGRATING, []), "the chief saves first"
    assert [x[name].to_core().bound_for for name in ("worker-0", "worker-1")] == [None, "b"]
    x.save("worker-0")
    assert x.stopped == ["worker-0", "worker-1"]
    x.exit("worker-1", 143)
    assert x.last(c.Start) == []
    x.exit("worker-0", 143)
    (start,) = x.last(c.Start)
    assert [(a.replica.name, a.node) for a in start.replicas] == [
        ("worker-0", "a"), ("worker-1", "b"),
    ]  # fmt: skip
    assert len({a.attempt for a in start.replicas}) == 1
    for name in ("worker-0", "worker-1"):
        x.runs(name)
    assert (x.phase, x.job.moves) == (Phase.RUNNING, 1)


@pytest.mark.parametrize("mode", [Mode.SDK, Mode.SIGTERM])
def test_several_replicas_of_a_gang_move_in_one_restart(mode):
    x = gang_of_two(checkpoint=mode)
    assert [x.act(move_of(i)) for i in range(2)] == ["", ""]
    if mode is Mode.SDK:
        x.save("worker-0")
    again = x.crash(found("worker-0", 1), found("worker-1", 1))
    for y in (x, again):
        assert sorted(y.stopped) == ["worker-0", "worker-1"]
        y.exit("worker-1", 143)
        y.exit("worker-0", 143, Checkpoint("newer", verified=True))
        (start,) = y.last(c.Start)
        assert [a.node for a in start.replicas] == ["b", "b"]
        for name in ("worker-0", "worker-1"):
            y.runs(name)
        assert (y.phase, y.job.moves) == (Phase.RUNNING, 2)


def test_a_gang_whose_chief_does_not_save_in_time_is_not_moved():
    x = gang_of_two()
    x.act(move_of(1))
    x.tick(11.0)
    assert (x.phase, x.stopped, x.job.moves, x.job.restart_as) == (Phase.RUNNING, [], 0, ())
    assert x["worker-1"].to_core().bound_for is None


@pytest.mark.parametrize("index", [0, 1])
def test_a_gang_is_not_moved_to_a_node_that_is_lost_during_the_move(index):
    x = gang_of_two()
    x.act(move_of(index))
    x.event(e.NodeChanged(replace(node("b"), up=False)))
    assert (x.phase, x.stopped, x.job.moves, x.job.restart_as) == (Phase.RUNNING, [], 0, ())
    assert x.job.not_moved == "not moved to b: node b was lost"


def test_a_gang_whose_chief_stops_without_a_checkpoint_starts_again_as_a_whole():
    x = gang_of_two(checkpoint=Mode.SIGTERM)
    x.act(move_of(0))
    x.exit("worker-0", 137)
    x.exit("worker-1", 143)
    assert (x.phase, x.job.restart_as) == (Phase.BACKOFF, ())


def test_an_independent_worker_moves_alone():
    x = gang_of_two(Elastic.INDEPENDENT)
    assert x.act(move_of(1)) == ""
    assert x.stopped == ["worker-1"]
    x.exit("worker-1", 143)
    (start,) = x.last(c.Start)
    assert [(a.replica.name, a.node) for a in start.replicas] == [("worker-1", "b")]
    x.runs("worker-1")
    x.event(e.ReplicaReported(ReplicaId("x/worker-1"), 2))
    assert (x.phase, x.job.moves, x["worker-0"].attempt) == (Phase.RUNNING, 1, 1)


def test_the_chief_of_independent_workers_moves_with_its_gang():
    x = gang_of_two(Elastic.INDEPENDENT)
    assert [x.act(move_of(i)) for i in (0, 1)] == ["", ""]
    x.save("worker-0")
    assert sorted(x.stopped) == ["worker-0", "worker-1"]


def test_a_gang_is_not_restarted_while_an_independent_worker_of_it_moves():
    x = gang_of_two(Elastic.INDEPENDENT)
    assert [x.act(move_of(i)) for i in (1, 0)] == ["", "x is migrating"]


def test_a_worker_that_is_done_when_it_is_moved_does_not_hold_up_its_job():
    x = gang_of_two(Elastic.INDEPENDENT)
    x.act(move_of(1))
    x.exit("worker-1", 0)
    assert (x.phase, list(x.job.replicas)) == (Phase.RUNNING, ["x/worker-0"])


def test_a_worker_that_arrives_and_is_done_at_once_does_not_hold_up_its_job():
    x = gang_of_two(Elastic.INDEPENDENT)
    x.act(move_of(1))
    x.exit("worker-1", 143)
    x.runs("worker-1")
    x.exit("worker-1", 0)
    assert x.phase is Phase.RUNNING


def test_a_gang_that_is_still_starting_is_not_moved():
    x = Driver(tasks=workers(2))
    x.place("worker-0", "worker-1")
    x.runs("worker-0")
    assert x.act(Move(replica=ReplicaId("x/worker-0"), to="b")) == "x is starting"


def test_of_two_independent_workers_only_the_one_that_had_begun_to_stop_is_moved_after_a_crash():
    task = Task(name="worker", replicas=3, least=1, most=3, elastic=Elastic.INDEPENDENT)
    x = Driver(tasks=(task,))
    x.start("worker-0", "worker-1", "worker-2")
    x.act(move_of(1))
    x.controller.apply(move_of(2), x.now)  # its commands are lost in the crash
    x.exit("worker-1", 143)
    x.runs("worker-1")
    x.event(e.ReplicaReported(ReplicaId("x/worker-1"), 2))
    assert x.phase is Phase.MIGRATING
    again = x.crash(found("worker-0", 1), found("worker-1", 2), found("worker-2", 1))
    assert (again.phase, again.stopped) == (Phase.RUNNING, [])
    assert [again[f"worker-{i}"].node for i in range(3)] == ["a", "b", "a"]
