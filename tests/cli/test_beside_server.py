"""What commands say while a server is active on this machine."""

import socket
import sys

from headway.runtime.run_directory import RunDirectory

SAID = "a server is active on this machine"
QUICK = ("--", sys.executable, "-c", "print('step 1/1')")


def test_a_run_says_that_it_divides_the_machine_with_a_server(serving, headway, workload):
    before = headway("run", *QUICK)
    assert (before.code, SAID in before.err) == (0, False)
    serving()
    beside = headway("run", *QUICK)
    assert beside.code == 0
    assert f"{SAID}; this run and its jobs divide the CPU" in beside.err
    assert f"headway submit -- {sys.executable} -c" in beside.err
    body = "jobs: [{name: a, spec: {tasks: [{command: ['true']}]}}]"
    path = workload(body)
    assert f"headway submit {path}\n" in headway("run", path).err
    assert SAID not in headway("run", "--json", *QUICK).err


def test_a_run_says_so_of_the_server_of_the_machine(headway, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    path = tmp_path / "headway.sock"
    monkeypatch.setenv("HEADWAY_SYSTEM", str(path))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert SAID not in headway("run", *QUICK).err, "it does not answer"
        server.listen()
        assert SAID in headway("run", *QUICK).err


def test_a_server_without_jobs_is_named_with_how_to_submit_one(
    serving, headway, tmp_path, monkeypatch
):
    assert "nothing runs" in headway("ps").out
    serving()
    said = "the server has no unfinished jobs; submit one: headway submit -- COMMAND\n"
    assert headway("ps").out == said
    [run] = RunDirectory.all(tmp_path / "data")
    monkeypatch.setenv("HEADWAY_SYSTEM", str(run.path))
    assert headway("ps").out == said


def test_a_job_runs_in_a_directory_that_exists(serving, headway, tmp_path):
    serving()
    (tmp_path / "inner").mkdir()
    assert headway("submit", "--directory", "inner", "--", "pwd").code == 0
    assert headway("wait", "pwd").code == 0
    assert headway("logs", "pwd").out == f"{tmp_path / 'inner'}\n"
    refused = headway("submit", "--directory", "nosuch", "--", "pwd")
    assert (refused.code, f"--directory {tmp_path / 'nosuch'}" in refused.err) == (2, True)
