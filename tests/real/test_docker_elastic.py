"""Distributed trainings as containers, scaled while they run, on two engines."""

import signal
from contextlib import suppress
from functools import partial

import image
import pytest
from elastic import ABSENT, Training, digests, running, spec, undisturbed, words
from local import result, workload
from patience import wait_for
from scaling_hands import ContainerHands, kills, making

from headway.backend import inbox
from headway.backend.job_store import JobStore
from headway.core.model.snapshot import Request
from headway.errors import Declined

FEW = 60
"""Steps of a training that is killed and not only scaled."""


def test_a_synchronous_job_of_containers_grows_and_shrinks_on_two_engines(tmp_path, engines):
    nodes = [{"name": name, "engine": e.url} for name, e in zip("ab", engines, strict=True)]
    job = {"name": "x", "spec": spec(words(python="python3"))}
    path, x = workload(tmp_path, job, nodes=nodes), Training(tmp_path)
    options = ["--backend", "docker", "--image", image.NAME, "--policy", "gang"]
    with running("run", path, *options, data=tmp_path) as run:
        x.grow_and_shrink()
        state = JobStore(tmp_path / "runs" / "latest").load(["x"])["x"]
        assert run.wait(120) == 0
    assert digests(x.log()) == undisturbed(), "as if nothing had happened"
    assert (len(x.joined(0)), len(x.joined(1)), len(x.joined(2))) == (3, 2, 1)
    assert {r.node for r in state.replicas} == {"a", "b"}
    assert [e.containers() for e in engines] == [[], []]


@pytest.mark.long
def test_a_container_that_is_killed_while_its_job_is_scaled_costs_no_sample(tmp_path, engines):
    job = {"name": "x", "spec": spec(words(steps=100, python="python3"), replicas=2)}
    nodes = [{"name": name, "engine": e.url} for name, e in zip("ab", engines, strict=True)]
    path, x = workload(tmp_path, job, nodes=nodes), Training(tmp_path)
    options = ["--backend", "docker", "--image", image.NAME, "--policy", "gang"]
    with running("run", path, *options, data=tmp_path) as run:
        wait_for(lambda: x.joined(1))
        x.proceeds()
        latest = (tmp_path / "runs" / "latest").resolve()
        inbox.put(latest, Request(job="x", wish="scale", task="worker", count=3))
        wait_for(lambda: JobStore(latest).load(["x"])["x"].sizes)  # the scale has begun
        killed = 0
        for engine in engines:
            found = {"label": ["headway.dev/replica=x/worker-1"]}
            for each in engine.client.get("/containers/json", filters=found):
                with suppress(Declined):  # it has just stopped
                    engine.client.post(f"/containers/{each['Id']}/kill", signal="SIGKILL")
                    killed += 1
        assert run.wait(120) == 0
    assert killed >= 1
    assert digests(x.log()) == undisturbed(100)
    assert x.joined(2), "the size that was asked for"
    assert [e.containers() for e in engines] == [[], []]


KILLS = [("grow", "saving", "worker-1"), ("shrink", "starting", "ps-0")]


@pytest.mark.parametrize(
    ("change", "phase", "victim"), kills(("ps-0", "worker-0", "worker-1"), KILLS)
)
def test_a_container_that_is_killed_in_a_phase_of_a_scale_costs_no_sample(
    tmp_path, engines, change, phase, victim
):
    with making(tmp_path, partial(ContainerHands, engines)) as make:
        x = make(words(steps=FEW, python="python3"), image=image.NAME)
        x.kill_while(change, phase, victim)
        assert digests(x.log()) == undisturbed(FEW)


@pytest.mark.parametrize(
    ("fault", "workers"),
    [
        ("docker.start@5", (1, 3)),  # of four containers in the new size, two have started
        pytest.param("checkpoint.ask", (1, 3), marks=pytest.mark.long),
        pytest.param("docker.remove@2", (3, 1), marks=pytest.mark.long),
        pytest.param("request.remove", (3, 1), marks=pytest.mark.long),
    ],
)
def test_a_crash_of_headway_while_containers_are_scaled_costs_no_sample(
    tmp_path, engines, fault, workers
):
    """The training sleeps so much that it does not end before Headway is back."""
    before, after = workers
    command = words(steps=FEW, demand=0.02, python="python3")
    job = {"name": "x", "spec": spec(command, replicas=before)}
    nodes = [{"name": name, "engine": e.url} for name, e in zip("ab", engines, strict=True)]
    path, x = workload(tmp_path, job, nodes=nodes), Training(tmp_path)
    options = ["--backend", "docker", "--image", image.NAME, "--policy", "gang"]
    env = {"HEADWAY_FAULT": f"{fault}=kill"}
    with running("run", path, *options, data=tmp_path, env=env) as run:
        x.proceeds()
        latest = (tmp_path / "runs" / "latest").resolve()
        inbox.put(latest, Request(job="x", wish="scale", task="worker", count=after))
        assert run.wait(120) == -signal.SIGKILL
    with running("run", "--resume", "latest", data=tmp_path) as run:
        assert run.wait(120) == 0
    assert JobStore(latest).load(["x"])["x"].sizes == (("worker", after),)
    assert digests(x.log()) == undisturbed(FEW)
    assert [e.containers() for e in engines] == [[], []]


@pytest.mark.long
def test_a_container_that_never_joins_is_named_in_time_and_another_job_goes_on(tmp_path, engines):
    command = [*words(steps=FEW, python="python3"), "--timeout", "5"]
    absent = spec(["python3", "-c", ABSENT, *command], replicas=2)
    jobs = [
        {"name": "absent", "spec": {**absent, "backoffLimit": 0, "checkpoint": {"mode": "none"}}},
        {"name": "fine", "spec": spec(command, replicas=2)},
    ]
    nodes = [{"name": name, "engine": e.url} for name, e in zip("ab", engines, strict=True)]
    options = ["--backend", "docker", "--image", image.NAME, "--policy", "gang"]
    path = workload(tmp_path, *jobs, nodes=nodes)
    with running("run", path, *options, data=tmp_path) as run:
        assert run.wait(120) != 0
    found = result(tmp_path)
    ended = {j["name"]: j for j in found["per_job"]}
    outcomes = {name: j["outcome"] for name, j in ended.items()}
    assert outcomes == {"absent": "failed", "fine": "succeeded"}
    assert "worker-1 did not join within 5 s; there are: worker-0" in found["reasons"]["absent"]
    took = ended["absent"]["finished_s"] - ended["absent"]["started_s"]
    assert took < 5 + 20 + 30, "its timeout and the grace period of the other; a busy machine"
    assert digests(Training(tmp_path, "fine").log()) == undisturbed(FEW)
    assert [e.containers() for e in engines] == [[], []]


def test_workers_find_their_parameter_server_on_another_machine_also_after_a_move(
    tmp_path, engines, private_engine, far_network
):
    namespace, host = far_network
    far = private_engine(namespace=namespace, host=host, tcp=2375)
    nodes = [{"name": "near", "engine": engines[0].url}, {"name": "far", "engine": far.url}]
    job = {"name": "x", "spec": spec(words(steps=100, python="python3"))}
    path, x = workload(tmp_path, job, nodes=nodes), Training(tmp_path)
    options = ["--backend", "docker", "--image", image.NAME, "--policy", "gang"]
    with running("run", path, *options, data=tmp_path) as run:
        x.proceeds()
        x.scale(2)
        wait_for(lambda: x.joined(1))
        latest = (tmp_path / "runs" / "latest").resolve()
        apart = nodes_of(latest)
        inbox.put(latest, Request(job="x", wish="move", to="far"))  # the server has a new address
        wait_for(lambda: nodes_of(latest) == {"far"} and len(x.joined(1)) == 2)
        assert run.wait(120) == 0
    assert apart == {"near", "far"}
    assert digests(x.log()) == undisturbed(100)


def nodes_of(run):
    return {r.node for r in JobStore(run).load(["x"])["x"].replicas}
