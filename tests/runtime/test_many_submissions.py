"""A server that is given very many jobs at once goes on looking after those that run."""

import json
import os
import sys

import pytest

from headway.core.model.snapshot import Trigger
from headway.runtime import job_status, server
from headway.runtime.job_status import FAR, LISTED
from headway.runtime.run_status import run_status
from headway.runtime.server import SOME, start_server
from headway.runtime.status_board import StatusBoard
from headway.runtime.submissions import Submission, wake_file
from headway.runtime.usage_sampler import UsageSampler

MANY = LISTED + 2 * SOME + 50
SPEC = {"tasks": [{"command": [sys.executable, "-c", "pass"]}]}


@pytest.fixture
def busy(tmp_path, monkeypatch):
    """A server whose loop does not run, with very many jobs that are due in an hour."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    made = start_server(tmp_path / "data", "fair")
    entries = [{"name": f"job-{i}", "at": 3600, "spec": SPEC} for i in range(MANY)]
    made.submissions.add([Submission(entry=entry, directory="/") for entry in entries])
    yield made
    made.run.backend.close()
    made.run.journal.close()
    made.submissions.close()
    made.run.folder.unlock()


def test_jobs_are_taken_in_slices_and_none_is_left_out(busy, monkeypatch):
    monkeypatch.setattr(server, "SLICE", 0.0)
    jobs, wake = busy.run.backend.controller.jobs, wake_file(busy.run.folder.path)
    counts = []
    busy.submissions.wake()
    while len(jobs) < MANY:
        busy._woken(wake)  # by the slice before: otherwise there is nothing to read
        counts.append(len(jobs))
    os.close(wake)
    assert counts == [*range(SOME, MANY, SOME), MANY]
    assert list(jobs) == [f"job-{i}" for i in range(MANY)]


def test_the_jobs_far_behind_are_listed_from_the_database(busy):
    while busy.last < MANY:
        busy._take()
    run, meter = busy.run, UsageSampler(busy.run.backend, busy.run.folder.usage)
    run.loop.step(Trigger.TICK)
    StatusBoard(run).update(meter)
    assert len(json.loads((run.folder.path / job_status.FILE).read_text())) == LISTED
    found = {job.job: job for job in run_status(run.folder)}
    assert found.keys() == {f"job-{i}" for i in range(MANY)}
    assert found["job-0"].reason.startswith("is submitted at ")
    assert {job.phase for job in found.values()} == {"pending"}
    assert found[f"job-{MANY - 1}"].reason == FAR
