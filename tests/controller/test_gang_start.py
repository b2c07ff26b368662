"""Platforms that prepare a gang first: its training begins when the last replica has its node."""

from dataclasses import replace

from driver import Driver, found, workers

from headway.controller import commands as c
from headway.controller import events as e
from headway.core.model.job import Phase, Task
from headway.core.model.units import ReplicaId
from making import node

NAMES = ("worker-0", "worker-1")


def gang(*names, **more):
    x = Driver(tasks=workers(len(names or NAMES)), **more)
    assert x.place(*names or NAMES) == ""
    x.last(c.Start)
    return x


def prepares(x, name):
    x.event(e.ReplicaPrepared(ReplicaId.named("x", name), x[name].attempt))


def waits(x, name, reason, *, unschedulable=True):
    r = x[name]
    x.event(e.ReplicaWaiting(r.id, r.attempt, reason, unschedulable))


def proceeded(x):
    return [[a.replica.name for a in command.replicas] for command in x.last(c.Proceed)]


def test_the_training_begins_once_when_all_replicas_have_their_nodes():
    x = gang()
    prepares(x, "worker-0")
    prepares(x, "worker-0")
    assert proceeded(x) == []
    prepares(x, "worker-1")
    prepares(x, "worker-1")
    assert proceeded(x) == [["worker-0", "worker-1"]]
    for name in NAMES:
        x.runs(name)
        prepares(x, name)
    assert (x.phase, proceeded(x)) == (Phase.RUNNING, [])


def test_a_gang_whose_training_could_not_begin_returns_to_the_queue():
    x = gang()
    for name in NAMES:
        prepares(x, name)
    (command,) = x.last(c.Proceed)
    x.runs("worker-0")
    x.event(e.CommandFailed(command, "busy", disrupted=True))
    assert (x.phase, x.stopped, x.job.failures) == (Phase.STOPPING, ["worker-0"], 0)
    prepares(x, "worker-0")
    assert proceeded(x) == [], "it is being stopped"


def test_the_next_process_continues_a_gang_of_which_some_run():
    x = gang()
    for name in NAMES:
        prepares(x, name)
    x.runs("worker-0")
    again = x.crash(found("worker-0", 1), found("worker-1", 1, running=False))
    assert [a.replica.name for s in again.last(c.Start) for a in s.replicas] == ["worker-1"]
    prepares(again, "worker-1")
    assert proceeded(again) == [["worker-1"]]
    again.runs("worker-1")
    assert again.phase is Phase.RUNNING


def test_an_unschedulable_replica_releases_its_gang_after_ten_seconds_and_avoids_the_node():
    x = gang()
    prepares(x, "worker-0")
    waits(x, "worker-1", "0/2 nodes are available")
    x.tick(6.0)
    waits(x, "worker-1", "0/3 nodes are available")
    x.tick(3.0)
    assert x.phase is Phase.STARTING
    x.tick(1.0)
    assert (x.phase, sorted(x.stopped)) == (Phase.STOPPING, sorted(NAMES))
    for name in NAMES:
        x.exit(name, 137)
    reason = "replica worker-1: unschedulable: 0/3 nodes are available"
    assert (x.phase, x.job.reason, x.job.failures) == (Phase.BACKOFF, reason, 0)
    assert x.controller.records.to_core("x").spec.tasks[0].nodes == ("b",)
    x.event(e.NodeChanged(node("new")))
    assert x.controller.records.to_core("x").spec.tasks[0].nodes == ("b", "new")
    x.tick(59.0)
    assert x.controller.records.to_core("x").spec.tasks[0].nodes == ("b", "new")
    x.controller.take_outbox(x.now)
    x.tick(1.0)
    assert x.controller.records.to_core("x").spec.tasks[0].nodes is None
    assert "x" in x.controller.take_outbox(x.now).jobs


def test_avoided_nodes_are_removed_from_those_that_a_task_may_use():
    x = gang()
    x.job.avoided["a"], x.job.avoided["b"] = 5.0, 90.0
    x.job.spec = replace(x.job.spec, tasks=(replace(Task(name="worker"), nodes=("b", "c")),))
    assert x.controller.records.to_core("x").spec.tasks[0].nodes == ("c",)
    x.tick(5.0)
    assert x.job.avoided == {"b": 90.0}


def test_a_replica_that_gets_its_node_in_time_is_not_released():
    x = gang()
    for name in NAMES:
        waits(x, name, "no room")
    x.tick(9.0)
    prepares(x, "worker-0")
    waits(x, "worker-1", "")  # room is being made for it
    x.tick(20.0)
    assert x.phase is Phase.STARTING
    waits(x, "worker-1", "no room")
    x.tick(5.0)
    waits(x, "worker-1", "ErrImagePull", unschedulable=False)
    x.tick(20.0)
    assert x.phase is Phase.STARTING, "another reason has another deadline"
    x.tick(10.0)
    assert (x.phase, x.job.failures) == (Phase.STOPPING, 1)
