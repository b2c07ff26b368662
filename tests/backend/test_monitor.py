"""Reports of a replica belong to the attempt that wrote them."""

import pytest

from headway.backend.live import LiveBackend
from headway.backend.memory import MemoryPlatform
from headway.backend.monitor import Monitor
from headway.backend.usage import UsageSample
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


class Busy(MemoryPlatform):
    """Its replicas have used `cpu` core-seconds each."""

    cpu = 0.0
    network_io = None
    idle = None

    def read(self, replica, before):
        del replica, before
        return UsageSample(cpu=self.cpu, network_io=self.network_io, idle=self.idle)


def watched(tmp_path, *, attempt=1, resumed=False):
    platform = Busy.of([node("a", cpu=1.0)])
    job = RunnableJob(id="x", at=0.0, spec=JobSpec(), commands={})
    monitor = Monitor(platform, tmp_path, {"x": job})
    monitor.open(X, attempt, NodeId("a"), 10.0, resumed=resumed)
    return platform, monitor, monitor.replicas[X]


def test_the_first_report_of_a_process_is_marked_since_it_includes_its_start(tmp_path):
    for about in ({}, {"attempt": 2}, {"resumed": True}):
        _, monitor, w = watched(tmp_path, **about)
        assert monitor.report(w, 11.0, "").restarted
        assert not monitor.report(w, 12.0, "").restarted


def test_network_traffic_is_reported_where_it_is_counted(tmp_path):
    platform, monitor, w = watched(tmp_path)
    assert monitor.report(w, 11.0, "").usage.network_io is None
    platform.network_io = 100
    assert monitor.report(w, 12.0, "").usage.network_io is None, "since when is unknown"
    platform.network_io = 150
    assert monitor.report(w, 14.0, "").usage.network_io == 25.0


def test_the_idle_cores_of_the_machine_are_reported_where_they_are_measured(tmp_path):
    platform, monitor, w = watched(tmp_path)
    platform.idle = 100.0
    monitor.report(w, 11.0, "")
    platform.idle = 103.0
    assert monitor.report(w, 13.0, "").usage.idle == 1.5


def test_work_done_while_no_headway_ran_is_reported_after_a_resume(tmp_path):
    platform, monitor, w = watched(tmp_path, resumed=True)
    platform.cpu, platform.idle = 9.0, 100.0
    monitor.measure(w)
    monitor.continue_reports({X: (4.0, 3.0), "gone/main-0": (4.0, 3.0)})
    found = monitor.report(w, 12.0, "")
    assert (found.since, found.usage.cpu * (12.0 - 4.0)) == (4.0, pytest.approx(6.0))
    assert found.usage.idle is None, "it was not measured meanwhile"
    assert not found.restarted


def test_reports_of_an_earlier_attempt_are_not_continued(tmp_path):
    _, monitor, w = watched(tmp_path, resumed=True)
    monitor.continue_reports({X: (4.0, 3.0)})
    found = monitor.report(w, 12.0, "")
    assert (found.since, found.restarted) == (10.0, True)
