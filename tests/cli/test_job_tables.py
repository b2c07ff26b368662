"""The table of `ps`: one line for each job, at any width of the terminal."""

import math

import pytest

from headway.cli.job_tables import DROPPED, show_jobs
from headway.runtime import job_status
from headway.runtime.job_status import JobStatus

LONG = "train-resnet50-imagenet-batch-256-learning-rate-0001-seed-17"
REASON = "needs 1.6 cores; node local has 0.4 of 2 cores free; behind other; starts after other"


def job(name="x", **more):
    known = {
        "step": 1500.0, "total_steps": 20000.0, "value": 0.41234, "cores": 0.0, "share": 0.5,
        "eta_s": 4000.0, "at_s": 300.0, "reason": REASON,
    }  # fmt: skip
    return JobStatus(run="20260102-030405", job=name, phase="running", **{**known, **more})


@pytest.fixture
def lines(capsys, monkeypatch):
    """The lines that are printed in a terminal of this width; None: in a pipe."""

    def show(width, *jobs, several=False):
        monkeypatch.delenv("COLUMNS", raising=False)
        if width is not None:
            monkeypatch.setenv("COLUMNS", str(width))
        show_jobs(jobs, several=several)
        return capsys.readouterr().out.splitlines()

    return show


@pytest.mark.parametrize("width", range(20, 200, 9))
def test_each_job_has_one_line_at_any_width(lines, width):
    head, first, second, *rest = lines(width, job(LONG), job("short"), several=True)
    assert head.startswith("job")
    assert first.startswith("train")
    assert second.startswith("short")
    assert all(len(line.rstrip()) <= width for line in (head, first, second))
    assert len(rest) <= 1, "which columns do not fit"


def test_columns_are_dropped_in_the_stated_order(lines):
    gone = []
    for width in range(250, 20, -1):
        head = lines(width, job(LONG), several=True)[0]
        gone += [name for name in DROPPED if name not in head and name not in gone]
    assert gone == list(DROPPED)


def test_at_80_columns_a_long_name_leaves_room_for_what_matters(lines):
    head, row, note = lines(80, job(LONG))
    assert head.split() == ["job", "phase", "step", "ETA", "reason"]
    assert "…" in row.split()[0]
    assert "1500/20000" in row
    assert note.startswith("Columns that do not fit: loss, share, cores used, time.")


def test_in_a_pipe_nothing_is_shortened(lines):
    [head, row] = lines(None, job(LONG))
    assert LONG in row
    assert REASON in row
    assert "share  cores used" in head


def test_a_reason_of_several_lines_is_one_line(lines):
    assert len(lines(None, job(reason="first\nsecond"))) == 2


def test_a_loss_that_is_no_number_is_shown_and_is_null_in_json(lines, tmp_path):
    job_status.write(tmp_path, [job(value=math.nan)])
    [known] = job_status.read(tmp_path)
    assert "  nan  " in lines(None, known)[1]
    assert known.plain()["value"] is None


def test_the_use_of_a_job_that_sleeps_is_not_taken_for_its_share(lines):
    head, row = lines(None, job(reason=""))
    at = head.index("share")
    assert row[at : at + 5].strip() == "50%"
    at = head.index("cores used")
    assert row[at : at + 10].strip() == "0.00"


def test_ended_jobs_have_no_empty_columns_of_running_ones(lines):
    ended = {"step": 5.0, "finished_s": 9.0, "reason": "exited with code 1"}
    done = JobStatus(run="r", job="x", phase="failed", **ended)
    head, line, *rest = lines(80, done)
    assert head.split() == ["job", "phase", "step", "time", "reason"]
    assert "9.0 s" in line
    assert rest == [], "no note about columns that do not fit"
