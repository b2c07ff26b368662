"""The platform of one machine, without cgroups."""

import os
from dataclasses import replace
from threading import Event
from time import monotonic

import pytest
from patience import wait_for

from headway.backend.clock import Clock
from headway.backend.cpu_partition import Cut
from headway.backend.job_store import JobStore
from headway.backend.local.enforcement.nice import Nice
from headway.backend.local.platform import LocalPlatform
from headway.controller.commands import Assignment, Persist, Remove, RequestCheckpoint, Start
from headway.controller.events import CommandFailed, Persisted, Removed, ReplicaExited
from headway.controller.job_state import JobState
from headway.core.model.job import JobSpec, Phase
from headway.core.model.units import ReplicaId
from headway.spec.runnable import Command, RunnableJob
from making import node

COMMAND = Persist("x", 3, JobState(phase=Phase.RUNNING))
WAITS = Command(argv=("sh", "-c", 'until [ -e "$HEADWAY_DIR/enough" ]; do sleep 0.02; done'))
JOB = RunnableJob(id="x", at=0.0, spec=JobSpec(), commands={"main": WAITS})
X = ReplicaId("x/main-0")


@pytest.fixture
def platform(tmp_path):
    made = LocalPlatform(tmp_path, [Cut(node("a", cpu=1.0))], {"x": JOB}, Nice(), Clock())
    yield made
    made.close()


def test_a_disk_that_blocks_does_not_block_the_loop(platform, tmp_path, monkeypatch):
    go_on, fsync = Event(), os.fsync

    def slow(file):
        assert go_on.wait(10)
        fsync(file)

    monkeypatch.setattr(os, "fsync", slow)
    began = monotonic()
    assert platform.execute(COMMAND) == []
    assert monotonic() - began < 1.0, "it waits for the disk"
    assert platform.poll(0.0) == []
    go_on.set()
    assert platform.poll(10.0) == [Persisted("x", 3)]
    assert JobStore(tmp_path).load(["x"]) == {"x": COMMAND.state}


def test_a_state_that_cannot_be_stored_is_reported(platform, tmp_path):
    (tmp_path / "jobs").write_text("in the way")
    assert platform.execute(COMMAND) == []
    (failed,) = platform.poll(10.0)
    assert isinstance(failed, CommandFailed)
    assert failed.reason == "state of job x was not stored: File exists"


def test_a_command_that_is_too_long_for_the_kernel_is_not_retried(tmp_path):
    long = replace(JOB, commands={"main": Command(argv=("echo", "x" * 3_000_000))})
    platform = LocalPlatform(tmp_path, [Cut(node("a", cpu=1.0))], {"x": long}, Nice(), Clock())
    (failed,) = platform.execute(Start("x", (Assignment(X, 1, "a", 0),), (X,)))
    platform.close()
    assert "too long" in failed.reason
    assert (failed.permanent, failed.disrupted) == (True, False)


def test_a_checkpoint_that_was_requested_is_not_looked_for_after_the_exit(platform, tmp_path):
    platform.execute(Start("x", (Assignment(X, 1, "a", 0),), (X,)))
    platform.execute(RequestCheckpoint(X, 1, ask=True))
    folder = tmp_path / "jobs" / "x" / "main-0"
    assert (folder / "ask").exists()
    assert exit_of(platform, folder).code == 0
    assert platform.checkpoints.timeout(10.0) == 10.0
    assert not (folder / "ask").exists()


def test_what_a_replica_has_used_is_known_after_its_exit_until_it_is_removed(platform, tmp_path):
    platform.execute(Start("x", (Assignment(X, 1, "a", 0),), (X,)))
    while not platform.read(X, None).memory:
        platform.poll(0.02)
    exit_of(platform, tmp_path / "jobs" / "x" / "main-0")
    used = platform.read(X, None)
    assert used.memory > 0
    assert platform.read(X, None) == used
    while platform.execute(Remove(X, 1)) != [Removed(X, 1)]:
        platform.poll(0.02)
    assert platform.read(X, None) is None


def exit_of(platform, folder):
    """Let the process exit."""
    (folder / "enough").touch()
    exits = wait_for(lambda: [e for e in platform.poll(1.0) if isinstance(e, ReplicaExited)])
    return exits[0]


def test_the_attempts_of_a_job_are_those_that_were_claimed(tmp_path):
    run = tmp_path / "runs" / "1"
    records = run / "records" / "x"
    for name in ("worker-1/claim.12", "worker-0/claim.2", "worker-0/free.3", "worker-0/claim.a"):
        (records / name).parent.mkdir(parents=True, exist_ok=True)
        (records / name).touch()
    (records / "note").touch()
    assert JobStore(run).attempts("x") == [("x/worker-0", 2), ("x/worker-1", 12)]
    assert JobStore(run).attempts("unknown") == []
