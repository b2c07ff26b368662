"""Moves, suspension and scaling: checkpoint, stop, start again; and what a crash leaves of them."""

import pytest
from driver import Driver, found, workers

from headway.controller import commands as c
from headway.controller import events as e
from headway.controller.job_state import Checkpoint, from_plain, to_plain
from headway.core.model.decision import Move, Scale, SetShare, Suspend
from headway.core.model.job import Elastic, Mode, Phase, Task
from headway.core.model.units import ReplicaId

MAIN = ReplicaId("x/main-0")


def moving(**spec):
    x = Driver(**spec)
    x.start()
    assert x.act(Move(replica=MAIN, to="b")) == ""
    return x


# -- moves -----------------------------------------------------------------------------------------


def test_a_move_saves_stops_starts_elsewhere_and_frees_the_old_room_at_the_first_report():
    x = moving()
    (request,) = x.last(c.RequestCheckpoint)
    assert (request.ask, x.phase, x.stopped) == (True, Phase.MIGRATING, [])
    seen = x["main-0"].to_core()
    assert (seen.node, seen.bound_for, seen.phase) == ("a", "b", Phase.MIGRATING)
    x.save("main-0")
    assert x.stopped == ["main-0"]
    x.exit("main-0", 143)
    r = x["main-0"]
    assert (r.node, r.attempt, r.to_core().node, r.to_core().bound_for) == ("b", 2, "a", "b")
    x.runs("main-0")
    assert x.phase is Phase.MIGRATING
    assert x.controller.arriving
    x.event(e.ReplicaReported(MAIN, 2))
    assert not x.controller.arriving
    assert (x.phase, x.job.moves, x["main-0"].to_core().bound_for) == (Phase.RUNNING, 1, None)
    x.event(e.ReplicaReported(MAIN, 2))
    assert x.job.moves == 1


def test_a_replica_that_does_not_report_has_arrived_after_its_grace_period():
    x = moving()
    x.save("main-0")
    x.exit("main-0", 143)
    x.runs("main-0")
    x.tick(10.0)
    assert (x.phase, x.job.moves) == (Phase.RUNNING, 1)


def test_a_replica_that_ends_before_it_reports_has_been_moved():
    """Also if its end is found only by the next process."""
    x = moving()
    x.save("main-0")
    x.exit("main-0", 143)
    x.runs("main-0")
    x.exit("main-0", 0)
    assert (x.phase, x.job.moves) == (Phase.SUCCEEDED, 1)


def test_the_same_checkpoint_is_no_reason_to_stop():
    x = moving()
    due = x.controller.next_deadline()
    x.event(e.CheckpointRead(MAIN, 1, Checkpoint()))
    assert (x.stopped, x.controller.next_deadline()) == ([], due)


def test_a_checkpoint_that_was_not_requested_changes_nothing():
    x = Driver()
    x.start()
    x.save("main-0")
    assert (x.phase, x.stopped) == (Phase.RUNNING, [])


def test_a_replica_that_does_not_save_in_time_keeps_running():
    x = moving()
    x.tick(10.0)
    assert (x.phase, x.stopped, len(x.last(c.CancelCheckpoint))) == (Phase.RUNNING, [], 1)
    assert "no new checkpoint within 10 s" in x.controller.outbox.notices[MAIN]


def test_a_request_for_a_checkpoint_that_fails_ends_the_move():
    x = moving()
    (request,) = x.last(c.RequestCheckpoint)
    x.event(e.CommandFailed(request, "EIO"))
    x.tick()
    assert x.phase is Phase.RUNNING
    x.event(e.CommandFailed(request, "late"))


@pytest.mark.parametrize(
    ("verified", "code", "saved"),
    [
        (False, 143, True),
        (False, 0, True),
        (False, 137, False),
        (False, 1, False),
        (True, 137, True),
    ],
)
def test_without_the_sdk_the_exit_code_says_whether_a_newer_file_is_complete(verified, code, saved):
    x = moving(checkpoint=Mode.SIGTERM)
    assert x.stopped == ["main-0"], "it is not asked, only stopped"
    x.exit("main-0", code, Checkpoint("newer", verified))
    assert x["main-0"].node == ("b" if saved else "a")
    assert x.job.spec.checkpoint is (Mode.SIGTERM if saved else Mode.NONE)
    assert x.disk["x"].movable is saved
    why = x.job.not_moved
    assert why.startswith("" if saved else f"exited with code {code}, which means not saved")
    assert bool(why) is not saved


def test_a_script_that_finishes_while_it_is_stopped_has_succeeded():
    x = moving()
    x.save("main-0")
    x.exit("main-0", 0)
    assert x.phase is Phase.SUCCEEDED


def test_a_job_that_cannot_be_started_where_it_was_moved_to_is_retried():
    x = moving()
    x.save("main-0")
    x.last(c.Start)
    x.exit("main-0", 143)
    (start,) = x.last(c.Start)
    x.event(e.CommandFailed(start, "ENOSPC"))
    assert (x.phase, x.job.reason) == (Phase.BACKOFF, "could not be started: ENOSPC")
    x.tick(1.0)
    assert x.place() == ""


def test_a_replica_that_fails_while_it_saves_fails_its_job():
    x = moving()
    x.exit("main-0", 1)
    assert (x.phase, x.job.failures) == (Phase.BACKOFF, 1)


def test_a_cancel_during_a_move_withdraws_the_request():
    x = moving()
    x.ask("cancel")
    assert (len(x.last(c.CancelCheckpoint)), x.stopped) == (1, ["main-0"])
    x.exit("main-0", 143)
    assert x.phase is Phase.CANCELLED


# -- suspension ------------------------------------------------------------------------------------


def suspending(mode=Mode.SDK):
    x = Driver(tasks=workers(2), checkpoint=mode)
    x.start("worker-0", "worker-1")
    assert x.act(Suspend(job="x")) == ""
    return x


def test_of_a_gang_that_is_suspended_the_chief_saves_before_any_is_stopped():
    x = suspending()
    assert {r.phase for r in x.job.replicas.values()} == {Phase.SUSPENDING}
    x.tick(1.0)
    assert x.stopped == []
    x.save("worker-0")
    assert x.stopped == ["worker-0", "worker-1"]
    x.exit("worker-0", 143)
    assert x.phase is Phase.SUSPENDING
    x.exit("worker-1", 143)
    assert x.phase is Phase.PENDING
    assert x.place("worker-0", "worker-1") == ""
    assert {r.attempt for r in x.job.replicas.values()} == {2}


def test_replicas_that_are_stopped_save_with_a_normal_weight():
    x = Driver(tasks=workers(2), checkpoint=Mode.SDK)
    x.start("worker-0", "worker-1")
    for name in ("worker-0", "worker-1"):
        x.act(SetShare(replica=x[name].id, limit=None, weight=0.01, reason=""))
    x.last(c.ApplyShare)
    x.act(Suspend(job="x"))
    assert [(a.replica.name, a.weight) for a in x.last(c.ApplyShare)] == [
        ("worker-0", 1.0),
        ("worker-1", 1.0),
    ]
    assert x["worker-0"].to_core().weight == 1.0


def test_a_gang_whose_chief_does_not_save_stays_whole():
    x = suspending()
    x.tick(11.0)
    assert (x.stopped, x.phase) == ([], Phase.RUNNING)
    assert {r.phase for r in x.job.replicas.values()} == {Phase.RUNNING}


@pytest.mark.parametrize("order", [("worker-0", "worker-1"), ("worker-1", "worker-0")])
def test_a_gang_that_was_stopped_and_had_not_saved_restarts_as_a_whole(order):
    x = Driver(tasks=workers(2), checkpoint=Mode.SIGTERM)
    x.start("worker-0", "worker-1")
    x.ask("pause")
    x.act(Suspend(job="x"))
    assert x.stopped == ["worker-0", "worker-1"]
    for name in order:
        x.exit(name, 143)
    x.tick(1.0)
    assert (x.phase, x.job.failures, x.job.paused) == (Phase.PENDING, 0, False)
    assert x.job.spec.checkpoint is Mode.NONE
    assert x.place("worker-0", "worker-1") == ""


def test_a_single_job_that_was_stopped_and_had_not_saved_restarts_where_it_was():
    x = Driver(checkpoint=Mode.SIGTERM)
    x.start()
    x.act(Suspend(job="x"))
    x.exit("main-0", 143)
    assert (x["main-0"].node, x["main-0"].attempt, x.phase) == ("a", 2, Phase.SUSPENDING)
    x.runs("main-0")
    x.event(e.ReplicaReported(MAIN, 2))
    assert x.controller.outbox.notices[MAIN].startswith("exited without a new checkpoint")
    assert (x.phase, x.job.moves) == (Phase.RUNNING, 0)


def test_a_worker_that_fails_while_the_chief_saves_fails_the_job():
    x = suspending()
    x.exit("worker-1", 1)
    assert x.stopped == ["worker-0"]
    x.exit("worker-0", 143)
    x.tick(1.0)
    assert (x.phase, x.job.failures) == (Phase.PENDING, 1)


def test_a_worker_that_is_done_while_the_chief_saves_is_not_waited_for():
    x = suspending()
    x.exit("worker-1", 0)
    x.save("worker-0")
    x.exit("worker-0", 143)
    assert x.phase is Phase.PENDING


# -- scaling ---------------------------------------------------------------------------------------

EXTRA = ReplicaId("x/worker-1")


def scaled(elastic=Elastic.RESTART, **more):
    tasks = (Task(name="worker", replicas=1, least=1, most=3, elastic=elastic),)
    x = Driver(tasks=tasks, **more)
    x.start("worker-0")
    x.last(c.Start)
    assert x.act(Scale(job="x", task="worker", add=((EXTRA, "b"),))) == ""
    return x


def test_a_job_is_scaled_by_a_restart_in_its_new_size():
    x = scaled()
    assert (x.phase, x.stopped) == (Phase.MIGRATING, [])
    assert x.act(Move(replica=ReplicaId("x/worker-0"), to="b")) == "x/worker-0 is not running"
    x.save("worker-0")
    x.exit("worker-0", 143)
    (start,) = x.last(c.Start)
    assert [(a.replica.name, a.node, a.rank) for a in start.replicas] == [
        ("worker-0", "a", 0),
        ("worker-1", "b", 1),
    ]
    x.runs("worker-0")
    x.runs("worker-1")
    assert x.phase is Phase.RUNNING
    x.act(Scale(job="x", task="worker", remove=(EXTRA,)))
    x.save("worker-0", "step 9")
    x.exit("worker-0", 143)
    x.exit("worker-1", 143)
    (start,) = x.last(c.Start)
    assert start.gang == ("x/worker-0",)


def test_a_scaling_whose_checkpoint_fails_changes_nothing():
    x = scaled()
    x.tick(10.0)
    assert (x.phase, x.job.restart_as, list(x.job.replicas)) == (
        Phase.RUNNING,
        (),
        ["x/worker-0"],
    )


def test_independent_replicas_join_and_leave_one_by_one():
    x = scaled(Elastic.INDEPENDENT, checkpoint=Mode.NONE)
    (start,) = x.last(c.Start)
    assert ([a.replica for a in start.replicas], x.phase) == ([EXTRA], Phase.RUNNING)
    assert start.gang == ("x/worker-0", EXTRA)
    x.runs("worker-1")
    assert x["worker-1"].phase is Phase.RUNNING
    x.act(Scale(job="x", task="worker", remove=(EXTRA,)))
    assert (x.stopped, x.phase) == (["worker-1"], Phase.RUNNING)
    x.exit("worker-1", 1)
    assert (x.phase, x.job.failures, list(x.job.replicas)) == (
        Phase.RUNNING,
        0,
        ["x/worker-0"],
    )


# -- after a crash ---------------------------------------------------------------------------------


def exited(name, attempt, code, mark=""):
    last = Checkpoint(mark, verified=bool(mark))
    gone = e.ReplicaExited(
        replica=ReplicaId.named("x", name), attempt=attempt, code=code, checkpoint=last, at=5.0
    )
    return found(name, attempt, running=False, exited=gone)


def test_a_start_that_a_crash_cut_short_is_completed_under_the_same_attempt():
    x = Driver(tasks=workers(2))
    x.place("worker-0", "worker-1")
    again = x.crash(found("worker-0", 1), found("worker-1", 1, running=False))
    (start,) = again.last(c.Start)
    assert [(a.replica.name, a.attempt, a.rank) for a in start.replicas] == [("worker-1", 1, 1)]
    again.runs("worker-1")
    assert again.phase is Phase.RUNNING


def test_a_gang_that_is_whole_after_a_crash_runs():
    x = Driver(tasks=workers(2))
    x.place("worker-0", "worker-1")
    again = x.crash(found("worker-0", 1), found("worker-1", 1))
    assert (again.phase, again.last(c.Start)) == (Phase.RUNNING, [])


def test_a_job_that_ended_while_headway_was_away_has_ended_then():
    x = Driver()
    x.start()
    x.now = 60.0
    again = x.crash(exited("main-0", 1, 0))
    assert (again.phase, again.job.finished_at) == (Phase.SUCCEEDED, 5.0)


def test_a_replica_that_disappeared_while_headway_was_away_has_failed():
    x = Driver(backoff_limit=0)
    x.start()
    again = x.crash()
    assert (again.phase, again.job.reason) == (
        Phase.FAILED,
        "disappeared while Headway was not running",
    )


def test_what_no_state_names_is_removed():
    x = Driver()
    x.start()
    again = x.crash(found("main-0", 1), found("main-0", 9), exited("main-0", 8, 0))
    assert [r.attempt for r in again.last(c.Remove)] == [9, 8]


def test_a_move_that_was_only_requested_is_forgotten():
    x = moving()
    again = x.crash(found("main-0", 1))
    assert (again.phase, again.stopped) == (Phase.RUNNING, [])


def test_a_move_continues_where_the_crash_came():
    x = moving()
    x.save("main-0")
    stopping = x.crash(found("main-0", 1))
    assert (stopping.phase, stopping.stopped) == (Phase.MIGRATING, ["main-0"])
    stopped = x.crash(exited("main-0", 1, 143, "step 3"))
    (start,) = stopped.last(c.Start)
    assert [(a.node, a.attempt) for a in start.replicas] == [("b", 2)]
    started = stopped.crash()
    (start,) = started.last(c.Start)
    assert [(a.node, a.attempt) for a in start.replicas] == [("b", 2)]
    arriving = stopped.crash(found("main-0", 2))
    assert (arriving.phase, arriving["main-0"].to_core().node) == (Phase.MIGRATING, "a")
    arriving.event(e.ReplicaReported(MAIN, 2))
    assert (arriving.phase, arriving.job.moves) == (Phase.RUNNING, 1)


def test_a_move_that_saved_nothing_before_the_crash_returns_to_its_source():
    x = moving(checkpoint=Mode.SIGTERM)
    again = x.crash(exited("main-0", 1, 143))
    (start,) = again.last(c.Start)
    assert ([a.node for a in start.replicas], again.job.spec.checkpoint) == (["a"], Mode.NONE)
    assert again.crash().job.spec.checkpoint is Mode.NONE


def test_a_suspension_continues_after_a_crash():
    x = suspending()
    x.save("worker-0")
    again = x.crash(exited("worker-0", 1, 143, "step 3"), found("worker-1", 1))
    assert (again.phase, again.stopped) == (Phase.SUSPENDING, ["worker-1"])
    again.exit("worker-1", 143)
    assert again.phase is Phase.PENDING


def test_a_cancel_survives_a_crash():
    x = Driver()
    x.start()
    x.ask("cancel")
    again = x.crash(found("main-0", 1))
    assert (again.phase, again.stopped) == (Phase.STOPPING, ["main-0"])
    again.exit("main-0", 143)
    assert again.phase is Phase.CANCELLED
    assert x.crash().phase is Phase.CANCELLED, "also if its replica is gone"
    assert again.crash().phase is Phase.CANCELLED


def test_a_back_off_begins_again_after_a_crash():
    x = Driver()
    x.start()
    x.exit("main-0", 1)
    again = x.crash()
    assert (again.phase, again.job.retry_at) == (Phase.BACKOFF, again.now + 1.0)


def test_a_restart_to_scale_continues_after_a_crash():
    x = scaled()
    x.save("worker-0")
    again = x.crash(exited("worker-0", 1, 143, "step 3"))
    (start,) = again.last(c.Start)
    assert start.gang == ("x/worker-0", "x/worker-1")


def test_a_replica_that_was_leaving_is_stopped_again_after_a_crash():
    x = scaled(Elastic.INDEPENDENT)
    x.runs("worker-1")
    x.act(Scale(job="x", task="worker", remove=(EXTRA,)))
    again = x.crash(found("worker-0", 1), found("worker-1", 2))
    assert (again.stopped, again.phase) == (["worker-1"], Phase.RUNNING)
    gone = x.crash(found("worker-0", 1))
    assert (gone.phase, list(gone.job.replicas)) == (Phase.RUNNING, ["x/worker-0"])


def test_a_state_survives_the_trip_through_plain_data():
    x = suspending()
    x.save("worker-0")
    state = x.disk["x"]
    assert from_plain(to_plain(state)) == state
    y = scaled()
    y.save("worker-0")
    assert from_plain(to_plain(y.disk["x"])) == y.disk["x"]
