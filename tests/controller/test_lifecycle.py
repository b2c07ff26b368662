"""Start, exit, retry, pause, cancel: one job on a platform that does only what a test says."""

from time import process_time

import pytest
from driver import Driver, found, workers

from headway.controller import commands as c
from headway.controller import events as e
from headway.controller.controller import Controller
from headway.core.model.capabilities import Capabilities
from headway.core.model.decision import Move, Place, Scale, SetShare, Suspend
from headway.core.model.job import JobSpec, Mode, Phase, Task
from headway.core.model.snapshot import Trigger
from headway.core.model.units import ReplicaId
from making import node

MAIN = ReplicaId("x/main-0")


def test_a_start_is_persisted_before_it_is_sent():
    x = Driver()
    x.persists = False
    assert x.place() == ""
    assert (x.phase, x.last(c.Start)) == (Phase.STARTING, [])
    x.persists = True
    x.tick(1.0)
    (start,) = x.last(c.Start)
    assert [(a.replica, a.node, a.attempt, a.rank) for a in start.replicas] == [(MAIN, "a", 1, 0)]
    assert x.disk["x"].attempt == 1


def test_a_job_runs_when_all_of_its_replicas_do():
    x = Driver(tasks=workers(2))
    x.place("worker-0", "worker-1")
    x.runs("worker-0")
    assert x.phase is Phase.STARTING
    x.runs("worker-1")
    assert (x.phase, x.disk["x"].phase) == (Phase.RUNNING, Phase.RUNNING)


def test_a_replica_that_is_reported_running_twice_runs_once():
    x = Driver()
    x.start()
    x.sent.clear()
    x.runs("main-0")
    assert x.sent == []


def test_ranks_follow_the_job_and_not_the_placement():
    tasks = (Task(name="ps"), *workers(2), Task(name="chief"))
    x = Driver(tasks=tasks)
    x.place("worker-1", "ps-0", "worker-0", "chief-0")
    (start,) = x.last(c.Start)
    ranks = [a.replica.name for a in start.replicas]
    assert ranks == ["ps-0", "chief-0", "worker-0", "worker-1"] == [g.name for g in start.gang]


def test_a_job_succeeds_when_its_chief_exits_with_0_and_the_others_are_stopped():
    x = Driver(tasks=workers(2))
    x.start("worker-0", "worker-1")
    x.exit("worker-0", 0)
    assert (x.phase, x.stopped) == (Phase.STOPPING, ["worker-1"])
    x.exit("worker-1", 143)
    assert (x.phase, x.job.reason, x.controller.finished) == (Phase.SUCCEEDED, "", True)


def test_a_worker_that_is_done_leaves_the_others_running():
    x = Driver(tasks=workers(2))
    x.start("worker-0", "worker-1")
    x.exit("worker-1", 0)
    assert (x.phase, x.stopped) == (Phase.RUNNING, [])
    again = x.crash(found("worker-0", 1))
    assert (again.phase, list(again.job.replicas)) == (Phase.RUNNING, ["x/worker-0"])


def test_a_failed_job_is_retried_later_and_later_and_then_fails():
    x = Driver(backoff_limit=2)
    for delay in (1.0, 2.0):
        x.start()
        x.exit("main-0", 1, reason="exited with code 1")
        assert x.phase is Phase.BACKOFF
        x.tick(delay - 0.1)
        assert x.phase is Phase.BACKOFF
        x.tick(0.2)
        assert x.phase is Phase.PENDING
    assert x.job.reason == "exited with code 1"
    x.start()
    assert (x.phase, x.job.reason) == (Phase.RUNNING, ""), "what ended the last attempt is over"
    x.exit("main-0", 1, reason="exited with code 1")
    assert (x.phase, x.job.reason) == (Phase.FAILED, "exited with code 1 (attempt 3 of 3)")


def test_a_command_that_cannot_be_started_is_not_retried():
    x = Driver()
    x.start()
    x.exit("main-0", 127, reason="command not found", permanent=True)
    assert (x.phase, x.job.reason) == (Phase.FAILED, "command not found")


def test_a_disruption_is_retried_without_end_and_not_counted():
    x = Driver(backoff_limit=0)
    for _ in range(5):
        x.start()
        x.exit("main-0", 137, reason="node a was lost", disrupted=True)
        x.tick(60.0)
    assert (x.phase, x.job.failures) == (Phase.PENDING, 0)


def test_back_off_of_interruptions_grows_until_the_job_runs():
    x = Driver()
    for delay in (1.0, 2.0, 4.0):
        x.place()
        (start,) = x.last(c.Start)
        x.event(e.CommandFailed(start, "quota exceeded", disrupted=True))
        assert x.job.retry_at == x.now + delay
        x.tick(delay)
    x.start()
    assert x.job.requeues == 0


def test_a_gang_that_starts_in_part_is_stopped_and_what_did_not_start_is_removed():
    x = Driver(tasks=workers(2), backoff_limit=0)
    x.place("worker-0", "worker-1")
    (start,) = x.last(c.Start)
    x.runs("worker-0")
    x.event(e.CommandFailed(start, "ENOSPC"))
    assert (x.stopped, [r.replica.name for r in x.last(c.Remove)]) == (["worker-0"], ["worker-1"])
    x.exit("worker-0", 143)
    assert (x.phase, x.job.reason) == (Phase.FAILED, "could not be started: ENOSPC")


def test_a_failed_start_of_an_old_attempt_changes_nothing():
    x = Driver()
    x.place()
    (start,) = x.last(c.Start)
    x.runs("main-0")
    x.event(e.CommandFailed(start, "late"))
    assert x.phase is Phase.RUNNING
    x.exit("main-0", 1)
    x.event(e.CommandFailed(start, "later"))
    assert x.job.failures == 1


def test_a_gang_that_is_cancelled_while_it_starts_ends_when_the_start_has_failed():
    x = Driver()
    x.place()
    (start,) = x.last(c.Start)
    x.ask("cancel")
    assert (x.phase, x.stopped) == (Phase.STOPPING, ["main-0"])
    x.event(e.CommandFailed(start, "no"))
    assert x.phase is Phase.CANCELLED


def test_of_a_gang_that_is_cancelled_each_replica_is_waited_for():
    x = Driver(tasks=workers(2))
    x.place("worker-0", "worker-1")
    (start,) = x.last(c.Start)
    x.runs("worker-0")
    x.ask("cancel")
    x.event(e.CommandFailed(start, "no"))
    assert x.phase is Phase.STOPPING
    x.exit("worker-0", 143)
    assert x.phase is Phase.CANCELLED


def test_a_start_that_is_not_persisted_yet_is_withdrawn_by_a_cancel():
    x = Driver()
    x.persists = False
    x.place()
    x.ask("cancel")
    x.persists = True
    x.tick(1.0)
    assert (x.phase, x.last(c.Start), x.stopped) == (Phase.CANCELLED, [], [])


def test_a_replica_that_does_not_exit_is_killed_again_and_again():
    x = Driver()
    x.start()
    x.ask("cancel")
    x.tick(9.0)
    assert x.last(c.Kill) == []
    x.tick(1.0)
    assert len(x.last(c.Kill)) == 1
    x.tick(1.0)
    assert len(x.last(c.Kill)) == 1
    x.exit("main-0", 137)
    assert x.phase is Phase.CANCELLED


def test_a_replica_is_not_killed_before_its_stop_is_durable():
    x = Driver()
    x.start()
    x.persists = False
    x.ask("cancel")
    x.tick(10.0)
    assert (x.last(c.Kill), x.stopped) == ([], [])


def test_a_replica_that_does_not_start_in_time_fails_its_job():
    x = Driver(backoff_limit=0)
    x.place()
    x.tick(100.0)
    assert (x.phase, x.stopped) == (Phase.STOPPING, ["main-0"])
    x.exit("main-0", 137)
    assert x.job.reason == "did not start: not running after 100 s"


def test_a_replica_that_the_platform_cannot_start_fails_sooner_and_says_why():
    x = Driver(backoff_limit=0)
    x.place()
    attempt = x["main-0"].attempt
    x.event(e.ReplicaWaiting(MAIN, attempt, "ErrImagePull"))
    x.tick(20.0)
    x.event(e.ReplicaWaiting(MAIN, attempt, ""))
    x.tick(20.0)
    assert x.phase is Phase.STARTING, "it had recovered"
    x.event(e.ReplicaWaiting(MAIN, attempt, "ErrImagePull"))
    x.event(e.ReplicaWaiting(MAIN, attempt, "ImagePullBackOff"))
    x.tick(30.0)
    x.event(e.ReplicaWaiting(MAIN, attempt, "too late"))
    x.exit("main-0", 137)
    assert x.job.reason == "did not start: ImagePullBackOff"


def test_a_job_that_exceeds_its_time_limit_fails():
    x = Driver(time_limit=60.0)
    x.start()
    x.tick(60.0)
    assert x.stopped == ["main-0"]
    x.exit("main-0", 143)
    assert (x.phase, x.job.reason) == (Phase.FAILED, "exceeded its time limit of 60 s")


def test_a_finished_job_is_deleted_after_its_ttl_once():
    x = Driver(ttl=30.0)
    x.start()
    x.exit("main-0", 0)
    x.tick(29.0)
    assert x.last(c.DeleteJob) == []
    x.tick(1.0)
    x.tick(60.0)
    assert len(x.last(c.DeleteJob)) == 1


def test_a_gang_that_starts_on_a_node_that_is_lost_is_released():
    x = Driver(tasks=workers(2))
    x.place("worker-0", "worker-1")
    x.runs("worker-0")
    x.event(e.NodeChanged(node("a", up=False)))
    assert x.job.reason == "node a was lost before worker-1 started"
    assert (x.phase, x.stopped) == (Phase.STOPPING, ["worker-0", "worker-1"])


def test_a_running_job_stays_when_its_node_is_lost():
    x = Driver()
    x.start()
    x.event(e.NodeChanged(node("a", up=False)))
    assert x.phase is Phase.RUNNING


# -- shares ----------------------------------------------------------------------------------------


def test_a_share_that_is_not_set_returns_to_what_is_in_effect():
    x = Driver()
    x.start()
    assert x.act(SetShare(replica=MAIN, limit=0.5, weight=2.0)) == ""
    (share,) = x.last(c.ApplyShare)
    x.event(e.ShareInEffect(MAIN, 1, 0.5, 2.0))
    x.act(SetShare(replica=MAIN, limit=0.25))
    (share,) = x.last(c.ApplyShare)
    x.controller.outbox.to_measure.clear()
    x.event(e.CommandFailed(share, "EBUSY"))
    assert (x["main-0"].limit, x["main-0"].weight) == (0.5, 2.0)
    assert x.controller.outbox.notices == {MAIN: "its share was not set: EBUSY"}
    assert list(x.controller.outbox.to_measure) == ["a"], "a report carries the notice"
    x.exit("main-0", 1)
    x.event(e.CommandFailed(share, "late"))


def test_a_policy_sees_the_share_in_effect_while_another_one_is_being_set():
    x = Driver()
    x.start()
    x.act(SetShare(replica=MAIN, limit=0.5, weight=2.0))
    r = x[MAIN.name].to_core()
    assert (r.limit, r.weight) == (None, 1.0)
    x.event(e.ShareInEffect(MAIN, 1, 0.5, 2.0))
    r = x[MAIN.name].to_core()
    assert (r.limit, r.weight) == (0.5, 2.0)


def test_a_replica_starts_with_the_share_that_its_platform_gives_it():
    x = Driver()
    x.act(Place(job="x", where=((MAIN, "a"),)))
    x.event(e.ShareInEffect(MAIN, 1, 0.5, 2.0))
    x.event(e.ReplicaRunning(MAIN, 1))
    assert not x.last(c.ApplyShare)
    assert (x[MAIN.name].limit, x[MAIN.name].weight) == (0.5, 2.0)


def test_a_platform_restricts_what_can_be_done_with_a_job():
    x = Driver()
    x.start()
    x.event(e.JobRestricted("x", Capabilities(shares=False)))
    assert not x.job.to_core().capabilities.shares
    x.event(e.JobRestricted("x", None))
    assert x.job.to_core().capabilities is None


def test_the_same_share_is_not_set_twice():
    x = Driver()
    x.start()
    x.act(SetShare(replica=MAIN, limit=0.5))
    x.act(SetShare(replica=MAIN, limit=0.5))
    assert len(x.last(c.ApplyShare)) == 1


def test_a_declared_limit_is_applied_when_a_replica_runs():
    x = Driver(tasks=(Task(limit=0.5),))
    x.start()
    (share,) = x.last(c.ApplyShare)
    assert (share.limit, share.weight) == (0.5, 1.0)


# -- refusals --------------------------------------------------------------------------------------


def worker(index):
    return ReplicaId.of("x", "worker", index)


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (SetShare(replica=ReplicaId("ghost/main-0")), "ghost/main-0 is not running"),
        (Place(job="ghost", where=()), "ghost is not pending"),
        (Place(job="x", where=((worker(0), "a"),)), "x is not pending"),
        (Move(replica=worker(7), to="b"), "x/worker-7 is not running"),
        (Move(replica=worker(0), to="a"), "x/worker-0 is on a already"),
        (Move(replica=worker(0), to="c"), "node c is down or unknown"),
        (Suspend(job="ghost"), "ghost is not running"),
        (Scale(job="ghost", task="worker"), "ghost is not running"),
        (Scale(job="x", task="worker", add=((worker(2), "c"),)), "a node is down or unknown"),
        (Scale(job="x", task="worker", add=((worker(0), "a"),)), "a replica to add exists already"),
        (Scale(job="x", task="worker", remove=(worker(2),)), "a replica to remove does not exist"),
        (
            Scale(job="x", task="worker", remove=(worker(0),)),
            "x/worker-0 is the chief, which cannot be removed",
        ),
    ],
)
def test_what_is_not_possible_is_refused_in_words(decision, why):
    x = Driver(tasks=workers(2, most=3))
    x.start("worker-0", "worker-1")
    before = list(x.sent)
    assert x.act(decision) == why
    assert x.sent == before


@pytest.mark.parametrize(
    "decision",
    [
        Move(replica=worker(0), to="b"),
        Suspend(job="x"),
        Scale(job="x", task="worker", add=((worker(2), "b"),)),
    ],
)
def test_a_job_without_checkpoints_is_not_moved_suspended_or_restarted(decision):
    x = Driver(tasks=workers(2, most=3), checkpoint=Mode.NONE)
    x.start("worker-0", "worker-1")
    assert x.act(decision) == "x cannot save checkpoints"
    assert x.phase is Phase.RUNNING


def test_gangs_are_placed_whole_and_on_nodes_that_are_up():
    x = Driver()
    where = ((MAIN, "a"),)
    assert (
        x.act(Place(job="x", where=where, partial=True)) == "this platform starts gangs as a whole"
    )
    assert x.act(Place(job="x", where=((MAIN, "c"),))) == "node c is down or unknown"
    x.start()
    x.event(e.NodeChanged(node("a", up=False)))
    assert x.act(SetShare(replica=MAIN, limit=0.5)) == "node a is down"


# -- what the loop learns --------------------------------------------------------------------------


def test_news_are_taken_once():
    x = Driver()
    first = x.controller.take_outbox(x.now)
    assert (list(first.jobs), set(first.nodes)) == (["x"], {"a", "b"})
    again = x.controller.take_outbox(x.now)
    assert (again.jobs, again.nodes, again.triggers) == ({}, {}, [])


def test_pending_jobs_are_reconsidered_now_and_then():
    x = Driver()
    x.controller.take_outbox(x.now)
    assert x.controller.next_deadline() == x.now + 30.0
    x.tick(30.0)
    assert x.controller.outbox.triggers == [Trigger.NODE]


def test_an_announced_number_of_steps_becomes_part_of_the_spec():
    x = Driver()
    x.controller.learn_total("x", 300.0)
    assert x.job.to_core().spec.total_steps == 300.0


def test_a_removal_is_repeated_until_it_is_confirmed_or_given_up():
    x = Driver()
    x.start()
    attempt = x["main-0"].attempt
    x.exit("main-0", 0)
    assert x.controller.finished
    stray = e.ReplicaRunning(ReplicaId("x/main-7"), 9)
    (remove,) = x.controller.handle(stray, x.now)
    assert (remove, x.controller.finished) == (c.Remove(stray.replica, 9), False)
    x.controller.handle(e.CommandFailed(remove, "still exiting"), x.now)
    assert x.controller.tick(x.now + 0.01) == []
    assert x.controller.tick(x.now + 0.02) == [remove]
    assert x.controller.tick(x.now + 11.0) == []
    assert x.controller.finished
    x.event(e.Removed(MAIN, attempt))
    x.event(e.ReplicaExited(replica=MAIN, attempt=attempt, code=1))
    x.event(e.Persisted("ghost", 1))
    assert x.phase is Phase.SUCCEEDED


def test_thousands_of_future_jobs_cost_a_wake_up_nothing():
    """Four thousand of them cost 168 ms at each wake-up; now only the next one is looked at."""
    controller = Controller()
    for i in range(4000):
        new = e.NewJob(id=f"j{i}", spec=JobSpec(), submitted_at=1e6 + i)
        controller.add(new)
    controller.next_deadline()
    began = process_time()
    for now in range(200):
        controller.tick(float(now))
        assert controller.next_deadline() == 1e6
        assert not controller.finished
    assert process_time() - began < 4.0, "two percent of what it took"
