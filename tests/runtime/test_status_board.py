"""When the status of the jobs is shown."""

from types import SimpleNamespace

import pytest

from headway.core.model.job import Phase
from headway.runtime import status_board
from headway.runtime.status_board import StatusBoard


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A board on a loaded machine: an update takes 10 s, in which it uses 0.1 s of CPU time."""
    time, used, shown = [0.0], [0.0], []
    job = SimpleNamespace(id="x", phase=Phase.PENDING, reason="", arrived=True)
    run = SimpleNamespace(
        backend=SimpleNamespace(controller=SimpleNamespace(jobs={"x": job})),
        loop=SimpleNamespace(state=SimpleNamespace(at=0.0)),
        folder=SimpleNamespace(path=tmp_path),
    )
    meter = SimpleNamespace(due=0.0)

    def look(*_):
        time[0] += 10.0
        used[0] += 0.1
        return ()

    monkeypatch.setattr(status_board, "monotonic", lambda: time[0])
    monkeypatch.setattr(status_board, "thread_time", lambda: used[0], raising=False)
    monkeypatch.setattr(StatusBoard, "_look", look)
    board = StatusBoard(run, lambda _: shown.append(time[0]))

    def wait(seconds):
        """Whether the board shows something after this time."""
        time[0] += seconds
        meter.due += 1.0
        before = len(shown)
        board.update(meter)
        return len(shown) > before

    return job, wait


def test_an_update_is_shown_within_two_seconds_on_a_loaded_machine(slow):
    _, wait = slow
    assert wait(0)
    assert not wait(1.9)
    assert wait(0.11)


def test_a_change_of_a_phase_is_shown_at_most_twice_a_second(slow):
    job, wait = slow
    assert wait(0)
    job.phase = Phase.RUNNING
    assert not wait(0.4)
    assert wait(0.11)
    assert not wait(0.51)
