"""`headway run -- COMMAND`, `ps`, `logs`, `wait`, `history` and `cancel`, on a run in progress."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from patience import wait_for as until

from headway.cli.job_tables import show_history
from headway.runtime.job_log import BLOCK, read_log
from headway.runtime.run_directory import RunDirectory
from headway.runtime.run_history import PastRun

CLEAR = "\x1b[J"
"""Before each picture of the display."""
ASKS = "Ctrl-C: stop the jobs"
TRAINS = """
import os, sys, time
total = int(sys.argv[1])
for step in range(1, total + 1):
    while step == total and not os.path.exists("go"):
        time.sleep(0.01)
    print(f"step {step}/{total} loss: {1 / step:.4f}", flush=True)
    time.sleep(0.01)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start `headway run -- python train.py STEPS`."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINS)
    children = []

    def begin(*words):
        before = len(RunDirectory.all(tmp_path / "data"))
        command = [sys.executable, "-m", "headway", "run", "--json", "--", *map(str, words)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        children.append(child)
        until(lambda: len(RunDirectory.all(tmp_path / "data")) > before)
        return child

    yield begin
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=60)


def listed(headway, *words):
    ran = headway(*words, "--json")
    assert ran.code in (0, 1), ran.err
    return json.loads(ran.out)


def test_a_single_command_is_a_job_that_can_be_listed_followed_and_waited_for(
    start, headway, tmp_path
):
    child = start(sys.executable, "train.py", 150)
    until(lambda: [j["phase"] for j in listed(headway, "ps")] == ["running"])
    [job] = until(lambda: [j for j in listed(headway, "ps") if j["total_steps"]])
    assert (job["job"], job["total_steps"]) == ("train", 150)
    assert headway("ps").out.startswith("job")
    until(lambda: listed(headway, "ps")[0]["eta_s"] is not None)
    assert listed(headway, "history")[0]["state"] == "active"
    (tmp_path / "go").touch()
    followed = headway("logs", "train", "--follow").out.splitlines()
    assert followed[0] == "step 1/150 loss: 1.0000"
    assert [line.split()[1] for line in followed] == [f"{i}/150" for i in range(1, 151)]
    assert headway("wait", "train", "--run", "latest").code == 0
    child.communicate(timeout=60)
    [run] = listed(headway, "history")
    assert (run["state"], run["outcomes"]) == ("ended", {"succeeded": 1})
    assert run["what"].endswith("train.py 150")
    page = (tmp_path / "data" / "runs" / "latest" / "report.html").read_text()
    assert "train.py 150</h1>" in page
    assert headway("logs", "train", "-n", 1).out == "step 150/150 loss: 0.0067\n"
    assert listed(headway, "ps") == []
    assert "nothing runs" in headway("ps").out
    [ended] = listed(headway, "ps", "--run", "latest")
    assert (ended["phase"], ended["finished_s"] > 0) == ("succeeded", True)


def test_a_job_is_cancelled_and_the_one_of_another_run_goes_on(start, headway):
    first = start(sys.executable, "train.py", 100000)
    until(lambda: [j["phase"] for j in listed(headway, "ps")] == ["running"])
    second = start(sys.executable, "train.py", 100000)
    until(lambda: [j["phase"] for j in listed(headway, "ps")] == ["running"] * 2)
    ran = headway("logs", "train")
    assert (ran.code, "several runs have a job" in ran.err) == (2, True)
    waits = headway("wait", "--timeout", 0)
    assert "have not ended: train, train" in waits.err
    assert headway("cancel", "train", "--run", "latest").code == 0
    assert json.loads(second.communicate(timeout=60)[0])[0]["per_job"][0]["outcome"] == "cancelled"
    assert first.poll() is None
    assert headway("wait", "--run", "latest").code == 1
    gone = headway("cancel", "train", "--run", "latest")
    assert (gone.code, "has ended" in gone.err) == (4, True)


def test_a_run_without_a_process_is_named_with_what_to_do(start, headway):
    child = start(sys.executable, "train.py", 100000)
    until(lambda: [j["phase"] for j in listed(headway, "ps")] == ["running"])
    assert "no active process" not in headway("ps").err
    child.kill()
    child.communicate()
    [run] = listed(headway, "history")
    told = headway("ps")
    assert (told.out, listed(headway, "ps")) == ("", [])
    assert f"headway run --resume {run['run']}" in told.err
    assert headway("stop", "--run", run["run"], "--jobs", "stop").code == 0
    assert "nothing runs" in headway("ps").out


def on_terminal(*words):
    """A process with a terminal: its pid, and the file of the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "headway", *words])  # noqa: S606
    os.set_blocking(terminal, False)
    return pid, terminal


def read_until(terminal, shows):
    """Return what it shows until there is this text, or this is true of all that it showed."""
    seen = ""

    def more():
        nonlocal seen
        with suppress(OSError):
            seen += os.read(terminal, 65536).decode(errors="replace")
        return shows in seen if isinstance(shows, str) else shows(seen)

    until(more)
    return seen


def _without_question(seen):
    last = seen.split(CLEAR)[-1]
    return "done" in last and ASKS not in last


def test_ctrl_c_on_a_terminal_asks_and_a_user_can_detach(start, headway):
    del start  # for its directory and its environment
    pid, terminal = on_terminal("run", "--", sys.executable, "train.py", "100000")
    until(lambda: [j["phase"] for j in listed(headway, "ps")] == ["running"])
    os.write(terminal, b"\x03")
    read_until(terminal, ASKS)
    os.write(terminal, b"\n")  # go on
    read_until(terminal, _without_question)
    os.write(terminal, b"\x03")
    read_until(terminal, ASKS)
    os.write(terminal, b"d\n")
    seen = read_until(terminal, "; manage them again: headway run --resume")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with suppress(OSError):
        seen += os.read(terminal, 65536).decode()
    assert CLEAR not in seen.rpartition("manage them again")[2], "it stays on the screen"
    os.close(terminal)
    [before] = listed(headway, "ps", "--run", "latest")
    assert before["phase"] == "running"
    pid, terminal = on_terminal("run", "--resume", "latest")
    read_until(terminal, "of 1 done")
    os.write(terminal, b"\x03")
    read_until(terminal, ASKS)
    os.write(terminal, b"\x03")
    read_until(terminal, "report: ")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    os.close(terminal)
    [run] = listed(headway, "history")
    assert run["outcomes"] == {"cancelled": 1}


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("nosuchprogram",), id="a program that does not exist"),
        pytest.param((sys.executable, "nosuch.py"), id="a script that does not exist"),
        pytest.param((sys.executable, "-c", "import nosuchmodule"), id="a missing module"),
    ],
)
def test_a_command_that_can_never_succeed_is_not_retried(start, command, tmp_path):
    del start  # for its directory and its environment
    job = {"name": "x", "spec": {"backoffLimit": 3, "tasks": [{"command": list(command)}]}}
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    (tmp_path / "w.json").write_text(json.dumps({**head, "jobs": [job]}))
    words = [sys.executable, "-m", "headway", "run", "w.json", "--json"]
    out = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    assert json.loads(out)[0]["per_job"][0]["outcome"] == "failed"
    [run] = RunDirectory.all(tmp_path / "data")
    assert json.loads(next(run.path.glob("jobs/*/state.json")).read_text())["attempt"] == 1


def test_a_run_needs_either_a_workload_or_a_command(headway):
    ran = headway("run", "w.yaml", "--", "python")
    assert (ran.code, "or a command after --" in ran.err) == (2, True)


def test_the_steps_of_a_command_are_declared_on_the_command_line(start, headway, tmp_path):
    del start  # for its directory and its environment
    ran = headway("run", "--steps", 7, "--", sys.executable, "-c", "print('step 1 loss: 2')")
    assert ran.code == 0
    [run] = RunDirectory.all(tmp_path / "data")
    [job] = json.loads((run.path / "workload.yaml").read_text())["jobs"]
    assert job["spec"]["totalSteps"] == 7
    for command in ("run", "submit"):
        refused = headway(command, "w.yaml", "--steps", 7)
        assert (refused.code, "--steps needs a command" in refused.err) == (2, True)
    for option, value in (("--name", "x"), ("--retries", 1)):
        refused = headway("submit", "w.yaml", option, value)
        assert (refused.code, f"{option} needs a command" in refused.err) == (2, True)


def test_explain_names_what_a_job_has_not_printed_yet(headway, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path))
    assert "nothing has run yet" in headway("history").out
    assert "nothing has run yet" in headway("logs", "x").err
    assert headway("wait").out == "nothing runs\n"


def test_a_progress_bar_that_overwrites_itself_has_many_lines(tmp_path):
    folder = tmp_path / "jobs" / "x" / "main-0"
    folder.mkdir(parents=True)
    (folder / "out.log").write_bytes(b"a\r\n 1%\r 2%\r 3%\nb\n")
    run = RunDirectory(tmp_path)
    assert list(read_log(run, "x", follow=False)) == ["a", " 1%", " 2%", " 3%", "b"]
    assert list(read_log(run, "x", last=2, follow=False)) == [" 3%", "b"]


@pytest.mark.parametrize("last", [None, 0, 1, 2, 5000, 100000])
def test_the_last_lines_of_a_long_log_are_found_from_its_end(tmp_path, last):
    lines = [f"line {i}" for i in range(BLOCK // 4)]
    folder = tmp_path / "jobs" / "x" / "main-0"
    folder.mkdir(parents=True)
    (folder / "out.log").write_text("\n".join(lines) + "\n")
    found = list(read_log(RunDirectory(tmp_path), "x", last=last, follow=False))
    assert found == (lines if last is None else lines[len(lines) - min(last, len(lines)) :])


def test_a_run_whose_process_died_can_be_resumed_and_says_so(capsys):
    show_history([PastRun(run="r", began=1.0, state="interrupted", what="w.yaml")])
    assert "interrupted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "remedy"),
    [(["move", "vae", "--to", "n"], "kubectl cordon"), (["cancel", "vae"], "delete tj vae")],
)
def test_a_job_that_is_not_here_may_be_one_of_an_operator(
    headway, tmp_path, words, remedy, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    without = headway(*words, "--data", tmp_path)
    assert (without.code, "operator" in without.err) == (2, False), "no cluster is known"
    monkeypatch.setenv("KUBECONFIG", "config")
    ran = headway(*words, "--data", tmp_path)
    assert ran.code == 2
    assert "operator" in ran.err
    assert remedy in ran.err


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["run", "python", "train.py", "--epochs", "3"], "run -- python train.py --epochs 3"),
        (["run", "train.py", "--lr", "0.1"], "run -- python train.py --lr 0.1"),
        (["submit", "bash", "train me.sh"], "submit -- bash 'train me.sh'"),
    ],
)
def test_a_command_without_dashes_gets_the_line_to_type(headway, words, remedy):
    ran = headway(*words)
    assert ran.code == 2
    assert f"{words[1]} is not a workload file" in ran.err
    assert f"headway {remedy}\n" in ran.err


def test_a_program_that_does_not_exist_starts_no_run(headway, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.sh").write_text("true")
    ran = headway("run", "--data", tmp_path / "data", "--", "pyhton", "train.py")
    assert (ran.code, "command not found: pyhton" in ran.err) == (2, True)
    ran = headway("run", "--data", tmp_path / "data", "--", "./train.sh")
    assert (ran.code, "chmod +x ./train.sh" in ran.err) == (2, True)
    assert not (tmp_path / "data" / "runs").exists()


def test_a_log_that_is_followed_ends_with_its_server_and_says_so(serving, headway, tmp_path):
    server = serving()
    wait = "echo one; until [ -e go ]; do sleep 0.1; done"
    assert headway("submit", "--name", "x", "--", "sh", "-c", wait).code == 0
    until(lambda: headway("logs", "x").out)
    server.kill()
    server.communicate()
    followed = headway("logs", "x", "--follow")
    assert (followed.code, followed.out) == (4, "one\n")
    assert "the server is stopped; its jobs continue" in followed.err
    (tmp_path / "go").touch()
    serving()
    assert (headway("logs", "x", "-f").code, headway("wait", "x").code) == (0, 0)


def test_a_job_that_is_submitted_later_says_at_which_time_of_day(serving, headway, tmp_path):
    serving()
    spec = "{tasks: [{command: ['true']}]}"
    head = "apiVersion: headway.dev/v1alpha1\nkind: Workload\n"
    (tmp_path / "w.yaml").write_text(f"{head}jobs: [{{name: x, at: 1h, spec: {spec}}}]\n")
    assert headway("submit", "w.yaml").code == 0
    until(lambda: re.search(r"is submitted at \d\d:\d\d:\d\d *\n", headway("ps").out))
