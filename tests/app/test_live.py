"""What every live backend shares, on a platform of puppets: the queue, pauses, moves, gangs."""

import pytest

from headway.backend.transit import planned
from headway.core.decision import Move, Suspend
from headway.core.job import Mode, Phase
from puppets import Puppets


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
    m = x["main-0"]
    m.save("a part of it", file)
    x.exit("main-0", code)
    assert x["main-0"].node == ("b" if saved else "a")
    assert x.work.spec.checkpoint is (Mode.SIGTERM if saved else Mode.NONE)
    assert planned(m.folder, 1, code, Mode.SIGTERM) is saved, "the same after a crash"
