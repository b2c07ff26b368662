"""`headway clean` lists, and with --yes removes, runs that have ended."""

import json
import os
from time import time

import pytest
from typer.testing import CliRunner

from headway.cli import app
from headway.runtime.run_directory import RunDirectory
from headway.runtime.submissions import End, Submission, Submissions

DAY = 86400


@pytest.fixture
def data(tmp_path):
    """Three runs that ended 40, 20 and 1 days ago, and one that has not ended."""
    for name, days in (("a", 40), ("b", 20), ("c", 1)):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
        (folder / "result.json").write_text("x" * 1000)
        os.utime(folder / "result.json", (time() - days * DAY,) * 2)
    (tmp_path / "runs" / "d").mkdir()
    (tmp_path / "runs" / "d" / "run.json").write_text("{}")
    (tmp_path / "runs" / "latest").symlink_to("c")
    return tmp_path


def clean(data, *words):
    done = CliRunner().invoke(app, ["clean", "--data", str(data), *words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def left(data):
    return sorted(p.name for p in (data / "runs").iterdir())


def test_everything_is_kept_unless_an_option_selects_it(data):
    assert "0 of 3 ended runs" in clean(data, "--yes")
    assert left(data) == ["a", "b", "c", "d", "latest"]


def test_runs_are_listed_before_they_are_removed(data):
    said = clean(data, "--older-than", "10d")
    assert "2 of 3 ended runs" in said
    assert "nothing was removed; add --yes" in said
    assert left(data) == ["a", "b", "c", "d", "latest"]
    found = json.loads(clean(data, "--older-than", "10d", "--yes", "--json"))
    assert [(r["run"], r["removed"]) for r in found] == [("b", True), ("a", True)]
    assert found[0]["size_bytes"] >= 1000
    assert left(data) == ["c", "d", "latest"]


def test_runs_and_jobs_of_the_server_are_counted_separately(data):
    server = data / "runs" / "d"
    (server / "run.json").write_text('{"server": true, "began": 0}')
    store = Submissions(server)
    for name in store.add([Submission(entry={"name": n}, directory="/") for n in ("x", "y")]):
        store.finish(name, End(outcome="succeeded", finished=0.0))
    store.close()
    assert "2 of 3 ended runs and 2 of 2 ended jobs" in clean(data, "--older-than", "10d")


def test_the_last_runs_are_kept_and_latest_follows(data):
    clean(data, "--keep", "1", "--yes")
    assert left(data) == ["c", "d", "latest"]
    clean(data, "--keep", "0", "--yes")
    assert left(data) == ["d", "latest"]
    assert (data / "runs" / "latest").readlink().name == "d"


def test_a_run_that_is_in_use_stays(data):
    used = RunDirectory(data / "runs" / "a")
    used.lock()
    try:
        assert "in use" in clean(data, "--keep", "2", "--yes")
        assert "a" in left(data)
    finally:
        used.unlock()


def test_an_invalid_age_is_refused(data):
    done = CliRunner().invoke(app, ["clean", "--data", str(data), "--older-than", "soon"])
    assert "--older-than" in str(done.exception)


def test_the_list_is_aligned_and_small_sizes_are_not_shown_as_zero(data):
    (data / "runs" / "b").rename(data / "runs" / "a-longer-name")
    lines = clean(data, "--older-than", "10d").splitlines()
    assert lines[0].split() == [
        "a-longer-name",
        "ended",
        "20",
        "d",
        "ago",
        "1.0",
        "KiB",
        "selected",
    ]
    assert lines[1].index("selected") == lines[0].index("selected")
    assert lines[2] == "2 of 3 ended runs, 2.0 KiB"
