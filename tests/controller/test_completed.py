"""What a chief has completed is not done again, even if its gang was to be tried again."""

import pytest
from driver import Driver, found, workers

from headway.controller import commands as c
from headway.controller import events as e
from headway.core.model.job import Mode, Phase
from headway.core.model.units import ReplicaId

NAMES = ("worker-0", "worker-1", "worker-2")


def gang(mode=Mode.NONE, **more):
    """A gang that runs."""
    x = Driver(tasks=workers(3), checkpoint=mode, **more)
    x.start(*NAMES)
    return x


@pytest.mark.parametrize("lost", [{"disrupted": True}, {}])
@pytest.mark.parametrize("order", [NAMES[::2], NAMES[::-2]])
def test_a_chief_that_completes_while_its_gang_is_stopped_has_succeeded(lost, order):
    x = gang()
    x.exit("worker-1", 137, **lost)
    assert (x.phase, x.job.target) == (Phase.STOPPING, Phase.BACKOFF)
    for name in order:
        x.exit(name, 0 if name == "worker-0" else 143)
    assert (x.phase, x.job.reason, x.controller.finished) == (Phase.SUCCEEDED, "", True)
    x.tick(1000.0)
    assert [a.attempt for s in x.last(c.Start) for a in s.replicas] == [1, 1, 1]


@pytest.mark.parametrize("seen", [True, False])
def test_a_chief_that_completes_although_a_worker_never_began_has_succeeded(seen):
    """The process that starts the worker was killed before it had begun."""
    x = Driver(tasks=workers(2))
    assert x.place("worker-0", "worker-1") == ""
    x.runs("worker-0")
    if seen:
        x.runs("worker-1")
    x.exit("worker-1", 137)
    assert (x.phase, x.job.target, x.stopped) == (Phase.STOPPING, Phase.BACKOFF, ["worker-0"])
    x.exit("worker-0", 0)
    assert (x.phase, x.controller.finished) == (Phase.SUCCEEDED, True)
    x.tick(1000.0)
    assert [a.attempt for s in x.last(c.Start) for a in s.replicas] == [1, 1]


def test_that_it_has_succeeded_is_durable_before_its_exit_code_is_removed():
    x = gang()
    x.exit("worker-1", 1)
    x.last(c.Remove)
    x.persists = False
    x.exit("worker-0", 0)
    assert x.last(c.Remove) == []
    assert x.disk["x"].target is Phase.BACKOFF
    x.persists = True
    x.tick(1.0)
    assert [command.replica.name for command in x.last(c.Remove)] == ["worker-0"]
    assert x.disk["x"].target is Phase.SUCCEEDED
    again = x.crash(found("worker-2", 1))
    again.exit("worker-2", 143)
    assert again.phase is Phase.SUCCEEDED


def test_a_chief_that_completed_while_no_headway_stopped_its_gang_has_succeeded():
    x = gang()
    x.exit("worker-1", 1)
    done = e.ReplicaExited(ReplicaId("x/worker-0"), 1, code=0)
    again = x.crash(found("worker-0", 1, running=False, exited=done), found("worker-2", 1))
    again.exit("worker-2", 143)
    assert again.phase is Phase.SUCCEEDED


@pytest.mark.parametrize(
    ("name", "code", "mode"),
    [("worker-2", 0, Mode.NONE), ("worker-0", 143, Mode.NONE), ("worker-0", 0, Mode.SIGTERM)],
)
def test_a_worker_or_a_chief_that_only_saved_when_it_was_asked_has_not(name, code, mode):
    x = gang(mode)
    x.exit("worker-1", 1)
    x.exit(name, code)
    x.exit("worker-0" if name == "worker-2" else "worker-2", 143)
    assert x.phase is Phase.BACKOFF


def test_a_chief_that_completed_before_it_was_asked_has_succeeded_in_any_mode():
    x = gang(Mode.SIGTERM)
    x.persists = False
    x.exit("worker-1", 1)
    assert x.stopped == []
    x.exit("worker-0", 0)
    x.persists = True
    x.tick(1.0)
    x.exit("worker-2", 143)
    assert x.phase is Phase.SUCCEEDED


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_a_job_that_is_not_tried_again_stays_what_it_was_to_become(end):
    x = gang(backoff_limit=0)
    if end == "cancelled":
        x.run(x.controller.cancel("not wanted any more", x.now))
    else:
        x.exit("worker-1", 1)
    for name in list(x.job.replicas):
        x.exit(name.name, 0)
    assert x.phase.value == end
