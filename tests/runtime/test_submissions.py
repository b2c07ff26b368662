"""Submissions: stored when `add` returns, with unique ids, whatever happens to the client."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest

from headway.errors import BackendError, ConfigError
from headway.runtime.owner import Owner
from headway.runtime.submissions import (
    FILE,
    OWNERS,
    SCHEMA,
    VERSION,
    End,
    Submission,
    Submissions,
    wake_file,
)

ADDS = """
import sys, time
from pathlib import Path
from headway.runtime.submissions import Submission, Submissions
store = Submissions(Path(sys.argv[1]))
while True:
    [name] = store.add([Submission(entry={"name": "x"}, directory="/")])
    print(name, flush=True)
    time.sleep(0.002)
"""


OWNER = Owner(1234, 1235, "ann")


def named(name):
    return Submission(entry={"name": name}, directory="/d", env={"A": "b"})


def test_a_job_keeps_its_name_and_the_next_of_that_name_gets_a_number(tmp_path):
    store = Submissions(tmp_path)
    assert store.add([named("x"), named("x"), named("y")]) == ["x", "x-2", "y"]
    assert store.add([named("x-3"), named("x")]) == ["x-3", "x-4"]
    [job, *_] = store.after(0)
    assert (job.id, job.entry, job.directory, job.env) == ("x", {"name": "x"}, "/d", {"A": "b"})
    assert [job.id for job in store.after(3)] == ["x-3", "x-4"]


def test_a_long_name_is_shortened_for_its_number(tmp_path):
    store, name = Submissions(tmp_path), "n" * 63
    assert store.add([named(name)] * 2) == [name, "n" * 61 + "-2"]


def test_a_submission_with_a_known_key_adds_nothing(tmp_path):
    store = Submissions(tmp_path)
    assert store.add([named("x"), named("y")], key="k") == ["x", "y"]
    assert store.add([named("x"), named("y")], key="k") == ["x", "y"]
    assert len(store.after(0)) == 2


def test_an_ended_job_is_listed_with_its_outcome_and_is_not_started_again(tmp_path):
    store = Submissions(tmp_path)
    store.add([named("x"), named("y")])
    store.finish("x", End(outcome="failed", reason="because", started=1.0, finished=2.0, steps=3.0))
    assert [job.id for job in store.unfinished()] == ["y"]
    [ended] = store.last(10)
    assert (ended.id, ended.outcome, ended.reason, ended.finished) == (
        "x",
        "failed",
        "because",
        2.0,
    )
    assert store.find("x") == ended
    assert store.find("z") is None


def test_nothing_of_a_failed_submission_is_stored(tmp_path):
    store = Submissions(tmp_path)
    with pytest.raises(KeyError):
        store.add([named("x"), Submission(entry={}, directory="/")])
    assert store.after(0) == []


def test_answers_that_killed_clients_received_are_stored_and_ids_are_unique(tmp_path):
    Submissions(tmp_path).close()
    command = [sys.executable, "-c", ADDS, str(tmp_path)]
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    told = []
    for client in clients:
        told += [client.stdout.readline().strip() for _ in range(20)]
        client.send_signal(signal.SIGKILL)
        rest = client.communicate()[0]
        told += [line for line in rest.split("\n")[:-1] if line]
    stored = [job.id for job in Submissions(tmp_path).after(0)]
    assert set(told) <= set(stored)
    assert len(set(told)) == len(told) >= 60


def test_only_its_user_can_read_it(tmp_path):
    store = Submissions(tmp_path)
    store.add([named("x")])
    modes = {path.name: path.stat().st_mode & 0o77 for path in tmp_path.iterdir()}
    assert FILE in modes
    assert set(modes.values()) == {0}


def test_a_file_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path):
    database = sqlite3.connect(tmp_path / FILE)
    database.execute(f"PRAGMA user_version={VERSION + 1}")
    database.close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(ConfigError, match=f"version {VERSION + 1}"):
        Submissions(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_a_file_of_version_1_is_read_and_its_jobs_have_no_owner(tmp_path):
    database = sqlite3.connect(tmp_path / FILE)
    columns = [change.partition("COLUMN ")[2] for change in OWNERS]
    first = SCHEMA
    for column in columns:
        first = first.replace(f",\n    {column}", "")
    assert "uid" not in first
    database.executescript(first)
    database.execute(
        "INSERT INTO jobs (id, entry, directory, env, submitted) VALUES ('x', '{}', '/', '{}', 0)"
    )
    database.execute("PRAGMA user_version=1")
    database.commit()
    database.close()
    store = Submissions(tmp_path)
    Submissions(tmp_path).add([Submission(entry={"name": "y"}, directory="/", owner=OWNER)])
    assert [job.owner for job in store.after(0)] == [None, OWNER]
    kept = tmp_path / f"{FILE}.v1"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.glob("*.part")) == []
    before = sqlite3.connect(kept)
    assert before.execute("PRAGMA user_version").fetchone() == (1,)
    assert before.execute("SELECT id FROM jobs").fetchall() == [("x",)]
    before.close()


def test_a_file_that_cannot_be_backed_up_is_left_as_it_is(tmp_path):
    database = sqlite3.connect(tmp_path / FILE)
    database.execute("PRAGMA user_version=1")
    database.close()
    (tmp_path / f"{FILE}.v1.{os.getpid()}.part").write_bytes(b"x" * 5000)  # no room for it
    with pytest.raises(BackendError):
        Submissions(tmp_path)
    database = sqlite3.connect(tmp_path / FILE)
    assert database.execute("PRAGMA user_version").fetchone() == (1,)
    database.close()


def test_a_file_that_is_no_database_is_named_in_the_message(tmp_path):
    (tmp_path / FILE).write_bytes(b"x" * 5000)
    with pytest.raises(BackendError, match="not a database") as found:
        Submissions(tmp_path)
    assert found.value.where == str(tmp_path / FILE)


def test_a_server_is_woken_and_a_client_without_one_does_not_wait(tmp_path):
    store = Submissions(tmp_path)
    store.wake()
    wake = wake_file(tmp_path)
    store.wake()
    assert os.read(wake, 10) == b"."
    os.close(wake)
    store.wake()


def test_what_is_stored_in_a_removed_folder_is_not_acknowledged(tmp_path):
    """SQLite does not notice: it writes on to a file without a name."""
    (tmp_path / "run").mkdir()
    store = Submissions(tmp_path / "run")
    store.add([named("x")])
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(BackendError, match="was removed"):
        store.add([named("x")])
    with pytest.raises(BackendError, match="was removed"):
        store.add_all([([named("x")], None)])


def test_two_connections_of_one_process_share_what_another_process_reads(tmp_path):
    """SQLite's locks belong to a process: to close any descriptor of the file removes them, and
    the next process that leaves would delete the log of writes that others still use.
    """
    first = Submissions(tmp_path)
    second = Submissions(tmp_path)
    reads = "import sys, pathlib; from headway.runtime.submissions import Submissions;"
    reads += "store = Submissions(pathlib.Path(sys.argv[1])); print(len(store.after(0)))"
    read = [sys.executable, "-c", reads + "; store.close()", str(tmp_path)]
    seen = []
    for store in (first, second, first):
        store.add([named("x")])
        seen.append(int(subprocess.run(read, capture_output=True, check=True).stdout))
    assert seen == [1, 2, 3]
    assert len(first.after(0)) == len(second.after(0)) == 3


def test_several_submissions_are_stored_at_once_and_those_with_a_known_key_add_nothing(tmp_path):
    store = Submissions(tmp_path)
    pairs = [([named("x")], "k"), ([named("x"), named("y")], None), ([named("z")], "k")]
    assert store.add_all(pairs) == [(["x"], True), (["x-2", "y"], True), (["x"], False)]
    store.finish("y", End(outcome="failed", finished=1.0))
    assert [job.id for job in store.page(0, 2, [None, "failed"])] == ["x", "x-2"]
    assert [job.id for job in store.page(0, 9, ["failed"])] == ["y"]
    assert [job.id for job in store.page(1, 9, [None])] == ["x-2"]


def test_the_id_of_a_removed_job_is_not_given_again(tmp_path):
    """The journal still has the decisions about it."""
    store = Submissions(tmp_path)
    assert store.add([named("train")]) == ["train"]
    store.finish("train", End(outcome="succeeded"))
    store.forget("train")
    assert store.add([named("train")]) == ["train-2"]
    store.finish("train-2", End(outcome="failed"))
    store.forget("train-2")
    store.forget("train-2")
    assert store.add([named("train"), named("train-2")]) == ["train-3", "train-2-2"]
    store.close()


def test_a_file_of_an_earlier_version_gets_what_it_lacks(tmp_path):
    store = Submissions(tmp_path)
    store.add([named("train")])
    store._db.execute("DROP TABLE former")
    store.close()
    store = Submissions(tmp_path)
    store.finish("train", End(outcome="succeeded"))
    store.forget("train")
    assert store.add([named("train")]) == ["train-2"]
    store.close()
