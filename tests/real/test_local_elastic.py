"""Distributed trainings as real processes, scaled while they run; every sample counts once."""

import json
import os
import signal

import pytest
from elastic import Training, digests, running, spec, undisturbed, words
from local import processes, workload
from scaling_hands import kills, making

from headway.core.model.decision import Move, Started
from headway.core.model.job import Elastic, Phase
from headway.core.model.units import ReplicaId

FEW = 60
"""Steps of a training that is killed and not only scaled."""


def outcomes(data):
    (found,) = json.loads((data / "runs" / "latest" / "result.json").read_text())
    return {j["name"]: j["outcome"] for j in found["per_job"]}, found["reasons"]


def test_a_synchronous_job_grows_and_shrinks_while_it_trains(tmp_path):
    path = workload(
        tmp_path, {"name": "x", "spec": spec(words())}, nodes=[{"cpu": 0.5, "count": 2}]
    )
    x = Training(tmp_path)
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        x.grow_and_shrink()
        assert run.wait(120) == 0
    assert outcomes(tmp_path) == ({"x": "succeeded"}, {})
    assert digests(x.log()) == undisturbed(), "as if nothing had happened"
    assert (len(x.joined(0)), len(x.joined(1)), len(x.joined(2))) == (3, 2, 1)
    assert processes(tmp_path) == []


@pytest.fixture
def hands(tmp_path):
    """Two workers and a parameter server, driven by hand."""
    with making(tmp_path) as make:
        yield lambda model="ps-sync", *more, **how: make([*words(model, steps=FEW), *more], **how)


KILLS = [
    ("grow", "saving", "worker-0"),
    ("grow", "saving", "worker-1"),
    ("shrink", "stopping", "ps-0"),
    ("grow", "starting", "worker-1"),
]


@pytest.mark.parametrize(
    ("change", "phase", "victim"), kills(("ps-0", "worker-0", "worker-1"), KILLS)
)
def test_a_replica_that_is_killed_while_the_job_is_scaled_costs_no_sample(
    hands, change, phase, victim
):
    x = hands()
    x.kill_while(change, phase, victim)
    assert digests(x.log()) == undisturbed(FEW)


def test_a_job_of_which_a_replica_moves_goes_on_as_a_whole(hands):
    """Alone, its server would start without the weights, and its workers would have lost it."""
    x = hands()
    x.drive(lambda: "step 5/" in x.log())
    for name in ("ps-0", "worker-1"):
        to = "b" if x.job.replicas[ReplicaId.named("x", name)].node == "a" else "a"
        outcome = x.backend.act(Move(replica=ReplicaId.named("x", name), to=to))
        assert isinstance(outcome, Started)
    x.drive(lambda: x.job.phase.ended)
    assert (x.job.phase, x.job.failures, x.job.moves) == (Phase.SUCCEEDED, 0, 2)
    assert x.job.attempt == 2, "one restart"
    assert digests(x.log()) == undisturbed(FEW)


def test_a_worker_that_hangs_is_named_in_time_and_the_job_goes_on(hands):
    x = hands("ps-sync", "--timeout", "3", grace=1.0)
    x.drive(lambda: "step 25/" in x.log())
    x.kill("worker-1", signal.SIGSTOP)
    stopped = x.clock()
    x.drive(lambda: x.job.phase is Phase.STOPPING)
    assert x.clock() - stopped < 3 + 30, "a busy machine takes its time"
    why = "replica ps-0: exited with code 1: error: worker-1 did not answer within 3 s"
    assert x.job.reason == why
    x.drive(lambda: x.job.phase.ended)
    assert (x.job.phase, x.job.failures) == (Phase.SUCCEEDED, 1)
    assert digests(x.log()) == undisturbed(FEW)


@pytest.mark.parametrize(
    ("fault", "workers"),
    [("checkpoint.ask", (1, 3)), ("request.remove", (3, 1)), ("replica.start@4", (1, 2))],
)
def test_a_crash_of_headway_while_a_job_is_scaled_costs_no_sample(tmp_path, fault, workers):
    before, after = workers
    job = {"name": "x", "spec": spec(words(steps=FEW), replicas=before)}
    path, x = workload(tmp_path, job, nodes=[{"cpu": 0.5, "count": 2}]), Training(tmp_path)
    x.crash_while_scaled(path, fault, after)
    assert outcomes(tmp_path) == ({"x": "succeeded"}, {})
    assert digests(x.log()) == undisturbed(FEW)
    assert processes(tmp_path) == []


def test_a_worker_of_an_asynchronous_job_that_is_killed_is_started_again_alone(hands):
    x = hands("ps-async", elastic=Elastic.INDEPENDENT)
    x.drive(lambda: "step 5/" in x.log() and "worker-1 joined" in x.log("ps-0"))
    x.grow()
    x.kill("worker-1")
    x.drive(lambda: x.job.failures == 1)
    assert x.job.phase is Phase.RUNNING
    x.drive(lambda: x.job.phase.ended)
    assert (x.job.phase, x.job.attempt) == (Phase.SUCCEEDED, 3), "a start, a join, a start again"
    assert digests(x.log())[1] == undisturbed(FEW)[1]


@pytest.mark.parametrize(
    ("change", "victim"),
    [
        ("grow", "worker-2"),
        ("shrink", "ps-0"),
        pytest.param("grow", "ps-0", marks=pytest.mark.long),
        pytest.param("shrink", "worker-1", marks=pytest.mark.long),
    ],
)
def test_a_kill_while_workers_of_an_asynchronous_job_come_and_go_costs_no_sample(
    hands, change, victim
):
    """`worker-2` is the one that joins; `worker-1` the one that leaves, which may have exited."""
    x = hands("ps-async", elastic=Elastic.INDEPENDENT)
    x.drive(lambda: "step 5/" in x.log() and "worker-1 joined" in x.log("ps-0"))
    getattr(x, change)()
    x.drive(lambda: x.kill_now(victim) or victim == "worker-1")
    x.drive(lambda: x.job.phase.ended)
    assert (x.job.phase, x.job.reason) == (Phase.SUCCEEDED, "")
    assert digests(x.log())[1] == undisturbed(FEW)[1]


def test_dragon_takes_and_gives_workers_of_an_asynchronous_job_without_a_restart(tmp_path):
    """A gang that waits starts whole on the nodes of the workers that were taken."""
    request = {"resources": {"requests": {"cpu": len(os.sched_getaffinity(0)) / 4}}}
    slow, short = words("ps-async", demand=0.03), words(steps=20, demand=0.5)
    rich = spec(slow, replicas=4, most=4, elastic="independent", **request)
    poor = spec(short, replicas=2, most=2, **{**request, "minReplicas": 2})
    jobs = [{"name": "rich", "spec": rich}, {"name": "poor", "at": 1.0, "spec": poor}]
    policy = "dragon:starve_after=0.2,grow_after=0.2,restart=0.1"
    path, data = workload(tmp_path, *jobs), tmp_path
    with running("run", path, "--nodes", "4", "--policy", policy, data=data) as run:
        assert run.wait(120) == 0
    assert outcomes(data) == ({"rich": "succeeded", "poor": "succeeded"}, {})
    records = data / "runs" / "latest" / "records"
    starts = {p: len(list(p.glob("claim.*"))) for p in records.glob("*/*")}
    count = {f"{p.parent.name}/{p.name}": n for p, n in starts.items()}
    assert (count["rich/ps-0"], count["rich/worker-0"]) == (1, 1), "it was not restarted"
    again = [i for i in (1, 2, 3) if count[f"rich/worker-{i}"] > 1]
    assert len(again) >= 2, "workers were taken and given"
    assert [count[f"poor/{name}"] for name in ("ps-0", "worker-0", "worker-1")] == [1, 1, 1]
    assert digests(Training(data, "rich").log())[1] == undisturbed()[1]
    assert digests(Training(data, "poor").log()) == undisturbed(20)


@pytest.mark.parametrize(
    "policy",
    [
        "gang+elastic:grow_after=0.2,restart=0.1",
        "kips:interval=1,cool_down=1,restart=0.1",
        "optimus:interval=1,restart=0.1",
    ],
)
def test_a_policy_adds_workers_to_a_job_on_idle_nodes(tmp_path, policy):
    """`measured`: optimus adds workers only if it can predict what they save."""
    speed = {"kind": "async", "compute": 0.05, "fixed": 0.001, "transfer_s": 0.0005}
    profile = {"steps": 100, "speed": speed}
    workers = {"replicas": 1, "max": 3, "cpu": len(os.sched_getaffinity(0)) / 4}
    job = {"name": "x", "model": "ps-async", "workers": workers}
    path = workload(tmp_path, {**job, "profile": profile, "measured": profile})
    with running("run", path, "--nodes", "4", "--policy", policy, data=tmp_path) as run:
        assert run.wait(120) == 0
    assert outcomes(tmp_path) == ({"x": "succeeded"}, {})
    records = tmp_path / "runs" / "latest" / "records" / "x"
    started = {p.name: len(list(p.glob("claim.*"))) for p in records.iterdir()}
    assert {"ps-0", "worker-0", "worker-1"} <= set(started)
    assert (started["ps-0"], started["worker-0"]) == (1, 1), "it was not restarted"
    assert "each once" in Training(tmp_path).log()
