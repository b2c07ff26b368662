"""The live display: what is known of each job, as rows on a terminal and as lines elsewhere."""

import io
import re
import sys

import pytest

from headway.cli.display import COLUMNS, Display, laid_out
from headway.runtime.server import start_server
from headway.runtime.start import begin
from headway.runtime.usage_sampler import UsageSampler
from headway.spec.load import read_workload

PRINTS = """
import time
for i in range(8):
    print(f"step {i + 1}/8 loss {1 / (i + 1)}", flush=True)
    ends = time.monotonic() + 0.1
    while time.monotonic() < ends: pass
"""
SILENT = "import time; time.sleep(1)"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def watched(tmp_path, workload, monkeypatch, screen, *, columns=200, **options):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", "50")
    entry = "  - {{name: {0}, spec: {{tasks: [{{command: [{1}, {0}.py]}}]}}}}\n"
    jobs = "".join(entry.format(name, sys.executable) for name in ("says", "silent"))
    path = workload(f"jobs:\n{jobs}")
    (path.parent / "says.py").write_text(PRINTS)
    (path.parent / "silent.py").write_text(SILENT)
    monkeypatch.setattr(sys, "stderr", screen)
    run = begin(read_workload(path), path, "headway", data=tmp_path / "data")
    with Display(run, **options) as display:
        run.go(display.show)
    return re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())


def test_a_terminal_shows_why_each_job_has_its_share_and_where_its_metric_was_found(
    tmp_path, workload, monkeypatch
):
    shown = watched(tmp_path, workload, monkeypatch, Terminal(), patience=0.5)
    assert 'loss in out.log, line "step 1/8 loss 1.0"' in shown
    assert "its length is unknown (set totalSteps): fair share" in shown
    assert "   no metric found in its output: set metric.name or reports.pattern" in shown


def test_on_a_narrow_terminal_no_line_is_wrapped_by_the_terminal(tmp_path, workload, monkeypatch):
    """Otherwise fewer lines are wiped than were drawn."""
    above = "Ctrl-C: stop the jobs. d, Enter: detach, the jobs continue. Enter: go on."
    shown = watched(
        tmp_path, workload, monkeypatch, Terminal(), columns=40, above=lambda now: above
    )
    frames = shown[shown.index("Ctrl-C") :]
    assert above in frames.replace("\n", " ")
    assert max(map(len, frames[: frames.rindex("done")].splitlines())) < 40


def test_a_narrow_terminal_omits_columns_and_keeps_the_eta():
    row = ("train", "running", "growing", "100%", "0.42", "5 MiB", "6/200", "0.1667", "█▄▂▂▁" * 3,
           "37 s")  # fmt: skip
    waits = ("later", "pending", "waits for 2 cores on any node; 1 is free")
    header, first, second = (
        re.sub(r"\x1b\[[0-9;]*m", "", line) for line in laid_out([COLUMNS, row, waits], 79)
    )
    assert header.split()[-4:] == ["memory", "step", "loss", "ETA"]
    assert first.endswith("37 s")
    assert second == "later  pending  waits for 2 cores on any node; 1 is free"
    [header, *_] = laid_out([COLUMNS, row], 40)
    assert "step" in header
    assert "loss" not in header
    assert "ETA" in header


def test_without_a_terminal_a_job_without_a_metric_is_named_once(tmp_path, workload, monkeypatch):
    said = watched(tmp_path, workload, monkeypatch, io.StringIO(), patience=0.5)
    assert said.count("no metric found") == 1
    assert "silent: no metric found in its output" in said


@pytest.mark.parametrize(("patience", "times"), [(0.2, 1), (60.0, 0)])
def test_a_job_may_be_quiet_at_first(tmp_path, workload, monkeypatch, patience, times):
    said = watched(tmp_path, workload, monkeypatch, io.StringIO(), patience=patience)
    assert said.count("silent: no metric found") == times


def test_a_distributed_job_whose_reporting_replica_has_ended_is_not_called_silent(
    tmp_path, workload, monkeypatch
):
    """At the end of each training with a parameter server, the server was."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    task = "{{name: {0}, command: [{1}, {0}.py]}}"
    tasks = ", ".join(task.format(name, sys.executable) for name in ("chief", "worker"))
    path = workload(f"jobs: [{{name: x, spec: {{tasks: [{tasks}]}}}}]\n")
    spoken = "print('step 1/1 loss 1.0', flush=True); import time; time.sleep(1.5)"
    (path.parent / "worker.py").write_text(spoken)
    (path.parent / "chief.py").write_text(SILENT.replace("(1)", "(3)"))
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    run = begin(read_workload(path), path, "fair", data=tmp_path / "data")
    with Display(run, patience=2.0) as display:
        run.go(display.show)
    assert "x succeeded" in screen.getvalue()
    assert "no metric found" not in screen.getvalue()


def test_a_server_without_jobs_says_how_to_submit_one(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    run = start_server(tmp_path / "data", "fair").run
    display = Display(run)
    display.show(UsageSampler(run.backend, run.folder.usage), 5.0)
    said = "5 s · no unfinished jobs; submit one: headway submit -- COMMAND\n"
    assert screen.getvalue().startswith(said)
    run.backend.close()
    run.journal.close()
    run.folder.unlock()
