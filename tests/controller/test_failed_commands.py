"""Commands that a platform could not carry out, and what it reports late."""

import pytest

from headway.controller import commands as c
from headway.controller import events as e
from headway.controller.config import Config
from headway.controller.controller import Controller
from headway.controller.job_state import JobState, ReplicaState
from headway.core.model.decision import Place
from headway.core.model.job import JobSpec, Phase, Task
from headway.core.model.units import ReplicaId
from making import node

WORKERS = tuple(ReplicaId.of("g", "worker", i) for i in range(2))
SPEC = JobSpec(tasks=(Task(name="worker", replicas=2),), grace=5.0)


def new_job(**more):
    return e.NewJob(id="g", spec=SPEC, submitted_at=0.0, **more)


def controller(**more):
    found = Controller(Config(**more))
    found.handle(e.NodeChanged(node("a")), 0.0)
    return found


def confirm(found, commands, now=0.0):
    """Everything that was to be persisted is; the commands that follow."""
    while any(isinstance(x, c.Persist) for x in commands):
        stored = [x for x in commands if isinstance(x, c.Persist)]
        commands = [x for x in commands if not isinstance(x, c.Persist)]
        for x in stored:
            commands += found.handle(e.Persisted(x.job, x.version), now)
    return commands


@pytest.fixture
def starting():
    found = controller()
    found.handle(e.JobSeen(new_job()), 0.0)
    found.tick(0.0)
    found.handle(e.Admitted("g"), 0.0)
    _, commands = found.apply(Place(job="g", where=tuple((w, "a") for w in WORKERS)), 0.0)
    confirm(found, commands)
    return found


@pytest.fixture
def running(starting):
    for w in WORKERS:
        confirm(starting, starting.handle(e.ReplicaRunning(w, 1), 0.0))
    assert starting.jobs["g"].phase is Phase.RUNNING
    return starting


@pytest.mark.parametrize("chief_first", [True, False])
def test_a_replica_that_succeeds_before_it_was_seen_running_does_not_hold_up_its_job(
    starting, chief_first
):
    events = [
        e.ReplicaRunning(WORKERS[0], 1),
        e.ReplicaExited(replica=WORKERS[1], attempt=1, code=0),
    ]
    first, second = events if chief_first else reversed(events)
    confirm(starting, starting.handle(first, 1.0))
    assert starting.jobs["g"].phase is Phase.STARTING
    confirm(starting, starting.handle(second, 1.0))
    assert starting.jobs["g"].phase is Phase.RUNNING


def test_a_failed_stop_is_sent_again_and_its_grace_period_restarts(running):
    commands = confirm(running, running.cancel("interrupted", 1.0), 1.0)
    stop = c.Stop(WORKERS[0], 1, 5.0)
    assert stop in commands
    running.handle(e.CommandFailed(stop, "not now"), 1.0)
    assert running.tick(1.5) == []
    assert running.tick(2.0) == [stop]
    assert c.Kill(WORKERS[0], 1) not in running.tick(6.5)
    assert c.Kill(WORKERS[0], 1) in running.tick(7.0)


def test_a_forced_cancel_kills_what_could_not_be_asked_to_stop(running):
    confirm(running, running.cancel("interrupted", 1.0), 1.0)
    running.handle(e.CommandFailed(c.Stop(WORKERS[0], 1, 5.0), "not now"), 1.0)
    running.cancel("interrupted", 1.1, force=True)
    assert c.Kill(WORKERS[0], 1) in running.tick(1.1)


def test_a_start_that_fails_after_its_job_was_forgotten_changes_nothing(running):
    start = running.jobs["g"].start_command(running.jobs["g"].replicas.values())
    confirm(running, running.cancel("interrupted", 1.0), 1.0)
    for w in WORKERS:
        confirm(running, running.handle(e.ReplicaExited(replica=w, attempt=1, code=143), 1.0))
    running.forget("g", 1.0)
    assert running.handle(e.CommandFailed(start, "too late"), 2.0) == []
    assert running.tick(99.0) == []
    assert running.finished


@pytest.mark.parametrize("permanent", [True, False])
def test_an_admission_that_fails_after_its_job_was_cancelled_changes_nothing(permanent):
    found = controller()
    found.handle(e.JobSeen(new_job()), 0.0)
    assert found.tick(0.0) == [c.Admit("g")]
    confirm(found, found.cancel("interrupted", 1.0), 1.0)
    assert found.handle(e.CommandFailed(c.Admit("g"), "no", permanent=permanent), 2.0) == []
    assert found.jobs["g"].phase is Phase.CANCELLED
    assert found.tick(99.0) == []


@pytest.mark.parametrize("how", ["load", "seen"])
def test_a_chief_that_succeeded_while_headway_was_away_counts_before_lost_replicas(how):
    replicas = tuple(ReplicaState(replica=w, node="a", attempt=1) for w in reversed(WORKERS))
    state = JobState(phase=Phase.RUNNING, attempt=1, gang=WORKERS, replicas=replicas)
    done = e.ReplicaExited(replica=WORKERS[0], attempt=1, code=0)
    found = controller()
    if how == "load":
        found.add(new_job())
        there = e.ReplicaFound(WORKERS[0], 1, False, done)
        confirm(found, found.load(e.Loaded({"g": state}, (there,)), 0.0))
        assert found.jobs["g"].phase is Phase.SUCCEEDED
    else:  # nothing is known of its replicas: all are lost
        confirm(found, found.handle(e.JobSeen(new_job(), state), 0.0))
        assert found.jobs["g"].phase is Phase.BACKOFF
    assert found.jobs["g"].failures == (how == "seen")


def test_a_job_that_was_deleted_before_it_ended_is_not_deleted_again(running):
    running.jobs["g"].new = new_job(ttl=0.0)
    commands = running.handle(e.JobDeleted("g", "deleted by a user"), 1.0)
    confirm(running, commands, 1.0)
    for w in WORKERS:
        confirm(running, running.handle(e.ReplicaExited(replica=w, attempt=1, code=143), 2.0), 2.0)
    assert running.jobs["g"].finished_at == 2.0
    assert not [x for x in running.tick(3.0) if isinstance(x, c.DeleteJob)]


def test_a_job_is_deleted_when_its_ttl_has_expired_and_again_if_that_failed():
    found = controller()
    ended = JobState(phase=Phase.SUCCEEDED, finished_at=1.0)
    found.handle(e.JobSeen(new_job(ttl=10.0), ended), 2.0)
    assert found.next_deadline() == 11.0
    assert found.tick(11.0) == [c.DeleteJob("g")]
    assert found.tick(12.0) == []
    found.handle(e.CommandFailed(c.DeleteJob("g"), "not now"), 12.0)
    assert not found.jobs["g"].deleted
    assert found.tick(13.0) == [c.DeleteJob("g")]
    found.handle(e.JobDeleted("g", "its TTL has expired"), 13.0)
    assert found.jobs["g"].deleted
    assert found.tick(99.0) == []
