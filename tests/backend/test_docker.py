"""`headway run --backend docker` and `adopt`, against an engine of processes; what is said when
there is none.
"""

import json
import os
import threading
from time import sleep

import pytest
import yaml
from containers import IMAGE
from patience import wait_for
from typer.testing import CliRunner

from fake_engine import FakeEngine
from headway.backend.clock import Clock
from headway.backend.docker import adopt, operations
from headway.backend.docker.client import Client
from headway.backend.docker.discovery import engine_targets
from headway.backend.docker.engine import Engine
from headway.backend.docker.platform import DockerPlatform
from headway.backend.live import LiveBackend
from headway.cli import app
from headway.core.model.decision import SetShare
from headway.core.model.units import ReplicaId
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
    assert "place on docker" in call("explain", "x").stdout
    assert "no difference" in call("replay", tmp_path / "data" / "runs" / "latest").stdout


def test_a_command_that_fails_says_why(tmp_path, engine):
    del engine
    jobs = [job("bad", "raise SystemExit('no data')"), job("good")]
    jobs.append({"name": "none", "spec": {"tasks": [{"command": ["no-such-thing"]}]}})
    (found,) = json.loads(run(write(tmp_path, *jobs), "--json", code=1).stdout)
    assert "exited with code 1: no data" in found["reasons"]["bad"]
    assert "could not be started" in found["reasons"]["none"]
    assert [j["outcome"] for j in found["per_job"]] == ["failed", "succeeded", "failed"]


def theirs(tmp_path, label, value):
    """A container that somebody else runs until `enough` is there."""
    command = ["python3", "-u", "-c", PATIENT, str(tmp_path / "enough")]
    return {"Cmd": command, "HostConfig": {}, "Image": "any", "Labels": {label: value}}


def when_heard(engine, then):
    """Once Headway listens to the engine."""

    def wait():
        wait_for(lambda: engine.listening)
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


def adopted(engine, name, **host):
    """A platform that manages one adopted container."""
    made = {"Cmd": ["python3", "-c", "import time; time.sleep(60)"], "HostConfig": host}
    mine = engine.create(name, {**made, "Image": "any"})
    mine.start()
    found = Engine("a", Client(engine.url))
    jobs = {job.id: job for job in adopt.by_name([found], [name])}
    folder = engine.folder / "run"
    platform = DockerPlatform(folder, [found], jobs, clock := Clock())
    return mine, LiveBackend(platform, folder, jobs, clock)


def test_an_adopted_container_is_never_stopped_or_removed(engine, monkeypatch):
    """Whatever goes wrong: here the engine cannot describe its container."""
    inspect, asked = operations.inspect, []

    def broken(c):
        asked.append(c)
        raise Declined("no", status=500)

    monkeypatch.setattr(operations, "inspect", broken)
    mine, backend = adopted(engine, "mine")
    drive(backend, lambda: backend.over)
    assert asked
    monkeypatch.setattr(operations, "inspect", inspect)
    c = asked[0]
    operations.kill(c, "SIGKILL")
    operations.remove(c)
    backend.close()
    assert (mine.state, engine.containers) == ("running", {mine.id: mine})


def test_an_adopted_container_keeps_its_limits_and_gets_them_back(engine):
    mine, backend = adopted(engine, "mine", NanoCpus=5 * 10**8, CpuShares=2048)
    name = ReplicaId("mine/main-0")
    r = backend.controller.records.replica(name)
    drive(backend, lambda: r.running)
    assert (r.limit, r.weight) == (0.5, 2.0)
    backend.act(SetShare(replica=name, limit=0.25, weight=1.0))
    drive(backend, lambda: r.in_effect == (0.25, 1.0))
    assert mine.host["NanoCpus"] == 25 * 10**7
    backend.cancel("interrupted")
    drive(backend, lambda: backend.over)
    backend.close()
    assert (mine.host["NanoCpus"], mine.host["CpuShares"]) == (5 * 10**8, 2048)
    assert mine.state == "running"


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
        (["adopt", "made", "--engine", "ssh://host"], "is not the address of a Docker engine"),
        (["adopt", "made", "--engine", "=x"], "names no engine"),
        (["adopt", "made", "--engine", "../../x=unix:///x"], "names no engine"),
    ],
)
def test_bad_input_to_adopt_is_reported(engine, words, said):
    engine.create("made", {"HostConfig": {}, "Image": "any"})
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, ConfigError)
    assert said in done.exception.message


def test_bad_input_to_run_is_reported(tmp_path, engine):
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


def test_a_missing_engine_is_reported(tmp_path):
    with pytest.raises(Unreachable, match="no Docker engine answers at unix") as error:
        Client(f"unix://{tmp_path}/none.sock").hello()
    assert "DOCKER_HOST" in error.value.hint
    with pytest.raises(Unreachable, match="no Docker engine answers at tcp"):
        Client("tcp://127.0.0.1:9").hello()


def test_a_denied_socket_is_reported(engine):
    """Permissions do not stop root, so the effective user changes for a moment."""
    engine.path.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with pytest.raises(Denied, match="permission denied") as error:
            Client(engine.url).hello()
    finally:
        if root:
            os.seteuid(0)
    assert "usermod -aG docker" in error.value.hint
    assert error.value.exit_code == 3


def test_an_engine_that_is_too_old_is_reported(tmp_path):
    old = FakeEngine(tmp_path / "old", version="1.40")
    with pytest.raises(BackendError, match=r"too old: its API version is 1\.40") as error:
        Client(old.url).hello()
    assert "1.41" in error.value.hint
    old.close()


def test_a_socket_that_is_no_engine_is_reported(tmp_path):
    odd = FakeEngine(tmp_path / "odd", version="")
    with pytest.raises(Unreachable, match="invalid response"):
        Client(odd.url).hello()
    odd.close()


def test_missing_certificates_are_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="certificates"):
        Client("tcp://127.0.0.1:9").hello()


# -- which engine is which node --------------------------------------------------------------------


def test_engines_are_nodes_by_name_or_by_the_workload(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///usual")
    plain = read_workload(write(tmp_path, job("x")))
    assert [(s.name, s.url) for s in engine_targets((), plain)] == [("docker", "unix:///usual")]
    two = ("a=unix:///a", "unix:///b")
    assert [s.name for s in engine_targets(two, plain)] == ["a", "docker-1"]
    nodes = [{"name": "a", "cpu": 1, "engine": "unix:///A"}, {"name": "b", "cpu": 1}]
    told = read_workload(write(tmp_path, job("x"), nodes=nodes))
    assert [s.url for s in engine_targets((), told)] == ["unix:///A", "unix:///usual"]
    assert [s.url for s in engine_targets(("b=unix:///B",), told)] == ["unix:///A", "unix:///B"]
    with pytest.raises(ConfigError, match="no engine is given for node 'b'"):
        engine_targets(("a=unix:///a", "c=unix:///c"), told)


def test_nodes_of_one_engine_lie_side_by_side_on_its_cpus(tmp_path, engine):
    nodes = [{"name": "a", "cpu": 1}, {"name": "b", "cpu": 1}]
    run(write(tmp_path, job("x"), job("y"), nodes=nodes), "--policy", "fair")
    assert {c.host["CpusetCpus"] for c in engine.made} == {"0", "1"}


def drive(backend, claim):
    def driven():
        backend.wait(0.01)
        return claim()

    wait_for(driven)
