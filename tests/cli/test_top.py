"""`headway top` on a real terminal, and its keys."""

import json
import os
import pty
import sys
from contextlib import suppress
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from headway.cli import top_screen
from headway.cli.top_screen import DOWN, UP, Top
from headway.report.explain import Event, Explanation
from headway.runtime.api_address import VARIABLE
from headway.runtime.job_status import JobStatus
from serving import submit


def job(name, **more):
    return JobStatus(run="r", job=name, phase=more.pop("phase", "running"), **more)


@pytest.fixture
def screen(tmp_path, monkeypatch):
    jobs = [job("a", eta_s=9.0, cores=0.1), job("b", eta_s=5.0, cores=0.2, submitted_s=1.0)]
    monkeypatch.setattr(
        top_screen, "known_runs", lambda data, run: [SimpleNamespace(id="r", locked=True)]
    )
    monkeypatch.setattr(top_screen, "run_status", lambda folder: jobs)
    monkeypatch.setattr(top_screen.RunDirectory, "find", lambda data, run: run)
    made = Top(tmp_path)
    made.look()
    return made


@pytest.fixture
def asked(monkeypatch):
    found = []

    def ask(folder, request):
        found.append((folder, request.job, request.wish))
        return "" if request.job == "a" else "it has ended"

    monkeypatch.setattr(top_screen, "ask", ask)
    return found


def test_a_selection_stays_with_its_job_in_any_order(screen):
    screen.press(DOWN)
    assert screen.selected.job == "b"
    orders = []
    for _ in top_screen.ORDERS:
        screen.press("s")
        orders.append([job.job for job in screen.jobs])
    assert orders == [["a", "b"], ["b", "a"], ["b", "a"], ["a", "b"]]
    screen.look()
    screen.press(UP)
    assert screen.selected.job == "a"


def test_a_job_is_paused_and_cancelled_only_after_a_question(screen, asked):
    screen.press("p")
    screen.press("c")
    assert screen.message == "Cancel a? y: yes, any other key: no"
    screen.press("x")
    screen.press("y")
    assert asked == [("r", "a", "pause")]
    screen.press("c")
    screen.press("y")
    assert asked[1:] == [("r", "a", "cancel")]
    screen.press(DOWN)
    screen.press("p")
    assert screen.message == "b: cannot pause: it has ended"


@pytest.mark.parametrize("lines", [8, 12, 40])
def test_what_is_explained_ends_with_the_last_event_and_leaves_the_keys_visible(
    screen, monkeypatch, lines
):
    events = [Event(float(i), f"event {i}") for i in range(50)]
    monkeypatch.setattr(top_screen, "explain_job", lambda *_: Explanation(job="a", events=events))
    monkeypatch.setattr(
        top_screen.RunDirectory, "find", lambda data, run: top_screen.RunDirectory(data)
    )
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", str(lines))
    screen.press("e")
    assert "event 49" in screen.explanation[-1]
    console = Console(width=80, file=StringIO())
    console.print(screen.picture())
    assert len(console.file.getvalue().splitlines()) <= lines


def test_an_unknown_key_does_not_repeat_the_list_of_keys(screen):
    screen.press("?")
    assert screen.message == ""


def test_without_jobs_every_key_is_harmless(screen, asked):
    screen.jobs = []
    for key in ("p", "c", "y", "e", "s", UP, DOWN, "?"):
        screen.press(key)
    assert asked == []
    assert screen.selected is None


def test_it_says_that_the_server_is_stopped(serving, headway, tmp_path):
    server = serving()
    submit(headway, "--name", "x", "--", "sleep", "3600")
    screen = Top(tmp_path / "data")
    screen.look()
    assert (screen.selected.job, screen.stopped) == ("x", "")
    server.kill()
    server.communicate()
    screen.look()
    assert screen.stopped == "the server is stopped; its jobs continue"
    assert headway("stop", "--jobs", "stop").code == 0
    screen.look()
    assert (screen.selected, screen.stopped) == (None, "")


def test_it_does_not_show_an_empty_list_for_the_server_of_the_machine(headway, monkeypatch):
    monkeypatch.setenv(VARIABLE, "/run/headway.sock")
    ran = headway("top")
    assert (ran.code, "for your own runs" in ran.err) == (2, True)


def test_it_needs_a_terminal(headway):
    ran = headway("top")
    assert (ran.code, "needs a terminal" in ran.err) == (2, True)


def test_as_json_it_prints_the_jobs_once_and_needs_no_terminal(serving, headway):
    ran = headway("top", "--json")
    assert (ran.code, json.loads(ran.out)) == (0, [])
    serving()
    submit(headway, "--name", "x", "--", "sleep", "3600")
    [shown] = json.loads(headway("top", "--json").out)
    assert (shown["job"], set(shown)) == ("x", set(job("x").plain()))
    unknown = headway("top", "--run", "nosuch", "--json")
    assert (unknown.code, json.loads(unknown.out)["error"]["code"]) == (2, "unknown-name")
    assert headway("stop", "--jobs", "stop").code == 0


def test_it_shows_the_screen_and_quits(tmp_path):
    pid, terminal = pty.fork()
    if pid == 0:
        words = ["-m", "headway", "top", "--data", str(tmp_path)]
        os.execv(sys.executable, [sys.executable, *words])  # noqa: S606
    seen = ""
    while "quit" not in seen:
        seen += os.read(terminal, 65536).decode(errors="replace")
    assert "nothing runs" in seen
    os.write(terminal, b"q")
    with suppress(OSError):
        while os.read(terminal, 65536):
            pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
