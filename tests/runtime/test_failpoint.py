"""Faults at named points."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from headway import failpoint
from headway.backend.local.launcher import SHIM
from headway.core.cycle.validate import FINE
from headway.core.model.decision import Plan
from headway.core.model.snapshot import Observation, Trigger
from headway.errors import BackendError
from headway.runtime.journal import FileJournal, read
from headway.runtime.run_directory import RunDirectory


@pytest.fixture
def arm():
    yield failpoint.arm
    failpoint.arm("")


def hits(point, number):
    """Which of so many hits fail."""
    found = []
    for n in range(1, number + 1):
        try:
            failpoint.hit(point)
        except OSError:
            found.append(n)
    return found


def test_without_a_fault_nothing_happens_and_all_data_is_written():
    assert failpoint.hit("journal.intend", b"abcd") == b"abcd"


def test_a_fault_happens_once_at_the_hit_that_it_names(arm):
    arm("state.write@3=eio")
    assert hits("state.replace", 5) == []
    assert hits("state.write", 5) == [3]


def test_a_fault_can_last(arm):
    arm("state.*@2+=enospc")
    assert hits("state.write", 4) == [2, 3, 4]


def test_a_list_has_several_faults(arm):
    arm("a=eio,b@2=enospc")
    assert (hits("a", 3), hits("b", 3)) == ([1], [2])


def test_an_error_has_the_number_of_the_system(arm):
    arm("a=enospc")
    with pytest.raises(OSError, match="No space left") as raised:
        failpoint.hit("a")
    assert raised.value.errno == errno.ENOSPC


def test_a_short_write_keeps_the_first_half(arm):
    arm("journal.*=short")
    assert failpoint.hit("journal.intend", b"abcd") == b"ab"


def test_the_same_seed_draws_the_same_fault():
    def drawn(seed):
        return [(r.at, r.action) for r in failpoint.parse(str(seed))]

    assert drawn(5) == drawn(5)
    assert len({tuple(drawn(seed)) for seed in range(50)}) > 40


def test_a_rule_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="invalid rule 'a=explode'"):
        failpoint.parse("a=explode")


def test_points_are_traced_in_order(arm, tmp_path):
    trace = tmp_path / "trace"
    arm(f"*@1+=trace:{trace}")
    RunDirectory(tmp_path).write("x", "text")
    assert trace.read_text().split() == ["file.write", "file.replace", "file.sync"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("HEADWAY_FAULT", "journal.settle@2=kill"), ("HEADWAY_CRASH_AFTER_WRITES", "4")],
)
def test_a_process_dies_where_its_environment_says(tmp_path, name, value):
    code = """
import sys
from pathlib import Path
from headway.core.cycle.validate import FINE
from headway.core.model.decision import Plan
from headway.core.model.snapshot import Observation, Trigger
from headway.runtime.journal import FileJournal
book = FileJournal(Path(sys.argv[1]))
for at in range(9):
    book.intend(Trigger.TICK, Observation(at=float(at)), Plan(), FINE, None)
    book.settle(())
"""
    command = [sys.executable, "-c", code, str(tmp_path / "j")]
    done = subprocess.run(command, env={**os.environ, name: value}, check=False)
    assert done.returncode == -signal.SIGKILL
    whole, torn = (tmp_path / "j").read_text().split("\n")
    assert whole.endswith("}")
    assert '"cycle":2' in torn
    assert "outcomes" not in torn


def test_a_full_disk_is_an_error_of_the_journal(arm, tmp_path):
    book = FileJournal(tmp_path / "j")
    arm("journal.intend=enospc")
    with pytest.raises(BackendError, match="the disk is full"):
        book.intend(Trigger.TICK, Observation(at=1.0), Plan(), FINE, None)
    book.close()


def test_a_short_write_to_the_journal_is_completed(arm, tmp_path):
    book = FileJournal(tmp_path / "j")
    arm("journal.intend=short")
    book.intend(Trigger.TICK, Observation(at=1.0), Plan(), FINE, None)
    book.settle(())
    book.close()
    assert [line["at_s"] for line in read(tmp_path / "j")] == [1.0]


def test_the_shell_of_a_job_fails_at_its_own_points(arm):
    assert failpoint.in_shell(SHIM) == SHIM
    arm("shim.exit@2=kill,shim.claim@2=delay:0.2")
    assert "kill" not in failpoint.in_shell(SHIM), "the first replica is undisturbed"
    second = failpoint.in_shell(SHIM).splitlines()
    assert second.index("sleep 0.2") < second.index("trap 'asked=1' TERM INT HUP")
    assert second.index("kill -KILL $$") > second.index("  code=$?")


def test_a_fault_at_any_point_does_not_mean_the_shell_of_a_job(arm):
    arm("*=kill")
    assert "kill" not in failpoint.in_shell(SHIM)
