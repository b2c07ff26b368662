"""Replicas that somebody else started: attached, described, released."""

import pytest

from headway.controller.commands import ApplyShare, Persist, Release, Start
from headway.controller.controller import Controller
from headway.controller.events import (
    JobSeen,
    NewJob,
    NodeChanged,
    Persisted,
    ReplicaNotice,
    ReplicaRunning,
    ShareInEffect,
)
from headway.core.model.job import JobSpec, Phase
from headway.core.model.units import ReplicaId
from making import node

X = ReplicaId("x/main-0")


@pytest.fixture
def controller():
    made = Controller()
    run(made, NodeChanged(node("a", cpu=2.0)))
    return made


def run(controller, event):
    """Handle an event; whatever is to be persisted is."""
    found = []
    for command in controller.handle(event, 0.0):
        found.append(command)
        if isinstance(command, Persist):
            found += run(controller, Persisted(command.job, command.version))
    return found


def adopt(controller):
    spec = JobSpec()
    return run(
        controller, JobSeen(NewJob(id="x", spec=spec, submitted_at=0, adopted=True, node="a"))
    )


def test_an_adopted_job_is_attached_without_a_decision(controller):
    (start,) = [c for c in adopt(controller) if isinstance(c, Start)]
    assert [(a.replica, a.node, a.attempt) for a in start.replicas] == [(X, "a", 1)]


def test_an_adopted_replica_keeps_the_share_it_has(controller):
    adopt(controller)
    run(controller, ShareInEffect(X, 1, 0.5, 2.0))
    commands = run(controller, ReplicaRunning(X, 1))
    r = controller.records.replica(X)
    assert (r.limit, r.weight, r.in_effect) == (0.5, 2.0, (0.5, 2.0))
    assert not [c for c in commands if isinstance(c, ApplyShare)]


def test_a_share_that_takes_effect_later_does_not_change_what_was_decided(controller):
    adopt(controller)
    run(controller, ReplicaRunning(X, 1))
    run(controller, ShareInEffect(X, 1, 0.5, 2.0))
    r = controller.records.replica(X)
    assert (r.limit, r.weight, r.in_effect) == (None, 1.0, (0.5, 2.0))


def test_an_adopted_replica_is_released_and_never_stopped(controller):
    adopt(controller)
    run(controller, ReplicaRunning(X, 1))
    commands = controller.cancel("interrupted", 0.0)
    (persist,) = [c for c in commands if isinstance(c, Persist)]
    assert run(controller, Persisted("x", persist.version)) == [Release(X, 1)]
    assert controller.jobs["x"].phase is Phase.STOPPING


def test_replicas_report_when_the_foreign_load_of_their_node_changes(controller):
    adopt(controller)
    run(controller, ReplicaRunning(X, 1))
    controller.take_outbox(0.0)
    run(controller, NodeChanged(node("a", cpu=2.0, foreign=1.3)))
    outbox = controller.take_outbox(0.0)
    assert (list(outbox.nodes), list(outbox.to_measure)) == (["a"], ["a"])


def test_a_notice_is_part_of_the_next_report(controller):
    adopt(controller)
    run(controller, ReplicaRunning(X, 1))
    run(controller, ReplicaNotice(X, 1, "its log cannot be read"))
    outbox = controller.take_outbox(0.0)
    assert outbox.notices == {X: "its log cannot be read"}
    assert list(outbox.to_measure) == ["a"]
