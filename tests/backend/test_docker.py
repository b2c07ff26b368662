"""`headway run --backend docker` and `adopt`, against an engine of processes; what is said when
there is none.
"""

import json
import os
import signal
import threading
from dataclasses import replace
from time import monotonic, sleep

import pytest
import yaml
from containers import IMAGE, DockerPlatform
from typer.testing import CliRunner

from fake_engine import FakeEngine
from headway.backend.clock import Clock
from headway.backend.docker import adopt, operations, stats
from headway.backend.docker.client import Client
from headway.backend.docker.discovery import spots
from headway.backend.docker.engine import Engine
from headway.backend.docker.platform import DockerBackend
from headway.cli import app
from headway.core.model.decision import Failed, Move, Place, Refused, SetShare, Started
from headway.core.model.job import Phase
from headway.core.model.units import ReplicaId, Resources
from headway.errors import BackendError, ConfigError, Declined, Denied, Unreachable
from headway.spec.load import read_workload

PRINTS = """
import time
for i in range(1, 11):
    print(f"step {i}/10 loss {1 / i}", flush=True)
    time.sleep(0.03)
"""


PATIENT = """
import os, sys, time
step = 0
while not os.path.exists(sys.argv[1]):
    step += 1
    print(f"step {step} loss {1 / step}", flush=True)
    time.sleep(0.02)
"""


@pytest.fixture
def engine(tmp_path, monkeypatch):
    made = FakeEngine(tmp_path / "engine")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DOCKER_HOST", made.url)
    yield made
    made.close()


def write(tmp_path, *jobs, **more):
    path = tmp_path / "w.yaml"
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    path.write_text(yaml.safe_dump({**head, **more, "jobs": list(jobs)}))
    return path


def job(name, text=PRINTS, **more):
    task = {"command": ["python3", "-c", text], **more}
    return {"name": name, "spec": {"tasks": [task], "backoffLimit": 0}}


def call(*words, code=0):
    done = CliRunner().invoke(app, [str(w) for w in words])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def run(path, *words, code=0):
    return call("run", path, "--backend", "docker", "--image", IMAGE, *words, code=code)


def test_a_run_of_containers_ends_in_a_result_a_story_and_a_journal(tmp_path, engine):
    jobs = [job("x"), {"name": "m", "model": "gru", "profile": {"work": 0.1, "steps": 5}}]
    (found,) = json.loads(run(write(tmp_path, *jobs), "--json").stdout)
    assert found["backend"] == "docker"
    assert [(j["outcome"], j["steps"]) for j in found["per_job"]] == [
        ("succeeded", 10),
        ("succeeded", 5),
    ]
    assert engine.containers == {}
    assert engine.made[0].made["Labels"]["headway.dev/job"] == "x"
    assert engine.made[0].host["Init"] is True
    assert "placed on docker" in call("explain", "x").stdout
    assert "no difference" in call("replay", tmp_path / "data" / "runs" / "latest").stdout


def test_a_command_that_fails_says_why(tmp_path, engine):
    del engine
    jobs = [job("bad", "raise SystemExit('no data')"), job("good")]
    jobs.append({"name": "none", "spec": {"tasks": [{"command": ["no-such-thing"]}]}})
    (found,) = json.loads(run(write(tmp_path, *jobs), "--json", code=1).stdout)
    assert "exit code 1: no data" in found["reasons"]["bad"]
    assert "could not be started" in found["reasons"]["none"]
    assert [j["outcome"] for j in found["per_job"]] == ["failed", "succeeded", "failed"]


def theirs(tmp_path, label, value):
    """A container that somebody else runs until `enough` is there."""
    command = ["python3", "-u", "-c", PATIENT, str(tmp_path / "enough")]
    return {"Cmd": command, "HostConfig": {}, "Image": "any", "Labels": {label: value}}


def when_heard(engine, then):
    """Once Headway listens to the engine."""

    def wait():
        until(lambda: engine.listening)
        sleep(0.2)
        then()

    threading.Thread(target=wait, daemon=True).start()


def test_containers_are_adopted_by_name_and_by_label(tmp_path, engine):
    made = theirs(tmp_path, "headway.dev/job", "twice")
    for i in range(2):
        engine.create(f"Mine_{i}", made).start()
    when_heard(engine, (tmp_path / "enough").touch)
    (found,) = json.loads(call("adopt", "--label", "headway.dev/job", "--json").stdout)
    assert [j["name"] for j in found["per_job"]] == ["twice", "mine-1"]
    assert [j["outcome"] for j in found["per_job"]] == ["succeeded"] * 2
    assert len(engine.containers) == 2, "who was adopted is not removed"
    (tmp_path / "enough").unlink()
    engine.listening.clear()
    engine.create("named", made).start()
    when_heard(engine, (tmp_path / "enough").touch)
    (found,) = json.loads(call("adopt", "named", "--json").stdout)
    assert [(j["name"], j["outcome"]) for j in found["per_job"]] == [("twice", "succeeded")]


def test_what_somebody_else_started_is_never_stopped_or_removed(engine, monkeypatch):
    """Whatever goes wrong: here the engine cannot say what it has."""
    made = {"Cmd": ["python3", "-c", "import time; time.sleep(60)"], "HostConfig": {}}
    mine = engine.create("mine", {**made, "Image": "any"})
    mine.start()
    found, jobs = Engine("a", Client(engine.url)), []
    jobs += adopt.by_name([found], ["mine"])
    inspect, asked = operations.inspect, []

    def broken(m):
        asked.append(m)
        raise Declined("no", status=500)

    monkeypatch.setattr(operations, "inspect", broken)
    backend = DockerBackend(engine.folder / "run", [found], jobs, Clock())
    until(lambda: backend.wait(0.01) or backend.over)
    assert asked
    monkeypatch.setattr(operations, "inspect", inspect)
    m = asked[0]
    operations.kill(m, "SIGKILL")
    operations.remove(m)
    backend.close()
    assert (mine.state, engine.containers) == ("running", {mine.id: mine})


def test_a_container_that_comes_later_with_the_label_is_adopted_too(tmp_path, engine):
    made = theirs(tmp_path, "team", "a")
    engine.create("first", made).start()

    def later():
        engine.create("later", made).start()
        sleep(0.5)
        (tmp_path / "enough").touch()

    when_heard(engine, later)
    (found,) = json.loads(call("adopt", "--label", "team=a", "--json").stdout)
    assert [j["name"] for j in found["per_job"]] == ["first", "later"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["adopt"], "either processes or containers"),
        (["adopt", "7", "x"], "cannot adopt both processes and containers"),
        (["adopt", "ghost"], "no container is called 'ghost'"),
        (["adopt", "--label", "nobody"], "no running container has the label"),
        (["adopt", "made"], "is not running"),
        (["adopt", "made", "--engine", "ssh://host"], "no address of a Docker engine"),
        (["adopt", "made", "--engine", "=x"], "names no engine"),
    ],
)
def test_bad_input_to_adopt_is_said(engine, words, said):
    engine.create("made", {"HostConfig": {}, "Image": "any"})
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, ConfigError)
    assert said in done.exception.message


def test_bad_input_to_run_is_said(tmp_path, engine):
    del engine
    path = write(tmp_path, job("x", image="no/such:1"))
    for words, said in [
        ((), "has no image 'no/such:1'"),
        (("--nodes", "2"), "--nodes needs --backend local"),
    ]:
        done = CliRunner().invoke(app, ["run", str(path), "--backend", "docker", *words])
        assert said in done.exception.message
    done = CliRunner().invoke(app, ["run", str(path), "--engine", "a=unix:///x"])
    assert "--engine needs --backend docker" in done.exception.message
    done = CliRunner().invoke(app, ["run", str(write(tmp_path, job("x"))), "--backend", "docker"])
    assert "docker build -f deploy/docker/workloads.Dockerfile" in done.exception.hint


def test_no_engine_is_said(tmp_path):
    with pytest.raises(Unreachable, match="no Docker engine answers at unix") as error:
        Client(f"unix://{tmp_path}/none.sock").hello()
    assert "DOCKER_HOST" in error.value.hint
    with pytest.raises(Unreachable, match="no Docker engine answers at tcp"):
        Client("tcp://127.0.0.1:9").hello()


def test_an_engine_that_is_not_ours_to_use_is_said(engine):
    """A socket without rights stops everybody but root: so for a moment we are somebody else."""
    engine.path.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with pytest.raises(Denied, match="is not yours to use") as error:
            Client(engine.url).hello()
    finally:
        if root:
            os.seteuid(0)
    assert "usermod -aG docker" in error.value.hint
    assert error.value.exit_code == 3


def test_an_engine_that_is_too_old_is_said(tmp_path):
    old = FakeEngine(tmp_path / "old", version="1.40")
    with pytest.raises(BackendError, match=r"too old: it speaks API 1\.40") as error:
        Client(old.url).hello()
    assert "1.41" in error.value.hint
    old.close()


def test_what_is_no_engine_is_said(tmp_path):
    odd = FakeEngine(tmp_path / "odd", version="")
    with pytest.raises(Unreachable, match="no Docker engine"):
        Client(odd.url).hello()
    odd.close()


def test_certificates_that_are_not_there_are_said(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="certificates"):
        Client("tcp://127.0.0.1:9").hello()


# -- which engine is which node --------------------------------------------------------------------


def test_engines_are_nodes_by_name_or_by_the_workload(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///usual")
    plain = read_workload(write(tmp_path, job("x")))
    assert [(s.name, s.url) for s in spots((), plain)] == [("docker", "unix:///usual")]
    two = ("a=unix:///a", "unix:///b")
    assert [s.name for s in spots(two, plain)] == ["a", "docker-1"]
    nodes = [{"name": "a", "cpu": 1, "engine": "unix:///A"}, {"name": "b", "cpu": 1}]
    told = read_workload(write(tmp_path, job("x"), nodes=nodes))
    assert [s.url for s in spots((), told)] == ["unix:///A", "unix:///usual"]
    assert [s.url for s in spots(("b=unix:///B",), told)] == ["unix:///A", "unix:///B"]
    with pytest.raises(ConfigError, match="no engine is given for node 'b'"):
        spots(("a=unix:///a", "c=unix:///c"), told)


def test_nodes_of_one_engine_lie_side_by_side_on_its_cpus(tmp_path, engine):
    nodes = [{"name": "a", "cpu": 1}, {"name": "b", "cpu": 1}]
    run(write(tmp_path, job("x"), job("y"), nodes=nodes), "--policy", "fair")
    assert {c.host["CpusetCpus"] for c in engine.made} == {"0", "1"}


# -- what happens to engines and containers ------------------------------------------------------


@pytest.fixture
def platform(tmp_path, engine):
    other = FakeEngine(tmp_path / "other")
    made = DockerPlatform(tmp_path, (engine, other))
    yield made
    made.close()
    other.close()


def start(platform, name="x"):
    platform.submit(name)
    where = ((ReplicaId.of(name, "worker", 0), "a"),)
    assert isinstance(platform.backend.act(Place(job=name, where=where)), Started)
    platform.settle()
    return platform.backend.works[name]


def test_an_engine_that_goes_away_and_comes_back_is_waited_for(platform, engine):
    work = start(platform)
    engine.away()
    platform.until(lambda: not platform.backend.nodes["a"].up)
    for act in (SetShare(replica=ReplicaId("x/worker-0"), limit=0.5), Place(job="x", where=())):
        assert isinstance(platform.backend.act(act), Refused)
    platform.submit("y")
    outcome = platform.backend.act(Place(job="y", where=((ReplicaId("y/worker-0"), "a"),)))
    assert "does not answer" in outcome.why
    engine.go()
    platform.until(lambda: platform.backend.nodes["a"].up)
    platform.settle()
    assert (work.phase, work.tries, len(engine.made)) == (Phase.RUNNING, 0, 1)


def test_who_went_down_with_its_engine_is_put_back_through_no_fault_of_its_own(platform, engine):
    work = start(platform)
    engine.away()
    platform.until(lambda: not platform.backend.nodes["a"].up)
    engine.made[0].kill(signal.SIGKILL)
    until(lambda: engine.made[0].state == "exited")
    engine.go()
    platform.until(lambda: work.phase is Phase.PENDING)
    assert (work.tries, work.reason) == (0, "its engine stopped, and it with it")


def test_a_container_that_somebody_removes_is_said(platform, engine):
    work = start(platform)
    engine.tell("die", engine.made[0], exitCode="137")
    engine.containers.clear()
    engine.made[0].kill(signal.SIGKILL)
    platform.until(lambda: work.finished_at is not None)
    assert (work.phase, work.reason) == (Phase.FAILED, "somebody removed its container")


def test_a_share_that_the_engine_will_not_set_is_told_and_not_believed(platform, monkeypatch):
    start(platform)
    m = platform.backend.members["x/worker-0"]

    def declines(*_):
        raise BackendError("No such container: x")

    monkeypatch.setattr("headway.backend.docker.operations.set_share", declines)
    outcome = platform.backend.act(SetShare(replica=ReplicaId("x/worker-0"), limit=0.5))
    assert isinstance(outcome, Failed | Started), "at once, or as soon as the engine answers"
    platform.until(lambda: "No such container" in m.voice.heard.trouble)
    assert (m.limit, m.weight) == (None, 1.0)


def test_usage_is_asked_of_the_engine_where_no_group_is_ours(platform):
    start(platform)
    m = platform.backend.members["x/worker-0"]
    assert isinstance(m.gauge, stats.ByEngine)
    platform.until(lambda: m.measure().memory == 2**20)


def test_after_a_crash_what_ended_and_what_runs_is_found(platform, engine):
    start(platform, "ends")
    start(platform, "runs")
    before = platform.backend
    jobs = [w.job for w in before.works.values()]
    for each in before.engines.values():
        each.close()
    (before.members["ends/worker-0"].folder / "enough").touch()
    until(lambda: engine.made[0].state == "exited")
    platform.backend = platform.look(jobs)
    works = platform.backend.works
    assert works["ends"].phase is Phase.SUCCEEDED
    assert works["runs"].phase is Phase.RUNNING
    platform.settle()
    assert len(engine.made) == 2


def test_what_was_created_and_never_started_is_removed_after_a_crash(platform, engine):
    platform.submit("x")
    (platform.folder / "jobs" / "x" / "worker-0").mkdir(parents=True)
    (platform.folder / "jobs" / "x" / "worker-0" / "claim.1").write_text("a")
    labels = {"run": platform.folder.name, "job": "x", "replica": "x/worker-0", "epoch": "1"}
    made = {"Labels": {f"headway.dev/{k}": v for k, v in labels.items()}, "HostConfig": {}}
    engine.create("half", made)
    jobs = [w.job for w in platform.backend.works.values()]
    for each in platform.backend.engines.values():
        each.close()
    platform.backend = platform.look(jobs)
    assert engine.containers == {}
    platform.until(lambda: platform.backend.works["x"].phase is Phase.PENDING)


def test_who_is_told_twice_to_stop_leaves_an_engine_that_is_away(platform, engine):
    work = start(platform)
    engine.away()
    platform.until(lambda: not platform.backend.nodes["a"].up)
    move = Move(replica=ReplicaId("x/worker-0"), to="a")
    assert "does not answer" in platform.backend.act(move).why
    platform.backend.cancel("interrupted")
    platform.backend.wait(0.02)
    assert work.finished_at is None
    platform.backend.cancel("interrupted", now=True)
    platform.backend.wait(0.02)
    assert work.phase is Phase.CANCELLED
    assert "it may still run there" in work.reason


def test_memory_that_was_kept_for_one_that_has_gone_is_given_to_the_others(platform, engine):
    start(platform, "big")
    big = platform.backend.works["big"]
    task = replace(big.spec.tasks[0], request=Resources(memory=2.0**32))
    big.spec = replace(big.spec, tasks=(task,))
    start(platform, "small")
    small = platform.backend.members["small/worker-0"]
    assert small.most == 2**32
    platform.end("big")
    platform.until(lambda: engine.made[1].host["Memory"] == 2**33)
    assert engine.made[1].host["MemorySwap"] == 2**33


def test_an_engine_that_does_not_answer_once_is_asked_again(platform, engine, monkeypatch):
    platform.submit("x")
    platform.until(lambda: engine.listening)
    for _ in range(10):
        platform.backend.wait(0.02)  # it has said that it is up
    client, post = platform.backend.engines["a"].client, Client.post

    def silent(self, path, *words, **more):
        if self is client and path.endswith("create"):
            monkeypatch.setattr(Client, "post", post)
            raise Unreachable("not now")
        return post(self, path, *words, **more)

    monkeypatch.setattr(Client, "post", silent)
    work = platform.backend.works["x"]
    platform.backend.act(Place(job="x", where=((ReplicaId("x/worker-0"), "a"),)))
    platform.until(lambda: work.phase is Phase.PENDING)
    assert (work.tries, engine.made) == (0, [])


def test_a_log_whose_line_was_cut_is_followed_again(platform):
    start(platform)
    m = platform.backend.members["x/worker-0"]
    before = m.log
    before.close()
    platform.until(lambda: m.log is not before and not m.log.over.is_set())
    m.log.trouble = "no such driver"
    m.log.close()
    platform.until(lambda: "log cannot be read" in m.voice.heard.trouble)


def until(claim):
    end = monotonic() + 10
    while not claim():
        assert monotonic() < end, "it never came true"
        sleep(0.01)
