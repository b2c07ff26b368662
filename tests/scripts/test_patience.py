"""Deadlines of tests: they adapt to a loaded machine, and they pass."""

import subprocess
import sys
from pathlib import Path

import patience
import pytest
from patience import Deadline, end_of, wait_for


def test_a_claim_that_never_comes_true_fails():
    with pytest.raises(AssertionError, match="never came true"):
        wait_for(lambda: False, patience=0.05)
    assert wait_for(lambda: 7) == 7


def test_a_process_that_does_not_end_is_killed():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with pytest.raises(subprocess.TimeoutExpired):
        end_of(process, patience=0.05)
    assert process.returncode == -9


@pytest.mark.parametrize(("running", "passed"), [(2, True), (8, False)])
def test_busy_processes_postpone_a_deadline(monkeypatch, tmp_path, running, passed):
    """Four for each of two CPUs: a second of the deadline takes four."""
    (tmp_path / "loadavg").write_text(f"0.5 0.5 0.5 {running}/100 4711")
    now = iter([0.0, 3.0, 5.0])
    monkeypatch.setattr(patience, "monotonic", lambda: next(now))
    monkeypatch.setattr(patience, "Path", lambda name: tmp_path / Path(name).name)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    deadline = Deadline(2.0)
    assert deadline.passed() is passed
    assert deadline.passed() is passed
