"""The clock of a run measures durations, whatever happens to the time of day."""

import logging

import pytest

from headway.backend import clock as module
from headway.backend.clock import Clock


@pytest.fixture
def wall(monkeypatch):
    """The time of day, and the time since the boot, which a test sets."""
    now = {"wall": 1e9, "boot": 500.0, "id": "one"}
    monkeypatch.setattr(module, "time", lambda: now["wall"])
    monkeypatch.setattr(module, "clock_gettime", lambda which: now["boot"])
    monkeypatch.setattr(module, "boot_id", lambda: now["id"])
    return now


def test_a_clock_that_is_set_back_changes_no_duration_and_is_reported(wall, caplog):
    clock = Clock()
    wall["boot"] += 10
    wall["wall"] += 10 - 3600
    assert clock() == 10
    clock.check()
    clock.check()
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert "jumped by -3600 s" in caplog.text


def test_a_resumed_run_continues_by_the_clock_of_the_machine(wall):
    first = Clock()
    wall["boot"] += 100
    wall["wall"] -= 3600
    assert Clock(first.began, first.boot, at_least=90.0)() == 100


def test_after_a_reboot_and_a_clock_that_is_set_back_time_does_not_run_backward(wall, caplog):
    first = Clock()
    boot = first.boot
    wall.update(id="two", boot=3.0, wall=wall["wall"] - 3600)
    again = Clock(first.began, boot, at_least=90.0)
    assert again() == 90
    assert "was set back" in caplog.text
    wall["boot"] += 5
    assert again() == 95


def test_after_a_reboot_the_time_of_day_counts(wall):
    first = Clock()
    boot = first.boot
    wall.update(id="two", boot=3.0, wall=wall["wall"] + 200)
    assert Clock(first.began, boot, at_least=90.0)() == 200


def test_an_end_is_never_before_the_run_or_in_the_future(wall):
    clock = Clock()
    wall["boot"] += 50
    wall["wall"] += 50
    assert clock.at(wall["wall"] - 20) == 30
    assert clock.at(wall["wall"] + 3600) == 50
    assert clock.at(wall["wall"] - 3600) == 0
