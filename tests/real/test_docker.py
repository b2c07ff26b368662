"""Real containers on real engines."""

import json
import subprocess
import sys
from operator import itemgetter
from pathlib import Path
from time import monotonic, sleep

import image
import pytest
from containers import DockerHands
from local import headway, workload

from contract import BackendContract
from headway.backend import procfs
from headway.backend.docker import operations, stats
from headway.core.model.decision import Applied, Move, Place, SetShare, Started, Suspend
from headway.core.model.job import Phase
from headway.core.model.units import ReplicaId


class TestDocker(BackendContract):
    @pytest.fixture
    def platform(self, tmp_path, engines):
        made = DockerHands(tmp_path, engines)
        yield made
        made.close()
        assert made.left_on_platform() == []

    def test_a_restart_finds_everything(self, platform, seen):
        platform.submit("x")
        seen.start("x", "a")
        found = platform.inspect("x/worker-0")
        platform.crash()
        platform.settle()
        c = platform.container("x/worker-0")
        assert (c.id, c.node, platform.phase("x")) == (found["Id"], "a", Phase.RUNNING)
        assert platform.record("x").failures == 0

    def test_every_act_returns_within_50_ms(self, platform, seen):
        acts = []

        def act(decision):
            began, waited = monotonic(), waited_for_cpu()
            outcome = platform.backend.act(decision)
            took = monotonic() - began - (waited_for_cpu() - waited)
            acts.append((took, decision, outcome))

        for name in ("x", "y"):
            platform.submit(name)
        seen.look()
        for name in ("x", "y"):
            act(Place(job=name, where=((ReplicaId(f"{name}/worker-0"), "a"),)))
        platform.settle()
        for limit in (0.5, 0.7, None):
            act(SetShare(replica=ReplicaId("x/worker-0"), limit=limit))
            act(SetShare(replica=ReplicaId("y/worker-0"), limit=limit, weight=2.0))
        platform.settle()
        act(Move(replica=ReplicaId("x/worker-0"), to="b"))
        act(Suspend(job="y"))
        platform.settle()
        assert max(acts, key=itemgetter(0))[0] < 0.05
        assert all(isinstance(o, Started | Applied) for _, _, o in acts)

    def test_the_last_of_several_shares_stays_in_effect(self, platform, seen):
        platform.submit("x")
        seen.start("x", "a")
        platform.container("x/worker-0").engine.worker.do(lambda: sleep(0.3))
        for limit in (0.2, 0.4, 0.8):
            outcome = seen.act(SetShare(replica=ReplicaId("x/worker-0"), limit=limit))
            assert isinstance(outcome, Started)
        platform.settle()
        assert platform.share("x/worker-0") == pytest.approx((0.8, 1.0))

    @pytest.mark.parametrize(("name", "old"), [("grows", 2**27), ("shrinks", 2**29)])
    def test_memory_and_swap_change_together(self, platform, seen, name, old):
        del name
        platform.submit("x")
        seen.start("x", "a")
        c = platform.container("x/worker-0")
        for most in (old, 2**28):
            operations.set_memory(c, most)
            platform.until(lambda most=most: memory(platform.inspect("x/worker-0")) == (most, most))
        assert platform.inspect("x/worker-0")["State"]["Running"]

    def test_what_the_engine_says_of_usage_is_what_the_group_says(self, platform, seen):
        platform.submit("x")
        seen.start("x", "a")
        c = platform.container("x/worker-0")
        assert isinstance(c.gauge, stats.ByGroup)
        told = stats.ByEngine(c.engine.client, c.name)
        platform.until(lambda: told.read(None).cpu > 0)
        by_engine, by_group = told.read(None), c.gauge.read(None)
        told.close()
        assert by_engine.cpu == pytest.approx(by_group.cpu, abs=0.2)
        assert by_engine.memory == pytest.approx(by_group.memory, rel=0.2)
        assert by_engine.network_io is by_group.network_io is None, "these engines have no network"


def waited_for_cpu():
    """Seconds in which this thread could have run, and other threads had the CPUs."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def memory(found):
    return found["HostConfig"]["Memory"], found["HostConfig"]["MemorySwap"]


# -- by the command line -------------------------------------------------------------------------

PRINTS = """
import time
for i in range(1, 21):
    print(f"step {i}/20 loss {1 / i}", flush=True)
    time.sleep(0.05)
"""


def docker_job(name, text, *, at=0.0, task=None, **spec):
    command = ["python3", "-c", text]
    return {
        "name": name,
        "at": at,
        "spec": {"tasks": [{"command": command, **(task or {})}], **spec},
    }


def docker_run(engines, data, *jobs, check=True, policy="headway", **more):
    path = workload(data, *jobs, **more)
    words = ["--backend", "docker", "--image", image.NAME, "--policy", policy, "--json"]
    for name, engine in zip("ab", engines, strict=False):
        words += ["--engine", f"{name}={engine.url}"]
    return headway("run", path, *words, data=data, check=check)


def test_jobs_run_as_containers_and_leave_nothing_behind(tmp_path, engines):
    jobs = [
        docker_job("prints", PRINTS),
        {"name": "gru", "at": 0.2, "model": "gru", "profile": {"work": 0.5, "steps": 30}},
    ]
    before = [set(e.containers()) for e in engines]
    done = docker_run(engines[:1], tmp_path, *jobs)
    (found,) = json.loads(done.stdout)
    assert (found["backend"], found["enforcement"]) == ("docker", "docker")
    assert [(j["outcome"], j["steps"]) for j in found["per_job"]] == [
        ("succeeded", 20),
        ("succeeded", 30),
    ]
    assert [set(e.containers()) for e in engines] == before
    run = tmp_path / "runs" / "latest"
    assert (run / "report.html").stat().st_size > 5000
    assert (run / "jobs" / "prints" / "main-0" / "out.log").read_text().count("loss") == 20
    assert "no difference" in headway("replay", run, data=tmp_path).stdout
    told = json.loads(headway("explain", "gru", "--json", data=tmp_path).stdout)["events"]
    assert [e["what"] for e in told][:4] == ["pending", "place on a", "starting", "running"]


SPINS = """
import time
for i in range(1, 301):
    end = time.process_time() + 0.02
    while time.process_time() < end: pass
    print(f"step {i}/300 loss {1 / i}", flush=True)
"""


def test_a_busy_process_outside_the_engine_is_noticed(tmp_path, engines):
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            began, before = monotonic(), procfs.cpu(other.pid)
            done = docker_run(engines[:1], tmp_path, docker_job("x", SPINS), docker_job("y", SPINS))
            used = (procfs.cpu(other.pid) - before) / (monotonic() - began)
        finally:
            other.kill()
    (found,) = json.loads(done.stdout)
    assert 0.3 * used < found["foreign_cores"] <= found["cores"]  # unknown in the first seconds
    assert "cores used by others" in headway("explain", "x", data=tmp_path).stdout


BAD = {
    "no-such-command": (["no-such-command-at-all"], "not found"),
    "exits": (
        ["python3", "-c", "raise SystemExit('no data here')"],
        "exited with code 1: no data here",
    ),
    "killed": (["python3", "-c", "import os; os.kill(os.getpid(), 9)"], "SIGKILL"),
    "hungry": (
        ["python3", "-c", "x = []\nwhile True: x.append(bytearray(2**20))"],
        "exceeded its memory limit",  # under load, an engine may miss why it was killed
    ),
}


def test_a_bad_container_fails_with_a_clear_reason_and_the_others_are_untouched(tmp_path, engines):
    jobs = [docker_job("good", PRINTS)]
    for name, (command, _) in BAD.items():
        limits = {"limits": {"memory": "64Mi"}}
        task = {"command": command, "resources": limits}
        jobs.append({"name": name, "spec": {"tasks": [task], "backoffLimit": 0}})
    done = docker_run(engines, tmp_path, *jobs, check=False)
    assert done.returncode == 1, done.stderr
    (found,) = json.loads(done.stdout)
    outcomes = {j["name"]: j["outcome"] for j in found["per_job"]}
    assert outcomes.pop("good") == "succeeded"
    assert set(outcomes.values()) == {"failed"}
    for name, (_, reason) in BAD.items():
        assert reason in found["reasons"][name]


def test_a_gang_of_containers_starts_whole_and_ends_with_its_chief(tmp_path, engines):
    says = """
import os, time
print(*(os.environ[k] for k in ("RANK", "WORLD_SIZE", "MASTER_ADDR")), flush=True)
time.sleep(600 if os.environ["HEADWAY_TASK"] == "ps" else 0.3)
"""
    command = ["python3", "-c", says]
    tasks = [
        {"name": "worker", "replicas": 2, "command": command},
        {"name": "ps", "command": command},
    ]
    spec = {"tasks": tasks, "checkpoint": {"graceSeconds": 1}}
    docker_run(engines[:1], tmp_path, {"name": "g", "spec": spec})
    logs = {p.parent.name: p.read_text() for p in tmp_path.glob("runs/2*/jobs/g/*/out.log")}
    assert logs["worker-1"].startswith("2 3 127.0.0.1\n")
    assert set(logs) == {"worker-0", "worker-1", "ps-0"}


def test_a_missing_image_is_reported_before_anything_is_started(tmp_path, engines):
    task = {"image": "no/such-image:1"}
    done = docker_run(engines, tmp_path, docker_job("x", PRINTS, task=task), check=False)
    assert done.returncode == 2
    told = json.loads(done.stdout)["error"]
    assert "no/such-image:1" in told["message"]
    assert "docker pull" in told["hint"]
    assert not (tmp_path / "runs").exists()
