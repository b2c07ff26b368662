"""A full disk is named as the cause, with what to do, and nothing that runs is harmed."""

import sqlite3
from errno import EDQUOT

import pytest

from headway import failpoint
from headway.errors import DiskFull, of_file
from headway.runtime.submissions import Submission, Submissions
from serving import listed, submit

TOLD = "headway: the disk is full (ENOSPC)\n  where: {}\n  remedy: free disk space (see df -h)"


def test_a_request_to_a_server_names_a_full_disk(serving, headway, monkeypatch):
    monkeypatch.setenv("HEADWAY_FAULT", "request.write=enospc")
    serving()
    submit(headway, "--name", "x", "--", "sleep", "3600")
    refused = headway("cancel", "x")
    assert (refused.code, refused.out) == (3, "")
    assert refused.err.startswith(TOLD.format("request.write"))
    assert list(listed(headway)) == ["x"]
    assert headway("cancel", "x").code == 0


def test_a_submission_names_a_full_disk(tmp_path, monkeypatch):
    connect, job = sqlite3.connect, Submission(entry={"name": "x"}, directory="/" * 2**20)

    def small(*args, **options):
        made = connect(*args, **options)
        made.execute("PRAGMA max_page_count = 50")
        return made

    monkeypatch.setattr(sqlite3, "connect", small)
    store = Submissions(tmp_path)
    with pytest.raises(DiskFull, match="ENOSPC") as raised:
        store.add([job])
    store.close()
    assert raised.value.where == str(tmp_path / "jobs.db")
    assert "free disk space" in raised.value.hint


def test_a_run_names_a_full_disk(headway, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    failpoint.arm("file.write=enospc")
    ran = headway("run", "--", "true")
    failpoint.arm("")
    assert ran.code == 3
    assert TOLD.format("file.write") in ran.err
    assert headway("history").out == "nothing has run yet; start: headway run -- COMMAND\n"


def test_a_quota_that_is_used_up_is_a_full_disk():
    told = of_file(OSError(EDQUOT, "Disk quota exceeded"))
    assert (told.message, told.where) == (
        "the disk quota is used up (EDQUOT)",
        "the data directory",
    )
