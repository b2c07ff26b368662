"""Sizes that users ask for, through failures and crashes; and independent replicas that fail."""

import json
from math import inf

import pytest
from driver import Driver, found

from headway.controller import commands as c
from headway.controller import events as e
from headway.controller.job_state import from_plain, to_plain
from headway.core.model.decision import Scale
from headway.core.model.job import Elastic, Mode, Phase, Task
from headway.core.model.units import ReplicaId


def worker(index):
    return ReplicaId.of("x", "worker", index)


def tasks(elastic, least=1):
    return (Task(name="ps"), Task(name="worker", least=least, most=4, elastic=elastic))


def started(elastic=Elastic.RESTART, *, workers=1, **more):
    x = Driver(**{"tasks": tasks(elastic), **more})
    x.start("ps-0", *(f"worker-{i}" for i in range(workers)))
    return x


def grow(x, *added, node="b"):
    add = tuple((worker(i), node) for i in added)
    return x.act(Scale(job="x", task="worker", add=add))


def size(x):
    return x.job.spec.task("worker").replicas


def requested(x):
    return [(r.wish, r.task, r.count) for r in x.controller.outbox.requests]


# -- sizes that users ask for ----------------------------------------------------------------------


def test_a_pending_job_starts_in_the_size_that_a_user_asked_for():
    x = Driver(tasks=tasks(Elastic.RESTART))
    x.ask("scale", task="worker", count=3)
    assert size(x) == 3
    again = x.crash()
    assert size(again) == 3
    again.ask("scale", task="worker", count=2)
    assert (size(again), again.disk["x"].sizes) == (2, (("worker", 2),))


@pytest.mark.parametrize(("task", "count"), [("worker", 5), ("worker", 0), ("chief", 1)])
def test_a_size_that_the_job_cannot_have_changes_nothing(task, count):
    x = Driver(tasks=tasks(Elastic.RESTART))
    x.ask("scale", task=task, count=count)
    assert (size(x), x.job.sizes) == (1, ())


def test_a_request_without_a_number_changes_nothing():
    x = Driver(tasks=tasks(Elastic.RESTART))
    x.ask("scale", task="worker")
    assert x.job.sizes == ()


def test_a_job_that_has_ended_is_not_resized():
    x = started(backoff_limit=0)
    x.exit("worker-0", 1)
    x.exit("ps-0", 143)
    assert x.phase is Phase.FAILED
    x.ask("scale", task="worker", count=2)
    assert x.job.sizes == ()


def test_a_size_that_a_user_asked_for_survives_a_worker_that_is_killed_while_it_changes():
    x = started()
    x.ask("scale", task="worker", count=3)
    assert size(x) == 1, "it is for the policy to decide"
    assert grow(x, 1, 2) == ""
    assert (x.phase, size(x)) == (Phase.MIGRATING, 3)
    x.exit("worker-0", 137)
    x.exit("ps-0", 143)
    x.tick(1.0)
    assert (x.phase, size(x)) == (Phase.PENDING, 3)


def test_a_change_of_size_that_had_only_begun_at_a_crash_is_requested_again():
    x = started()
    x.ask("scale", task="worker", count=2)
    grow(x, 1)
    again = x.crash(found("ps-0", 1), found("worker-0", 1))
    assert requested(again) == [("scale", "worker", 2)]
    assert grow(again, 1) == ""
    again.save("worker-0")
    for name in ("worker-0", "ps-0"):
        again.exit(name, 143)
    for name in ("ps-0", "worker-0", "worker-1"):
        again.runs(name)
    last = again.crash(*(found(name, 2) for name in ("ps-0", "worker-0", "worker-1")))
    assert requested(last) == [], "it is done"
    assert size(last) == 2


def test_a_change_of_size_without_a_checkpoint_is_over_but_counts_for_the_next_start():
    x = started()
    x.ask("scale", task="worker", count=2)
    grow(x, 1)
    x.tick(11.0)
    assert (x.phase, x.job.scale_to, size(x)) == (Phase.RUNNING, None, 2)
    assert requested(x.crash(found("ps-0", 1), found("worker-0", 1))) == []


def refused_growth(**more):
    """A job that restarts with three workers, and the refusal of their start."""
    x = started(**more)
    x.ask("scale", task="worker", count=3)
    assert grow(x, 1, 2) == ""
    x.last(c.Start)
    x.save("worker-0")
    for name in ("worker-0", "ps-0"):
        x.exit(name, 143)
    (start,) = x.last(c.Start)
    return x, start


def test_a_larger_job_that_a_quota_refuses_continues_in_the_size_before():
    x, start = refused_growth()
    x.event(e.CommandFailed(start, "exceeded quota", disrupted=True))
    why = "could not be started: exceeded quota; it continues with 1 worker instead of 3"
    assert x.job.reason == why
    x.tick(1.0)
    assert (x.phase, size(x), x.job.failures) == (Phase.PENDING, 1, 0)
    assert x.disk["x"].sizes == (("worker", 1),)
    assert requested(x.crash()) == [], "the next process does not try again"


def test_the_size_before_is_known_to_the_next_process():
    x, _ = refused_growth()
    x.disk["x"] = from_plain(json.loads(json.dumps(to_plain(x.disk["x"]))))
    again = x.crash()
    (start,) = again.last(c.Start)
    again.event(e.CommandFailed(start, "exceeded quota", disrupted=True))
    assert size(again) == 1


def test_a_larger_job_that_has_run_keeps_its_size():
    x, _ = refused_growth()
    names = [f"worker-{i}" for i in range(3)]
    for name in ("ps-0", *names):
        x.runs(name)
    x.exit("worker-1", 1)
    for name in ("ps-0", "worker-0", "worker-2"):
        x.exit(name, 143)
    x.tick(2.0)
    assert x.place("ps-0", *names) == ""
    start = x.last(c.Start)[-1]
    x.event(e.CommandFailed(start, "exceeded quota", disrupted=True))
    assert size(x) == 3


def test_what_a_policy_scales_is_not_the_size_of_the_next_start():
    x = started()
    grow(x, 1)
    assert (x.job.sizes, x.job.scale_to) == ((), None)
    x = started()
    x.ask("scale", task="worker", count=2)
    assert grow(x, 1, 2) == ""
    assert x.job.sizes == (), "another number than the user's"


def test_a_size_that_is_refused_is_not_kept():
    x = started(checkpoint=Mode.NONE)
    x.ask("scale", task="worker", count=2)
    assert grow(x, 1) == "x cannot save checkpoints"
    assert x.job.sizes == ()


def test_independent_workers_join_at_once_as_a_user_asked():
    x = started(Elastic.INDEPENDENT, checkpoint=Mode.NONE)
    x.ask("scale", task="worker", count=2)
    assert grow(x, 1) == ""
    assert (x.phase, size(x), x.job.scale_to) == (Phase.RUNNING, 2, None)
    x.runs("worker-1")
    assert [r.name for r in x.job.gang] == ["ps-0", "worker-0", "worker-1"]


def test_sizes_survive_the_disk():
    x = started()
    x.ask("scale", task="worker", count=2)
    grow(x, 1)
    state = x.disk["x"]
    assert from_plain(json.loads(json.dumps(to_plain(state)))) == state
    old = to_plain(state)
    del old["sizes"], old["scale_to"]  # of an earlier version
    assert from_plain(old).sizes == ()


def test_agents_of_torchrun_join_one_by_one_if_the_job_has_checkpoints():
    """They restart the training from the last one."""
    x = started(Elastic.TORCHRUN)
    assert grow(x, 1) == ""
    assert (x.phase, x.stopped) == (Phase.RUNNING, [])
    assert [r.name for r in x.job.gang] == ["ps-0", "worker-0", "worker-1"]
    x = started(Elastic.TORCHRUN, checkpoint=Mode.NONE)
    assert grow(x, 1) == "x cannot save checkpoints"


# -- independent replicas that fail ----------------------------------------------------------------


def independent(**more):
    return started(Elastic.INDEPENDENT, workers=3, **more)


def names(x):
    return [r.name for r in x.job.gang]


def test_an_independent_worker_that_was_killed_is_started_again_alone():
    x = independent()
    x.controller.take_outbox(0.0)
    x.last(c.Start)
    x.exit("worker-1", 137, reason="killed by SIGKILL")
    assert (x.phase, x.job.failures, x.stopped) == (Phase.RUNNING, 1, [])
    (start,) = x.last(c.Start)
    assert [(a.replica, a.attempt, a.node) for a in start.replicas] == [(worker(1), 2, "a")]
    outbox = x.controller.outbox
    why = "worker-1 is restarted: killed by SIGKILL"
    assert (outbox.notices[worker(0)], list(outbox.to_measure)) == (why, ["a"])
    x.runs("worker-1")
    assert x["worker-1"].phase is Phase.RUNNING
    assert names(x) == ["ps-0", "worker-0", "worker-1", "worker-2"]
    again = x.crash(*(found(n, 1) for n in ("ps-0", "worker-0", "worker-2")), found("worker-1", 2))
    assert again.phase is Phase.RUNNING


def test_where_jobs_cannot_be_scaled_the_whole_job_starts_again():
    x = independent(config={"can_scale": False})
    x.exit("worker-1", 137)
    assert x.phase is Phase.STOPPING


def test_a_job_continues_without_an_independent_worker_whose_node_is_lost():
    x = independent()
    x.exit("worker-1", 137, disrupted=True, reason="node lost")
    assert (x.phase, x.job.failures) == (Phase.RUNNING, 0)
    assert names(x) == ["ps-0", "worker-0", "worker-2"]
    said = x.controller.outbox.notices[worker(0)]
    assert said == "the job continues without worker-1: node lost"
    assert grow(x, 1) == "", "and gets another one"


def replaced(x):
    """What the policy is asked for, since the last call."""
    found = [(r.task, r.count) for r in x.controller.take_outbox(x.now).requests]
    assert all(r.wish == "replace" for r in x.controller.outbox.requests)
    return found


def test_workers_that_the_cluster_took_are_asked_for_until_they_are_there():
    x = independent()
    replaced(x)
    x.exit("worker-1", 143, disrupted=True, reason="EvictionByEvictionAPI")
    x.tick()
    assert replaced(x) == [("worker", 3)]
    x.exit("worker-2", 143, disrupted=True)
    x.tick()
    assert replaced(x) == [("worker", 3)]
    x.tick(29.0)
    assert replaced(x) == []
    x.tick(1.0)
    assert replaced(x) == [("worker", 3)], "there was no room"
    x.disk["x"] = from_plain(json.loads(json.dumps(to_plain(x.disk["x"]))))
    y = x.crash(found("ps-0", 1), found("worker-0", 1))
    assert replaced(y) == [("worker", 3)], "the next process knows"
    assert grow(y, 1, 2) == ""
    y.tick(60.0)
    assert (replaced(y), y.job.short_of) == ([], None)


def test_a_worker_that_finds_no_room_again_is_asked_for_later():
    x = independent()
    x.exit("worker-1", 143, disrupted=True)
    x.last(c.Start)
    assert grow(x, 1) == ""
    (start,) = x.last(c.Start)
    x.event(e.CommandFailed(start, "full", disrupted=True))
    x.tick()
    assert (replaced(x)[1:], x.job.short_of) == ([], ("worker", 3))
    x.tick(30.0)
    assert replaced(x) == [("worker", 3)]


def test_a_worker_that_cannot_be_started_is_not_asked_for():
    """It is its own fault, and would be so again."""
    x = independent()
    x.last(c.Start)
    assert grow(x, 3) == ""
    (start,) = x.last(c.Start)
    x.event(e.CommandFailed(start, "no such program"))
    assert (x.phase, x.job.failures, x.job.short_of) == (Phase.RUNNING, 1, None)


def test_a_job_that_has_its_workers_again_asks_for_none():
    x = independent()
    x.exit("worker-1", 143, disrupted=True)
    x.job.short_of = "worker", 2
    x.tick()
    assert (replaced(x), x.job.short_of) == ([], None)


def test_a_job_that_is_moving_asks_for_its_workers_later():
    x = independent()
    x.exit("worker-1", 143, disrupted=True)
    x.job.phase = Phase.MIGRATING
    x.tick()
    assert (replaced(x), x.job.replace_at) == ([], 30.0)


def test_a_job_that_starts_anew_starts_whole():
    x = independent()
    x.exit("worker-1", 143, disrupted=True)
    x.exit("worker-0", 137)
    assert (x.phase, x.job.short_of, x.job.replace_at) == (Phase.STOPPING, None, inf)


@pytest.mark.parametrize("lost", ["worker-0", "ps-0"])
def test_without_its_chief_or_its_server_the_whole_job_starts_again(lost):
    x = independent()
    x.exit(lost, 137)
    assert x.phase is Phase.STOPPING
    assert len(x.stopped) == 3


def test_with_fewer_independent_workers_than_it_needs_the_whole_job_starts_again():
    x = independent(tasks=tasks(Elastic.INDEPENDENT, least=2))
    x.exit("worker-2", 137, disrupted=True)
    assert x.phase is Phase.RUNNING
    x.exit("worker-1", 137)
    assert x.phase is Phase.STOPPING


def test_workers_that_are_leaving_do_not_count():
    x = independent(tasks=tasks(Elastic.INDEPENDENT, least=2))
    assert x.act(Scale(job="x", task="worker", remove=(worker(2),))) == ""
    x.exit("worker-1", 137)
    assert x.phase is Phase.STOPPING


def test_independent_workers_that_fail_again_and_again_fail_the_job():
    x = independent(backoff_limit=1)
    x.exit("worker-2", 1)
    x.runs("worker-2")
    x.exit("worker-2", 1)
    for name in ("ps-0", "worker-0", "worker-1"):
        x.exit(name, 143)
    assert x.phase is Phase.FAILED


def test_after_its_chief_has_been_lost_nothing_continues():
    x = independent()
    x.exit("worker-0", 0)
    x.exit("worker-1", 137)
    assert x.job.target is Phase.SUCCEEDED


def test_an_independent_worker_that_cannot_start_does_not_harm_the_job():
    x = independent()
    grow(x, 3)
    (start,) = [s for s in x.last(c.Start) if s.replicas[0].replica == worker(3)]
    x.event(e.CommandFailed(start, "EAGAIN", disrupted=True))
    assert (x.phase, x.job.failures) == (Phase.RUNNING, 0)
    assert names(x) == ["ps-0", "worker-0", "worker-1", "worker-2"]
    said = x.controller.outbox.notices[worker(0)]
    assert said == "the job continues without worker-3: could not be started: EAGAIN"


def test_an_independent_worker_that_never_joins_is_given_up_in_time():
    x = independent()
    grow(x, 3)
    x.tick(101.0)
    assert (x.phase, x.stopped, x["worker-3"].phase) == (
        Phase.RUNNING, ["worker-3"], Phase.STOPPING,
    )  # fmt: skip
    said = x.controller.outbox.notices[worker(0)]
    assert said == "the job continues without worker-3: did not start: not running after 100 s"
    x.exit("worker-3", 143)
    assert names(x) == ["ps-0", "worker-0", "worker-1", "worker-2"]


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.MIGRATING])
def test_a_worker_that_was_given_up_before_a_crash_is_not_started_after_it(phase):
    x = independent()
    grow(x, 3)
    x.tick(101.0)
    x.disk["x"].phase = phase  # another worker moves, or none
    left = [found(name, 1) for name in ("ps-0", "worker-0", "worker-1", "worker-2")]
    again = x.crash(*left)
    assert (again.last(c.Start), names(again)) == ([], names(x))
    assert [(r.replica.name, r.attempt) for r in again.last(c.Remove)] == [("worker-3", 2)]
    assert (again.phase, again.job.failures) == (Phase.RUNNING, 1)
