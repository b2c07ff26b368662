"""What every live backend shares, on a platform of puppets: the queue, pauses, moves, gangs."""

import pytest

from headway.backend.state import Work
from headway.backend.transit import planned
from headway.core.decision import Move, Suspend
from headway.core.job import Mode, Phase
from puppets import Puppets, workers


@pytest.fixture
def puppets(tmp_path):
    return lambda **spec: Puppets(tmp_path, **spec)


# -- pauses ----------------------------------------------------------------------------------------


def test_a_job_that_is_resumed_while_it_waits_to_be_tried_again_is_started_once(puppets):
    x = puppets()
    x.place()
    x.exit("main-0", 1)
    x.ask("resume")
    assert x.work.phase is Phase.LEAVING, "its time has not come"
    assert not x.place()
    x.pass_(1.0)
    assert x.place()
    x.pass_(60.0)
    assert x.work.phase is Phase.RUNNING
    assert not x.place(), "it runs already"


def test_a_job_that_is_paused_while_it_waits_to_be_tried_again_stays_away(puppets):
    x = puppets()
    x.place()
    x.exit("main-0", 1)
    x.ask("pause")
    x.pass_(60.0)
    assert x.work.phase is Phase.LEAVING
    assert not x.place()
    x.ask("resume")
    assert x.place()


def test_a_job_whose_pause_did_not_come_off_is_not_held_later(puppets):
    x = puppets()
    x.place()
    x.ask("pause")
    x.act(Suspend(job="x"))
    assert x.work.held
    x.pass_(11.0)
    assert (x.work.phase, x.work.held) == (Phase.RUNNING, False)
    assert not (x.work.folder / "held").exists()
    x.exit("main-0", 1)
    x.pass_(1.0)
    assert x.place()


def test_a_job_that_runs_and_cannot_save_itself_is_not_held(puppets):
    x = puppets(checkpoint=Mode.NONE)
    x.place()
    x.ask("pause")
    assert not x.work.held
    x.exit("main-0", 1)
    x.ask("pause")
    assert x.work.held, "now it can be kept away"


# -- what counts as saved --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "code", "saved"),
    [
        ("state.pt", 143, True),
        ("state.pt", 0, True),
        ("state.pt", 137, False),
        ("state.pt", 1, False),
        ("LATEST", 137, True),
    ],
)
def test_without_the_sdk_the_exit_code_says_whether_a_newer_file_is_whole(
    puppets, file, code, saved
):
    x = puppets(checkpoint=Mode.SIGTERM)
    x.place()
    x.act(Move(replica="x/main-0", to="b"))
    m, after = x["main-0"], Work(x.work.job, x.work.folder)
    m.save("a part of it", file)
    x.exit("main-0", code)
    assert x["main-0"].node == ("b" if saved else "a")
    assert x.work.spec.checkpoint is (Mode.SIGTERM if saved else Mode.NONE)
    assert planned(after, "main-0", 1, code) is saved, "the same after a crash"


# -- gangs -----------------------------------------------------------------------------------------


@pytest.fixture
def pair(puppets):
    def make(mode=Mode.SDK):
        x = puppets(tasks=workers(2), checkpoint=mode)
        assert x.place("worker-0", "worker-1")
        return x

    return make


def test_of_a_gang_that_is_suspended_the_chief_saves_before_anybody_is_stopped(pair):
    x = pair()
    x.act(Suspend(job="x"))
    x.pass_(1.0)
    assert x.stopped == []
    assert {m.phase for m in x.members.values()} == {Phase.LEAVING}
    x["worker-0"].save("step 3")
    x.pass_(0.1)
    assert x.stopped == ["worker-0", "worker-1"]
    x.exit("worker-0", 143)
    x.exit("worker-1", 143)
    assert x.work.phase is Phase.WAITING
    after = Work(x.work.job, x.work.folder)
    assert planned(after, "worker-1", 1, 143), "after a crash it is no failure"
    assert x.place("worker-0", "worker-1")


def test_a_gang_whose_chief_does_not_save_stays_whole(pair):
    x = pair()
    x.act(Suspend(job="x"))
    x.pass_(11.0)
    assert (x.stopped, x.work.phase) == ([], Phase.RUNNING)
    assert {m.phase for m in x.members.values()} == {Phase.RUNNING}
    assert len(x.started) == 2


@pytest.mark.parametrize("order", [("worker-0", "worker-1"), ("worker-1", "worker-0")])
def test_a_gang_that_was_stopped_and_had_not_saved_begins_anew_as_a_whole(pair, order):
    x = pair(Mode.SIGTERM)
    x.ask("pause")
    x.act(Suspend(job="x"))
    assert x.stopped == ["worker-0", "worker-1"]
    for name in order:
        x.exit(name, 143)
    assert x.members == {}
    x.pass_(1.0)
    assert (x.work.phase, x.work.tries, x.work.held) == (Phase.WAITING, 0, False)
    assert x.work.spec.checkpoint is Mode.NONE
    assert x.place("worker-0", "worker-1")


def test_a_worker_that_ends_with_0_when_it_is_told_to_leave_holds_up_nobody(pair):
    x = pair()
    x.act(Suspend(job="x"))
    x["worker-0"].save("step 3")
    x.pass_(0.1)
    x.exit("worker-0", 143)
    x.exit("worker-1", 0)
    assert x.work.phase is Phase.WAITING
    assert x.place("worker-0", "worker-1")
    x.act(Move(replica="x/worker-1", to="b"))
    x.exit("worker-1", 0)
    assert x.work.phase is Phase.RUNNING, "it was done"


def test_a_worker_that_fails_while_the_chief_saves_fails_the_job(pair):
    x = pair()
    x.act(Suspend(job="x"))
    x.exit("worker-1", 1)
    assert x.stopped == ["worker-0"]
    x.exit("worker-0", 143)
    x.pass_(1.0)
    assert (x.work.phase, x.work.tries) == (Phase.WAITING, 1)
