"""What a run writes can be read by its user only, and its lock cannot be held by others."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from headway.backend.inbox import put
from headway.core.model.snapshot import Request
from headway.core.model.units import JobId
from headway.report.run_page import write_run
from headway.runtime.run_directory import RunDirectory
from headway.runtime.start import begin
from headway.server.tokens import Tokens
from headway.spec.load import read_workload

NOBODY = 65534


@pytest.fixture(params=[0o000, 0o022])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def readable_by_others(folder):
    """Files and folders that others have any permission for."""
    return [p for p in (folder, *folder.rglob("*")) if not p.is_symlink() and mode(p) & 0o077]


@pytest.mark.usefixtures("umask")
def test_a_run_is_private_whatever_the_umask(tmp_path, workload, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    data = tmp_path / "data"
    path = workload(
        "jobs: [{name: x, spec: {tasks: [{command: [sh, -c, umask], env: {TOKEN: secret}}]}}]\n"
    )
    run = begin(read_workload(path), path, "fair", data=data, recall=True)
    put(run.folder.path, Request(job=JobId("x"), wish="resume"))
    run.go()
    write_run(run.folder)
    (log,) = run.folder.path.glob("jobs/x/*/out.log")
    jobs, records = run.folder.path / "jobs", run.folder.path / "records"
    below = [jobs, *jobs.rglob("*"), *records.rglob("*")]  # the shell of a job has its own umask
    assert [p for p in readable_by_others(data) if p not in below] == []
    assert mode(records) == 0o700
    assert mode(data) == mode(data / "runs") == mode(run.folder.path) == 0o700
    assert mode(run.folder.path / "workload.yaml") == mode(run.folder.journal) == 0o600
    assert mode(run.folder.path / "lock") == mode(data / "earlier-runs.json") == 0o600
    before = os.umask(0o022)
    os.umask(before)
    assert log.read_text().strip() == f"{before:04o}"  # jobs keep the umask of the user


def test_an_existing_data_folder_is_made_private(tmp_path):
    data = tmp_path / "data"
    old = data / "runs" / "old"
    old.mkdir(parents=True, mode=0o755)
    (old / "run.json").write_text("{}")
    (old / "lock").touch(mode=0o644)
    for folder in (data, data / "runs", old):
        folder.chmod(0o755)
    RunDirectory.new(data, {})
    assert mode(data) == mode(data / "runs") == 0o700
    run = RunDirectory(old)
    run.lock()
    run.unlock()
    assert (mode(old), mode(old / "lock")) == (0o700, 0o600)


def test_a_shared_folder_stays_shared_and_its_runs_are_private(tmp_path):
    """`--data /tmp` must not close /tmp."""
    (tmp_path / "of-others").mkdir()
    tmp_path.chmod(0o777)
    RunDirectory.new(tmp_path, {})
    assert (mode(tmp_path), mode(tmp_path / "runs")) == (0o777, 0o700)


def test_tokens_close_no_shared_folder_and_keep_no_folder_open(tmp_path):
    shared, data = tmp_path / "shared", tmp_path / "data"
    (shared / "of-others").mkdir(parents=True)
    shared.chmod(0o777)
    Tokens(shared).create("laptop")
    assert mode(shared) == 0o777
    data.mkdir()
    Tokens(data).create("laptop")
    data.chmod(0o755)
    RunDirectory.new(data, {})
    assert mode(data) == 0o700


def test_another_user_cannot_hold_the_lock_of_a_run(tmp_path):
    if os.geteuid():
        pytest.skip("only root can act as another user")
    for folder in (tmp_path, *tmp_path.parents):  # the way to the data folder is open to all
        if folder.owner() == "root" and folder != Path("/"):
            folder.chmod(mode(folder) | 0o055)
    run = RunDirectory.new(tmp_path / "data", {})
    run.lock()
    run.unlock()
    command = ["sh", "-c", 'exec 9<"$0" && echo opened', run.path / "lock"]
    done = subprocess.run(command, user=NOBODY, capture_output=True, text=True, check=False)
    assert "Permission denied" in done.stderr
    assert done.stdout == ""
