"""Engines that stop, containers that disappear, and a Headway that dies, with a fake engine."""

import signal
import threading
from dataclasses import replace

import pytest
from containers import DockerHands
from patience import wait_for

from fake_engine import FakeEngine
from headway.backend.docker import operations, stats
from headway.backend.docker.client import Client
from headway.core.model.decision import Place, Refused, SetShare, Started
from headway.core.model.job import Phase
from headway.core.model.units import ReplicaId, Resources
from headway.errors import BackendError, Unreachable


@pytest.fixture
def engine(tmp_path):
    made = FakeEngine(tmp_path / "engine")
    yield made
    made.close()


@pytest.fixture
def platform(tmp_path, engine):
    other = FakeEngine(tmp_path / "other")
    made = DockerHands(tmp_path, (engine, other))
    yield made
    made.close()
    other.close()


def start(platform, name="x"):
    platform.submit(name)
    assert isinstance(place(platform, name), Started)
    platform.settle()
    return platform.record(name)


def place(platform, name, node="a"):
    return platform.backend.act(Place(job=name, where=((ReplicaId.of(name, "worker", 0), node),)))


def is_up(platform):
    return platform.backend.controller.nodes["a"].up


def lose(platform, engine):
    engine.away()
    platform.until(lambda: not is_up(platform))


def test_an_engine_that_goes_away_and_comes_back_is_waited_for(platform, engine):
    job = start(platform)
    lose(platform, engine)
    share = SetShare(replica=ReplicaId("x/worker-0"), limit=0.5)
    assert isinstance(platform.backend.act(share), Refused)
    platform.submit("y")
    assert "does not answer" in place(platform, "y").why
    engine.go()
    platform.until(lambda: is_up(platform))
    platform.settle()
    assert (job.phase, job.failures, len(engine.made)) == (Phase.RUNNING, 0, 1)


def test_a_container_that_went_down_with_its_engine_is_not_counted_as_failed(platform, engine):
    job = start(platform)
    lose(platform, engine)
    engine.made[0].kill(signal.SIGKILL)
    wait_for(lambda: engine.made[0].state == "exited")
    engine.go()
    platform.until(lambda: job.phase is Phase.PENDING)
    assert job.failures == 0
    assert job.reason == "the engine of node a stopped, and its containers with it"


def test_a_container_that_finished_while_its_engine_was_away_has_succeeded(platform, engine):
    job = start(platform)
    lose(platform, engine)
    (platform.container("x/worker-0").folder / "enough").touch()
    wait_for(lambda: engine.made[0].state == "exited")
    engine.go()
    platform.until(lambda: job.finished_at is not None)
    assert job.phase is Phase.SUCCEEDED


def test_a_removed_container_is_reported(platform, engine):
    job = start(platform)
    engine.tell("die", engine.made[0], exitCode="137")
    engine.containers.clear()
    engine.made[0].kill(signal.SIGKILL)
    platform.until(lambda: job.finished_at is not None)
    assert (job.phase, job.reason) == (Phase.FAILED, "container was removed")


def test_a_share_that_the_engine_refuses_is_reported_and_not_assumed(platform, monkeypatch):
    start(platform)

    def declines(*_):
        raise BackendError("No such container: x")

    monkeypatch.setattr("headway.backend.docker.operations.set_share", declines)
    outcome = platform.backend.act(SetShare(replica=ReplicaId("x/worker-0"), limit=0.5))
    assert isinstance(outcome, Started)
    r = platform.backend.controller.records.replica(ReplicaId("x/worker-0"))
    platform.until(lambda: (r.limit, r.weight) == (None, 1.0))
    assert "No such container" in platform.backend.controller.outbox.notices["x/worker-0"]


def test_usage_comes_from_the_engine_where_there_is_no_cgroup_here(platform):
    start(platform)
    assert isinstance(platform.container("x/worker-0").gauge, stats.ByEngine)
    name = ReplicaId("x/worker-0")
    platform.until(lambda: platform.platform.read(name, None).memory == 2**20)


def test_after_a_crash_ended_and_running_containers_are_found(platform, engine):
    start(platform, "ends")
    start(platform, "runs")
    platform.platform.close()
    (platform.container("ends/worker-0").folder / "enough").touch()
    wait_for(lambda: engine.made[0].state == "exited")
    platform.crash()
    platform.until(lambda: platform.record("ends").finished_at is not None)
    assert platform.phase("ends") is Phase.SUCCEEDED
    assert platform.phase("runs") is Phase.RUNNING
    platform.settle()
    assert len(engine.made) == 2
    platform.until(lambda: len(engine.containers) == 1)


def test_a_share_is_read_back_after_a_crash(platform):
    start(platform)
    share = SetShare(replica=ReplicaId("x/worker-0"), limit=0.5, weight=2.0)
    platform.backend.act(share)
    platform.settle()
    platform.crash()
    r = platform.backend.controller.records.replica(ReplicaId("x/worker-0"))
    assert (r.limit, r.weight) == (0.5, 2.0)


def test_a_container_that_was_created_and_not_started_is_started_after_a_crash(
    platform, engine, monkeypatch
):
    post, crash = Client.post, threading.Event()

    def dies(self, path, *words, **more):
        if path.endswith("/start"):
            crash.wait(10)
            raise Unreachable("crashed")
        return post(self, path, *words, **more)

    monkeypatch.setattr(Client, "post", dies)
    platform.submit("x")
    place(platform, "x")
    platform.until(lambda: engine.made)
    crash.set()
    platform.platform.close()
    monkeypatch.setattr(Client, "post", post)
    platform.crash()
    platform.settle()
    assert (platform.phase("x"), len(engine.made)) == (Phase.RUNNING, 1)
    assert platform.record("x").attempt == 1


def test_an_attempt_that_exited_before_a_crash_is_not_started_again(platform, engine, monkeypatch):
    """The crash came after the start and before that was known."""
    launch, crash = operations.launch, threading.Event()

    def crashes(c, body):
        launch(c, body)
        crash.wait(10)
        raise Unreachable("crashed")

    monkeypatch.setattr(operations, "launch", crashes)
    platform.submit("x")
    place(platform, "x")
    platform.until(lambda: engine.made and engine.made[0].state == "running")
    crash.set()
    platform.platform.close()
    engine.made[0].kill(signal.SIGKILL)
    wait_for(lambda: engine.made[0].state == "exited")
    monkeypatch.undo()
    platform.crash()
    platform.until(lambda: platform.record("x").finished_at is not None)
    assert (platform.phase("x"), len(engine.made)) == (Phase.FAILED, 1)


def test_an_orphan_is_removed_after_a_crash(platform, engine):
    labels = {"run": platform.folder.name, "job": "x", "replica": "x/worker-0"}
    labels |= {"attempt": "7", "node": "a"}
    made = {"Labels": {f"headway.dev/{k}": v for k, v in labels.items()}, "HostConfig": {}}
    engine.create("half", {**made, "Image": "any"})
    platform.crash()
    platform.until(lambda: engine.containers == {})


def test_a_forced_cancel_abandons_an_engine_that_is_away(platform, engine):
    job = start(platform)
    lose(platform, engine)
    platform.backend.cancel("interrupted")
    platform.backend.wait(0.02)
    assert job.finished_at is None
    platform.backend.cancel("interrupted", force=True)
    platform.until(lambda: job.phase is Phase.CANCELLED)
    assert "may still run there" in job.reason
    engine.go()
    platform.until(lambda: is_up(platform))


def test_memory_of_an_ended_container_is_given_to_others(platform, engine):
    platform.submit("big")
    task = platform.jobs["big"].spec.tasks[0]
    spec = replace(
        platform.jobs["big"].spec, tasks=(replace(task, request=Resources(memory=2.0**32)),)
    )
    platform.jobs["big"] = replace(platform.jobs["big"], spec=spec)
    place(platform, "big")
    platform.settle()
    start(platform, "small")
    assert platform.container("small/worker-0").memory_limit == 2**32
    platform.end("big")
    platform.until(lambda: engine.made[1].host["Memory"] == 2**33)
    assert engine.made[1].host["MemorySwap"] == 2**33


def test_a_start_that_is_not_answered_is_not_counted_as_failed(platform, engine, monkeypatch):
    platform.submit("x")
    platform.until(lambda: engine.listening)
    for _ in range(10):
        platform.backend.wait(0.02)
    client, post = platform.platform.engines["a"].client, Client.post

    def silent(self, path, *words, **more):
        if self is client and path.endswith("create"):
            monkeypatch.setattr(Client, "post", post)
            raise Unreachable("not now")
        return post(self, path, *words, **more)

    monkeypatch.setattr(Client, "post", silent)
    place(platform, "x")
    job = platform.record("x")
    platform.until(lambda: job.phase is Phase.PENDING)
    assert (job.failures, engine.made) == (0, [])


def test_a_log_whose_connection_was_cut_is_followed_again(platform):
    start(platform)
    c = platform.container("x/worker-0")
    before = c.log
    before.close()
    platform.until(lambda: c.log is not before and not c.log.over.is_set())
    c.log.error = "no such driver"
    c.log.close()
    notices = platform.backend.controller.outbox.notices
    platform.until(lambda: "log cannot be read" in notices.get("x/worker-0", ""))


def test_the_exit_of_a_container_whose_event_was_missed_is_found_by_its_stop(platform, engine):
    job = start(platform)
    engine.listening.clear()
    engine.made[0].kill(signal.SIGKILL)
    wait_for(lambda: engine.made[0].state == "exited")
    platform.backend.cancel("interrupted")
    platform.until(lambda: job.finished_at is not None)
    assert job.phase is Phase.CANCELLED


@pytest.mark.parametrize("rebooted", [True, False])
def test_a_reboot_is_not_a_failure_of_the_container_that_it_killed(platform, rebooted):
    """`long_job` may not fail once."""
    start(platform)
    name = platform.container(ReplicaId("x/worker-0")).name
    client = platform.container(ReplicaId("x/worker-0")).engine.client
    platform.platform.close()
    client.post(f"/containers/{name}/kill", signal="SIGKILL")
    wait_for(lambda: client.get(f"/containers/{name}/json")["State"]["Status"] != "running")
    if rebooted:
        (platform.folder / "boot").write_text("another boot")
    platform.crash()
    assert platform.record("x").failures == (0 if rebooted else 1)
    assert platform.record("x").reason.startswith("the engine of node a stopped") is rebooted
