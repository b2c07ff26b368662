"""Why a job waits for capacity, in words."""

import json
import os
import sys
from dataclasses import replace

import pytest
from patience import wait_for

from headway.cli.facts import facts_lines
from headway.client import Client
from headway.core.model.job import Phase, Task
from headway.core.model.units import Resources
from headway.policy.registry import build
from headway.runtime.job_facts import job_facts
from headway.runtime.waiting import MOST
from headway.runtime.waiting import waiting_reasons as reasons
from making import GIB, history, job, node, replica
from serving import listed

WAITS = """
import os, time
for step in range(1, 101):
    print(f"step {step}/100 loss: {1 / step:.3f}", flush=True)
    time.sleep(0.5)
    if os.path.exists("go"): break
"""


def waiting_reasons(state, ends, now):
    return reasons(state, ends, now, 1000)


def waiting(*names, cpu=1.0, **spec):
    return [job(name, phase=Phase.PENDING, cpu=cpu, **spec) for name in names]


def world(*jobs, nodes=None):
    """`big` has 1.5 of the 2 cores of its node."""
    runs = job("big", cpu=1.5)
    return history(
        nodes=nodes or (node(cpu=2.0),), jobs=[runs, *jobs], replicas=[replica("big")], at=10.0
    )


def test_a_job_says_what_it_needs_what_is_free_and_when_it_fits():
    told = waiting_reasons(world(*waiting("x")), {"big": 50.0}, 10.0)
    assert told == {
        "x": "needs 1 core; node a has 0.5 of 2 cores free; starts after big, in about 40 s"
    }


def test_the_time_is_left_out_if_the_end_of_the_other_job_is_unknown():
    [told] = waiting_reasons(world(*waiting("x")), {}, 10.0).values()
    assert told.endswith("free; starts after big")


def test_the_jobs_that_are_ahead_are_named():
    told = waiting_reasons(world(*waiting(*"stuvwx", cpu=1.2)), {"big": 50.0}, 10.0)
    assert told["t"] == "needs 1.2 cores; node a has 0.5 of 2 cores free; behind s"
    assert told["x"].endswith("; behind s, t, u and 2 others")
    assert told["v"].endswith("; behind s, t, u")


def test_a_job_that_fits_has_no_reason():
    assert waiting_reasons(world(*waiting("x", cpu=0.3)), {}, 10.0) == {}


def test_in_a_long_queue_the_last_jobs_know_only_how_many_are_ahead():
    names = [f"j{i}" for i in range(MOST + 5)]
    told = waiting_reasons(world(*waiting(*names)), {}, 10.0)
    assert told[f"j{MOST + 4}"] == f"{MOST + 4} jobs are ahead in the queue"
    assert len(told) == MOST + 5


def test_the_node_with_most_of_what_is_needed_is_named():
    small = node("b", cpu=1.0)
    state = world(*waiting("x", cpu=1.4), nodes=(node(cpu=2.0), small))
    [told] = waiting_reasons(state, {}, 0.0).values()
    assert "node b has 1 of 1 cores free" in told


def test_only_the_nodes_that_a_job_may_use_are_named():
    task = Task(request=Resources(cpu=1.5, memory=4 * GIB), nodes=("a",))
    state = world(job("x", phase=Phase.PENDING, tasks=(task,)), nodes=(node(cpu=2.0), node("b")))
    [told] = waiting_reasons(state, {}, 0.0).values()
    assert told.startswith(
        "needs 1.5 cores and 4 GiB; node a has 0.5 of 2 cores, 64 of 64 GiB free"
    )


def test_a_gang_needs_what_all_of_its_replicas_need():
    task = Task(name="worker", replicas=3, request=Resources(cpu=0.5))
    state = world(job("x", phase=Phase.PENDING, tasks=(task,)))
    assert waiting_reasons(state, {}, 0.0)["x"].startswith("needs 1.5 cores for 3 replicas; node a")


def test_a_job_whose_nodes_are_down_says_so():
    state = world(*waiting("x"), nodes=(node(cpu=2.0, up=False),))
    assert waiting_reasons(state, {}, 0.0)["x"] == "needs 1 core; its nodes are down or drained"


def test_a_job_that_waits_again_keeps_the_reason_of_its_last_stop():
    [again] = waiting("x")
    again = replace(again, reason="node a was lost")
    policy = build("fair")
    facts = job_facts(world(again), policy, policy.begin())["x"]
    assert facts.reason.startswith("node a was lost; needs 1 core; node a has")
    assert [label for label, _ in facts_lines(facts, None)] == ["waits"]


@pytest.fixture
def cores(serving):
    """A server, and how many cores it has."""
    serving()
    with Client.of() as client:
        return client.server()["nodes"][0]["cpu_cores"]


def workload(tmp_path, **requests):
    command = [sys.executable, "train.py"]
    jobs = [
        {"name": name, "spec": {"tasks": [{"command": command, "resources": {"requests": amount}}]}}
        for name, amount in requests.items()
    ]
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    (tmp_path / "w.json").write_text(json.dumps({**head, "jobs": jobs}))
    return tmp_path / "w.json"


def test_ps_and_explain_say_why_a_job_waits_for_cores(cores, headway, tmp_path):
    (tmp_path / "train.py").write_text(WAITS)
    most = {"cpu": str(0.8 * cores)}
    assert headway("submit", workload(tmp_path, first=most, second=most, third=most)).code == 0
    told = wait_for(
        lambda: (j := listed(headway)["second"])["phase"] == "pending"
        and "about" in j["reason"] and j["reason"]
    )  # fmt: skip
    assert told.startswith(f"needs {0.8 * cores:.3g} cores; node ")
    assert "; starts after first, in about " in told
    assert listed(headway)["third"]["reason"].endswith("; behind second")
    known = json.loads(headway("explain", "second", "--json").out)["known"]
    assert known["reason"].startswith(f"needs {0.8 * cores:.3g} cores; node ")


def test_ps_says_that_the_memory_of_the_machine_is_in_use(cores, headway, tmp_path):
    """The node has the memory, but programs use some of it."""
    del cores
    (tmp_path / "train.py").write_text(WAITS)
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    path = workload(tmp_path, large={"memory": str(whole - 2**20)})
    assert headway("submit", path).code == 0
    lacks = "not enough memory: needs "
    wait_for(lambda: listed(headway)["large"]["reason"].startswith(lacks))
