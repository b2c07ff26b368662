"""Where the replicas of a job are while its speed is measured."""

import os
from pathlib import Path

import pytest

from headway.calibrate.speed import is_distributed, plan_points, workload_at
from headway.core.model.decision import Place
from headway.core.model.job import Phase
from headway.core.model.snapshot import Trigger
from headway.policy.registry import build
from headway.spec.runnable import to_jobs
from headway.spec.workload import make_workload
from making import job, snapshot

CORES = float(len(os.sched_getaffinity(0)))


def runnable(model, most=4):
    entry = {"name": "x", "model": model, "workers": {"replicas": 1, "max": most}}
    (made,) = to_jobs(make_workload(jobs=[entry]), Path("w.yaml"))
    assert is_distributed(made)
    return made


def placed(workload):
    """Nodes by replica, as the policy of the measurement places them."""
    (made,) = to_jobs(workload, Path("w.yaml"))
    pending = job("x", tasks=made.spec.tasks, phase=Phase.PENDING)
    s = snapshot(jobs=[pending], nodes=workload.to_nodes(), trigger=Trigger.ARRIVED)
    policy = build("@gang")
    plan, _ = policy.decide(s, policy.begin())
    (place,) = plan.decisions
    assert isinstance(place, Place)
    return {name.name: node for name, node in place.where}


@pytest.mark.parametrize("model", ["ps-sync", "ps-async"])
def test_workers_are_beside_their_server_or_all_on_another_node(model):
    for count, cores, far in plan_points(4, CORES):
        where = placed(workload_at(runnable(model), (count, cores, far)))
        assert len(where) == count + 1
        workers = {node for name, node in where.items() if name != "ps-0"}
        assert len(workers) == 1
        assert ({where["ps-0"]} == workers) is not far


def test_workers_of_a_ring_are_on_one_node_or_each_on_its_own():
    for setting in plan_points(4, CORES, ring=True):
        where = placed(workload_at(runnable("ddp"), setting))
        assert len(set(where.values())) == (setting[0] if setting[2] else 1)


def test_each_worker_is_limited_to_its_cores():
    made = workload_at(runnable("ps-sync"), (2, CORES / 8, False))
    (job,) = to_jobs(made, Path("w.yaml"))
    assert [t.limit for t in job.spec.tasks] == [None, CORES / 8]
    assert [t.replicas for t in job.spec.tasks] == [1, 2]
