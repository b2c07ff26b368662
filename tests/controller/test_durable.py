"""Commands wait until the state that they follow from is durable: a full disk, then a crash."""

import pytest
from driver import Driver, workers

from headway.controller import commands as c
from headway.controller import events as e
from headway.core.model.job import Mode, Phase
from headway.core.model.units import ReplicaId

PAIR = ("worker-0", "worker-1")
WORKER = ReplicaId.of("x", "worker", 1)


def pair(**more):
    return Driver(tasks=workers(2), checkpoint=Mode.NONE, **more)


def removed(x):
    return [(r.replica.name, r.attempt) for r in x.last(c.Remove)]


def stop_fails_to_be_stored(x):
    """A user cancels the job while the disk is full."""
    x.persists = False
    x.ask("cancel")
    assert (x.phase, x.stopped) == (Phase.STOPPING, [])


def test_what_an_attempt_left_is_kept_until_the_stop_of_its_gang_is_durable():
    x = pair()
    x.start(*PAIR)
    stop_fails_to_be_stored(x)
    x.exit("worker-1", 143)
    assert removed(x) == []
    x.persists = True
    x.tick(10.0)
    assert removed(x) == [("worker-1", 1)]
    assert [r.replica.name for r in x.disk["x"].replicas] == ["worker-0"]


def test_an_attempt_that_could_not_start_is_kept_until_the_stop_of_its_gang_is_durable():
    x = pair()
    x.place(*PAIR)
    (start,) = x.last(c.Start)
    x.runs("worker-0")
    stop_fails_to_be_stored(x)
    x.event(e.CommandFailed(start, "EAGAIN"))
    assert (removed(x), list(x.job.replicas)) == ([], [ReplicaId.of("x", "worker", 0)])
    x.persists = True
    x.tick(10.0)
    assert removed(x) == [("worker-1", 1)]


@pytest.mark.parametrize("limit", [0, 3])
def test_a_gang_that_could_not_start_in_time_on_a_full_disk_has_failed_once(limit):
    x = pair(backoff_limit=limit)
    x.persists = False
    x.place(*PAIR)
    x.tick(101.0)
    assert (x.phase, x.job.failures) == (Phase.BACKOFF if limit else Phase.FAILED, 1)
    assert x.job.reason == "replica worker-0: did not start: not running after 100 s"
    assert x.last(c.Start) == []
