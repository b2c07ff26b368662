"""Reports of a replica belong to the attempt that wrote them."""

import pytest

from headway.backend.live import LiveBackend
from headway.backend.memory import MemoryPlatform
from headway.backend.monitor import Monitor
from headway.core.model.job import JobSpec, Phase
from headway.core.model.units import NodeId, ReplicaId
from headway.spec.runnable import RunnableJob
from making import node

X = ReplicaId("x/main-0")


@pytest.fixture
def log(tmp_path):
    there = tmp_path / "jobs" / "x" / "main-0" / "out.log"
    there.parent.mkdir(parents=True)
    there.write_text("step 7 loss 0.1\n")
    return there


def steps(log, *, expected):
    monitor = Monitor(MemoryPlatform.of([node("a", cpu=1.0)]), log.parents[3], {})
    if expected:
        monitor.expect(X, 2)
    with log.open("a") as file:
        file.write("step 8 loss 0.1\n")
    monitor.open(X, 2, NodeId("a"), 0.0, resumed=False)
    monitor.close(X, 2)
    return monitor.totals["x"].step


def test_what_a_replica_writes_before_it_is_reported_running_counts(log):
    assert steps(log, expected=True) == 8


def test_what_earlier_attempts_wrote_does_not_count(log):
    assert steps(log, expected=False) == 0


def test_what_a_replica_reported_before_it_ended_without_headway_counts(log):
    platform = MemoryPlatform.of([node("a", cpu=1.0)])
    platform.host("x", [(X, "a")])
    platform.exit(X)
    jobs = {"x": RunnableJob(id="x", at=0.0, spec=JobSpec(), commands={})}
    backend = LiveBackend(platform, log.parents[3], jobs, lambda: 0.0)
    assert backend.controller.jobs["x"].phase is Phase.SUCCEEDED
    assert backend.totals("x").step == 7
