"""What users ask for (pause, resume, cancel), adopted jobs, and jobs that the platform brings."""

import pytest
from driver import Driver, found, workers

from headway.controller import commands as c
from headway.controller import events as e
from headway.core.model.decision import Move, Place, Suspend
from headway.core.model.job import JobSpec, Mode, Phase
from headway.core.model.snapshot import Request
from headway.core.model.units import ReplicaId
from making import node

MOVE = Move(replica=ReplicaId("x/main-0"), to="b")


def worker(index):
    return ReplicaId.of("x", "worker", index)


# -- pauses ----------------------------------------------------------------------------------------


def test_a_pending_job_is_paused_and_resumed():
    x = Driver()
    x.ask("pause")
    assert (x.phase, x.disk["x"].paused) == (Phase.PAUSED, True)
    assert x.place() == "x is not pending"
    assert x.crash().phase is Phase.PAUSED
    x.ask("resume")
    assert x.place() == ""


def test_a_job_that_is_resumed_during_back_off_is_started_once():
    x = Driver()
    x.start()
    x.exit("main-0", 1)
    x.ask("resume")
    assert x.phase is Phase.BACKOFF
    x.tick(1.0)
    x.start()
    x.tick(60.0)
    assert x.phase is Phase.RUNNING
    assert x.place() == "x is not pending"


def test_a_job_that_is_paused_during_back_off_stays_out_of_the_queue():
    x = Driver()
    x.start()
    x.exit("main-0", 1)
    x.ask("pause")
    x.tick(60.0)
    assert x.phase is Phase.PAUSED
    x.ask("resume")
    assert x.place() == ""


def test_a_running_job_is_paused_by_its_suspension():
    x = Driver()
    x.start()
    x.ask("pause")
    assert (x.phase, x.controller.outbox.requests[-1].wish) == (Phase.RUNNING, "pause")
    x.controller.take_outbox(x.now)
    x.act(Suspend(job="x"))
    assert list(x.controller.outbox.to_measure) == ["a"]  # what its neighbours used is read now
    x.save("main-0")
    x.exit("main-0", 143)
    assert x.phase is Phase.PAUSED


def test_a_pause_that_fails_does_not_hold_the_job_later():
    x = Driver()
    x.start()
    x.ask("pause")
    x.act(Suspend(job="x"))
    x.tick(11.0)
    assert (x.phase, x.job.paused, x.disk["x"].paused) == (Phase.RUNNING, False, False)
    x.exit("main-0", 1)
    x.tick(1.0)
    assert x.place() == ""


def test_a_running_job_that_cannot_save_is_not_paused():
    x = Driver(checkpoint=Mode.NONE)
    x.start()
    x.ask("pause")
    assert not x.job.paused
    x.exit("main-0", 1)
    x.ask("pause")
    assert x.job.paused, "without replicas any job can wait"


def test_a_running_job_is_not_paused_where_jobs_cannot_be_suspended():
    x = Driver(config={"can_suspend": False})
    x.start()
    x.ask("pause")
    assert not x.job.paused


def test_a_pause_that_had_only_begun_at_a_crash_is_requested_again():
    x = Driver()
    x.start()
    x.ask("pause")
    again = x.crash(found("main-0", 1))
    assert [r.wish for r in again.controller.outbox.requests] == ["pause"]


def test_a_move_that_a_user_requested_is_requested_again_after_a_crash():
    x = Driver()
    x.start()
    x.ask("move", to="b")
    x.act(MOVE)
    again = x.crash(found("main-0", 1))
    assert [(r.wish, r.to) for r in again.controller.outbox.requests] == [("move", "b")]


def test_a_requested_move_that_fails_or_is_overtaken_is_not_requested_again():
    x = Driver()
    x.start()
    for _ in range(2):
        x.ask("move", to="b")
        x.act(MOVE)
        assert x.disk["x"].move_to == "b"
        x.tick(11.0)
        assert (x.phase, x.disk["x"].move_to) == (Phase.RUNNING, None)
    x.ask("move", to="b")
    x.act(MOVE)
    x.exit("main-0", 1)
    assert x.disk["x"].move_to is None, "its next attempt starts where there is room"


def test_a_requested_move_that_is_refused_is_not_requested_again():
    x = Driver(checkpoint=Mode.NONE)
    x.start()
    x.ask("move", to="b")
    assert x.act(MOVE) == "x cannot save checkpoints"
    assert x.disk["x"].move_to is None


def test_requests_for_unknown_or_ended_jobs_change_nothing():
    x = Driver()
    assert x.controller.request(Request(job="ghost", wish="pause"), 0.0) == []
    x.start()
    x.exit("main-0", 0)
    x.sent.clear()
    for wish in ("pause", "cancel", "move"):
        x.ask(wish)
    assert (x.sent, x.phase) == ([], Phase.SUCCEEDED)


# -- cancel ----------------------------------------------------------------------------------------


def test_cancel_ends_jobs_that_never_started():
    x = Driver()
    x.controller.add(e.NewJob(id="late", spec=JobSpec(), submitted_at=100.0))
    x.run(x.controller.cancel("interrupted", x.now))
    assert {j.phase for j in x.controller.jobs.values()} == {Phase.CANCELLED}
    assert x.controller.finished


def test_a_second_cancel_kills_at_once_and_abandons_what_is_on_lost_nodes():
    x = Driver(tasks=workers(2))
    where = ((worker(0), "a"), (worker(1), "b"))
    x.act(Place(job="x", where=where))
    x.runs("worker-0")
    x.runs("worker-1")
    x.event(e.NodeChanged(node("b", up=False)))
    x.run(x.controller.cancel("interrupted", x.now))
    x.run(x.controller.cancel("interrupted", x.now, force=True))
    x.tick()
    assert [k.replica.name for k in x.last(c.Kill)] == ["worker-0"]
    assert x.job.reason == "interrupted; node b is down: worker-1 may still run there"
    x.exit("worker-0", 137)
    assert x.phase is Phase.CANCELLED


# -- adopted jobs ----------------------------------------------------------------------------------


def adopted(**more):
    x = Driver(adopted=True, **more)
    x.start()
    return x


def test_an_adopted_job_ends_with_its_replica_and_nothing_of_it_is_removed():
    x = adopted()
    x.exit("main-0", 0)
    assert (x.phase, x.last(c.Remove), x.last(c.Stop)) == (Phase.SUCCEEDED, [], [])


def test_an_adopted_job_that_fails_is_not_retried():
    x = adopted()
    x.exit("main-0", 1, reason="exited with code 1")
    assert (x.phase, x.job.reason) == (Phase.FAILED, "exited with code 1")


def test_an_adopted_job_is_released_and_never_stopped_or_killed():
    x = adopted()
    x.ask("cancel")
    assert len(x.last(c.Release)) == 1
    x.tick(10.0)
    assert len(x.last(c.Release)) == 1
    x.exit("main-0", 0)
    assert (x.phase, x.last(c.Stop), x.last(c.Kill)) == (Phase.CANCELLED, [], [])
    assert x.job.reason == "released; its processes continue to run"
    assert (x.job.outcome, Driver().job.outcome) == ("released", "pending")


def test_of_an_adopted_gang_the_end_of_one_means_nothing_for_the_others():
    x = Driver(adopted=True, tasks=workers(2))
    x.start("worker-0", "worker-1")
    x.exit("worker-0", 1)
    assert x.phase is Phase.RUNNING
    x.exit("worker-1", 0)
    assert x.phase is Phase.SUCCEEDED


def test_an_adopted_job_that_runs_already_is_adopted_without_a_decision():
    x = Driver()
    x.event(e.JobSeen(e.NewJob(id="y", spec=JobSpec(), submitted_at=0.0, adopted=True, node="b")))
    (start,) = x.last(c.Start)
    assert [(a.replica, a.node) for a in start.replicas] == [("y/main-0", "b")]


# -- jobs that the platform brings -----------------------------------------------------------------


def new(name, **more):
    return e.NewJob(id=name, spec=JobSpec(), submitted_at=0.0, **more)


def test_a_job_that_the_platform_rejects_fails():
    x = Driver()
    x.event(e.JobSeen(new("y")))
    x.event(e.JobRejected("y", "podTemplate: hostNetwork is not supported"))
    y = x.controller.jobs["y"]
    assert (y.phase, y.reason) == (Phase.FAILED, "podTemplate: hostNetwork is not supported")
    x.event(e.JobRejected("y", "again"))
    assert y.reason.startswith("podTemplate")


def test_an_admission_is_repeated_unless_it_failed_for_good():
    x = Driver()
    x.controller.add(new("y"))
    x.controller.add(new("z"))
    commands = x.controller.tick(x.now)
    assert [k.job for k in commands] == ["y", "z"]
    x.event(e.CommandFailed(commands[0], "timeout"))
    x.event(e.CommandFailed(commands[1], "quota exceeded", permanent=True))
    assert x.controller.jobs["z"].phase is Phase.FAILED
    x.tick(1.0)
    assert x.controller.jobs["y"].arrived
    x.event(e.Admitted("y"))
    assert x.controller.jobs["y"].phase is Phase.PENDING


def test_a_changed_spec_counts_while_the_job_has_no_replicas():
    x = Driver()
    x.event(e.JobChanged("x", JobSpec(priority=3)))
    assert x.job.spec.priority == 3
    x.start()
    x.event(e.JobChanged("x", JobSpec(priority=5)))
    assert x.job.spec.priority == 3


def test_a_deleted_job_is_cancelled_and_its_name_is_free_when_it_has_ended():
    x = Driver()
    x.start()
    x.event(e.JobSeen(new("x")))
    x.event(e.JobDeleted("x", "its TrainingJob was deleted"))
    x.event(e.JobSeen(new("x")))
    assert (x.phase, x.job.reason) == (Phase.STOPPING, "its TrainingJob was deleted")
    x.exit("main-0", 143)
    x.run(x.controller.forget("x", x.now))
    assert (x.phase, x.job.arrived) == (Phase.PENDING, False)
    x.event(e.JobDeleted("ghost", ""))
    x.event(e.JobDeleted("x", "deleted"))
    x.run(x.controller.forget("x", x.now))
    assert x.controller.jobs == {}


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_new_job_waits_until_nothing_is_left_of_the_one_of_its_name(confirmed):
    """Both have an attempt 1: a removal that is repeated would concern the new one."""
    x = Driver()
    x.start()
    x.removes = False
    x.event(e.JobDeleted("x", "deleted"))
    x.exit("main-0", 143)
    x.event(e.JobSeen(new("x")))
    x.run(x.controller.forget("x", x.now))
    x.event(e.JobSuspended("x", True))
    assert "x" not in x.controller.jobs
    if confirmed:
        x.event(e.Removed(ReplicaId("x/main-0"), 1))
    else:
        x.tick(x.controller.config.removal_timeout)
    assert (x.phase, x.job.paused) == (Phase.PENDING, True)
    x.sent.clear()
    x.tick(x.controller.config.removal_timeout)
    assert not any(isinstance(each, c.Remove) for each in x.sent)


def test_a_job_that_appears_with_a_state_continues():
    x = Driver()
    x.start()
    y = Driver()
    del y.controller.jobs["x"]
    y.event(e.JobSeen(new("x"), x.disk["x"]))
    assert y.phase is Phase.BACKOFF, "its replica is gone"


def test_a_suspension_by_the_spec_stops_what_runs_and_needs_no_checkpoint():
    x = Driver(checkpoint=Mode.NONE)
    x.start()
    x.event(e.JobSuspended("x", suspended=True))
    assert (x.phase, x.stopped) == (Phase.STOPPING, ["main-0"])
    x.event(e.JobSuspended("x", suspended=True))
    x.exit("main-0", 143)
    x.tick(1.0)
    assert (x.phase, x.job.failures) == (Phase.PAUSED, 0)
    x.event(e.JobSuspended("x", suspended=False))
    assert x.phase is Phase.PENDING


def test_a_job_that_is_stopping_anyway_is_suspended_when_it_has_stopped():
    x = Driver()
    x.start()
    x.exit("main-0", 1)
    assert x.phase is Phase.BACKOFF
    x.event(e.JobSuspended("x", suspended=True))
    x.tick(1.0)
    assert x.phase is Phase.PAUSED
