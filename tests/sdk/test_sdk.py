"""The SDK: reports reach the reader, checkpoints are complete; outside Headway nothing happens."""

import json
import os
import time

import pytest

import headway
from headway.metrics.reader import MetricsReader
from headway.sdk import Run


@pytest.fixture
def managed(tmp_path, monkeypatch):
    """The environment of a replica's second start, and the file with the number of its newest."""
    monkeypatch.setenv("HEADWAY_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    monkeypatch.setenv("HEADWAY_DIR", str(tmp_path))
    monkeypatch.setenv("HEADWAY_ATTEMPT", "2")
    return tmp_path / "attempt"


@pytest.fixture
def pod(managed, monkeypatch):  # noqa: ARG001
    """A function that is another attempt of the same replica, in a pod with the same volume."""

    def attempt(number, job="uid-1", replica="worker-0"):
        monkeypatch.setenv("HEADWAY_ATTEMPT", str(number))
        monkeypatch.setenv("HEADWAY_JOB_UID", job)
        monkeypatch.setenv("HEADWAY_REPLICA", replica)
        return headway.attach()

    return attempt


def saves(run, step):
    return run.save(step, lambda folder: (folder / "state").write_text(str(step)))


def test_in_pods_an_earlier_attempt_saves_nothing_more(pod):
    run = pod(1)
    assert saves(run, 1)
    assert saves(pod(2), 2)
    late = pod(1)
    assert not saves(late, 3)
    assert late.latest.step == 2
    assert saves(pod(2), 4), "an earlier attempt does not take the place of a later one"


def test_other_replicas_and_other_jobs_on_the_same_volume_have_their_own_attempts(pod):
    assert saves(pod(5), 1)
    assert saves(pod(1, replica="worker-1"), 2)
    assert saves(pod(1, job="uid-2"), 3), "a new job of the same name begins with 1"


def test_outside_headway_the_sdk_does_nothing(monkeypatch):
    monkeypatch.delenv("HEADWAY_DIR", raising=False)
    run = headway.attach(total_steps=10)
    run.report(1, loss=0.5)
    assert not run.managed
    assert not run.should_checkpoint()
    assert run.checkpoint_dir is None
    assert run.latest is None
    assert run.save(1, lambda folder: 1 / 0) is False


def test_reports_are_means_of_a_tenth_of_a_second(tmp_path):
    run = Run(tmp_path, total_steps=100)
    for step in range(1000):
        run.report(step, loss=2.0 if step else 5.0)
    run.report("nonsense", loss=object())
    run.flush()
    lines = [json.loads(x) for x in (tmp_path / "reports.jsonl").read_text().splitlines()]
    assert lines[0] == {"total_steps": 100}
    assert lines[1] == {"step": 0, "loss": 5.0}
    assert len(lines) < 20
    reader = MetricsReader(tmp_path, back=2**20)
    reader.listen()
    assert (reader.total, reader.value, reader.report().high) == (100, 2.0, 5.0)


def test_a_failed_checkpoint_leaves_the_previous_one(managed, tmp_path):
    run = headway.attach()
    (tmp_path / "ask").touch()
    assert run.should_checkpoint()
    for step in (1, 2, 3):
        assert run.save(step, lambda folder, step=step: (folder / "state").write_text(str(step)))
        time.sleep(0.01)
    assert not run.should_checkpoint()
    assert run.latest.step == 3
    assert not run.save(4, lambda folder: 1 / 0)
    assert (run.latest.folder / "state").read_text() == "3"
    kept = sorted(p.name for p in (tmp_path / "checkpoint").iterdir())
    assert kept == ["LATEST", "step-2-2", "step-3-2"]
    managed.write_text("3")
    assert not run.save(5, lambda folder: None), "a newer attempt has started"
    assert run.latest.step == 3


def test_a_step_that_is_saved_again_has_its_own_checkpoint(managed, tmp_path):
    """The first one stays until the second is complete, and `LATEST` changes with each."""
    run, latest = headway.attach(), set()

    def superseded(folder):
        (folder / "state").write_text("torn")
        managed.write_text("3")

    for turn in range(4):
        managed.write_text("2")
        assert run.save(5, lambda folder, turn=turn: (folder / "state").write_text(str(turn)))
        assert (run.latest.step, (run.latest.folder / "state").read_text()) == (5, str(turn))
        latest.add((tmp_path / "checkpoint" / "LATEST").read_text())
        assert not run.save(5, superseded), "superseded before LATEST names the new one"
        assert (run.latest.folder / "state").read_text() == str(turn)
    assert len(latest) == 4
    left = [p for p in (tmp_path / "checkpoint").iterdir() if p.name != "LATEST"]
    assert len(left) <= 3


def test_the_newest_checkpoint_is_kept_whatever_its_modification_time(tmp_path, monkeypatch):
    """Copying a directory may copy its modification time."""
    monkeypatch.setenv("HEADWAY_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    run = Run(tmp_path)
    for step in range(4):
        assert run.save(step, lambda folder, step=step: os.utime(folder, (step, 1000 - step)))
        assert run.latest.step == step
    assert len(list((tmp_path / "checkpoint").glob("step-*"))) == 2
