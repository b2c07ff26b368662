"""Nodes that are about to go: the policy is asked to move what can continue elsewhere."""

from dataclasses import replace

import pytest
from driver import Driver, found

from headway.controller import events as e
from headway.core.model.decision import Move, Suspend
from headway.core.model.job import Mode
from headway.core.model.snapshot import Request, Trigger
from making import node

LEAVE = Request(job="x", wish="leave", to="a")


def cordon(x, name="a", **more):
    x.event(e.NodeChanged(replace(node(name), cordoned=True, **more)))
    x.tick()
    return asked(x)


def asked(x):
    outbox = x.controller.take_outbox(x.now)
    assert bool(outbox.requests) == (Trigger.ASKED in outbox.triggers)
    return outbox.requests


def test_a_job_is_asked_to_leave_a_cordoned_node_until_it_has():
    x = Driver()
    x.start()
    assert cordon(x) == [LEAVE]
    x.tick(29.0)
    assert asked(x) == []
    assert x.controller.next_deadline() == 30.0
    x.tick(1.0)
    assert asked(x) == [LEAVE]
    x.event(e.NodeChanged(node("a")))
    x.tick(60.0)
    assert (asked(x), x.controller.next_deadline()) == ([], float("inf"))


def test_a_change_of_a_cordoned_node_is_no_reason_to_ask_again():
    x = Driver()
    x.start()
    assert cordon(x) == [LEAVE]
    assert cordon(x, rack="r") == []


def test_the_next_process_asks_as_well():
    x = Driver()
    x.start()
    y = Driver(x.disk, found=[found("main-0", 1)])
    assert cordon(y) == [LEAVE]


@pytest.mark.parametrize("spec", [{"checkpoint": Mode.NONE}, {"adopted": True}])
def test_what_cannot_continue_elsewhere_stays(spec):
    x = Driver(**spec)
    x.start()
    assert cordon(x) == []


def test_jobs_elsewhere_and_jobs_that_are_leaving_are_not_asked():
    x = Driver()
    x.start()
    assert cordon(x, "b") == []
    x.act(Suspend(job="x"))
    assert cordon(x, "a") == []
    assert cordon(x, "a", up=False) == []


def removed(x, name):
    x.event(e.NodeChanged(replace(node(name), up=False), exists=False))
    return list(x.controller.cordons.forget())


def test_a_node_that_was_removed_is_forgotten_when_no_replica_is_there():
    x = Driver()
    x.start()
    assert removed(x, "b") == ["b"]
    assert "b" not in x.controller.nodes
    assert removed(x, "b") == ["b"], "it had come back"
    assert removed(x, "a") == []
    assert not x.controller.nodes["a"].up
    x.event(e.NodeChanged(node("a")))
    x.exit("main-0", 0)
    assert list(x.controller.cordons.forget()) == [], "it is there again"


def test_a_move_to_a_node_that_was_removed_is_given_up_and_the_node_forgotten():
    x = Driver()
    x.start()
    x.act(Move(replica=x["main-0"].id, to="b"))
    assert removed(x, "b") == ["b"]
    assert (x["main-0"].transfer, x["main-0"].node) == (None, "a")


def test_the_tasks_of_a_job_that_runs_may_use_other_nodes_and_are_not_changed_otherwise():
    x = Driver()
    x.start()
    (task,) = x.job.spec.tasks
    now = replace(task, nodes=("a", "c"), least=7)
    x.event(e.JobChanged("x", replace(x.job.spec, tasks=(now,), grace=99.0)))
    assert x.job.spec.tasks == (replace(task, nodes=("a", "c")),)
    assert x.job.spec.grace == 10.0
    assert Trigger.NODE in x.controller.take_outbox(x.now).triggers
