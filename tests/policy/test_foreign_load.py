"""Policies of one node on a machine that other processes use too."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.cycle.cluster_state import assemble, remember
from headway.core.model.job import Estimate, Expected, Phase
from headway.core.model.node import Node
from headway.core.model.report import Report, Usage
from headway.core.model.serialization import from_plain, to_plain
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import ReplicaId, Resources
from headway.policy.share.fsp import Fsp
from headway.policy.share.headway import Headway
from headway.sim.compare import compare
from headway.spec.workload import make_workload
from making import history, job, node, replica

POLICIES = (Headway(), Fsp())


def sized(name, work, demand=1.0):
    return job(name, expected=Expected(work=Estimate(value=work, error=0.0), demand=demand))


def start(policy, *jobs, foreign=0.0):
    """The tables and the memory after the first decision."""
    shown = replace(node(), foreign=foreign)
    h = history(nodes=(shown,), jobs=jobs, replicas=[replica(j.id) for j in jobs])
    return h, policy.decide(assemble(h, Trigger.STARTED), policy.begin())[1]


def change(policy, h, memory, *, at, foreign):
    """Decide when the foreign load changes; return the reference world."""
    remember(h, Observation(at=at, nodes=(replace(node(), foreign=foreign),)))
    return policy.decide(assemble(h, Trigger.NODE), memory)[1].reference


def test_a_node_offers_what_others_leave_and_a_little_at_least():
    whole = Node(id="a", capacity=Resources(cpu=2.0))
    assert whole.available == 2.0
    assert replace(whole, foreign=0.5).available == 1.5
    assert replace(whole, foreign=2.5).available == pytest.approx(0.1)
    assert from_plain(to_plain(replace(whole, foreign=0.5))).foreign == 0.5


def test_the_load_of_requests_and_the_foreign_load_are_distinguished():
    h, _ = start(Headway(), sized("x", 10), foreign=0.5)
    assert (h.nodes["a"].foreign, h.nodes["a"].capacity.cpu, h.nodes["a"].count) == (0.5, 1.0, 1)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_the_reference_world_has_had_the_capacity_of_the_time_that_has_passed(policy):
    """Not the capacity from now on."""
    h, memory = start(policy, sized("x", 10), sized("y", 40))
    reference = change(policy, h, memory, at=4.0, foreign=0.5)
    assert [j.done for j in reference.values()] == [2.0, 2.0]
    reference = change(policy, h, memory, at=8.0, foreign=0.0)
    assert [j.done for j in reference.values()] == [3.0, 3.0]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_guarantees_follow_the_foreign_load(policy):
    h, memory = start(policy, sized("x", 10), sized("y", 40))
    assert memory.reference["x/main-0"].due == pytest.approx(20.0)
    reference = change(policy, h, memory, at=4.0, foreign=0.5)
    assert reference["x/main-0"].due == pytest.approx(4 + 8 / 0.25)
    assert reference["y/main-0"].due == pytest.approx(4 + 46 / 0.5)


def test_a_job_that_could_not_catch_up_once_the_load_ends_is_not_delayed():
    """At a foreign load of 0.6 either job can use all of the rest. If that ended now, each would
    run at full speed under fair sharing, and nothing that one has lost could be made up.
    """
    _, memory = start(Headway(), sized("x", 10, 0.5), sized("y", 40, 0.5), foreign=0.6)
    assert memory.rates == pytest.approx({"x/main-0": 0.2, "y/main-0": 0.2})
    _, memory = start(Headway(), sized("x", 10), sized("y", 40), foreign=0.6)
    assert memory.rates == pytest.approx({"x/main-0": 0.4, "y/main-0": 0.0})


def used(policy, h, memory, *, at, idle, jobs=(), **cores):
    """Decide after the replicas used so many cores each; return the reference world."""
    reports = tuple(
        Report(replica=ReplicaId(f"{n}/main-0"), since=h.at, at=at, usage=Usage(cpu=c, idle=idle))
        for n, c in cores.items()
    )
    remember(h, Observation(at=at, jobs=jobs, reports=reports))
    return policy.decide(assemble(h, Trigger.TICK), memory)[1].reference


def test_what_other_processes_took_shows_nothing_of_what_a_job_can_use():
    """They took nine tenths of the node, of which nothing is known yet."""
    h, memory = start(Headway(), job("x"), job("y"))
    reference = used(Headway(), h, memory, at=1.0, idle=0.0, x=0.04, y=0.06)
    assert [j.demand for j in reference.values()] == [1.0, 1.0]
    assert [j.done for j in reference.values()] == pytest.approx([0.04, 0.06], abs=0.011)
    assert memory.rates == pytest.approx({"x/main-0": 0.5, "y/main-0": 0.5}, abs=0.01)


def test_a_turn_that_a_job_missed_shows_nothing_of_what_it_can_use():
    """Others leave 0.02 cores to two jobs: a few milliseconds at a time."""
    h, memory = start(Headway(), job("x"), job("y"), foreign=0.98)
    reference = used(Headway(), h, memory, at=1.0, idle=0.0, x=0.005, y=0.015)
    assert [j.demand for j in reference.values()] == [1.0, 1.0]


def test_what_a_job_leaves_idle_or_to_others_shows_what_it_can_use():
    h, memory = start(Headway(), job("x"), job("y"))
    reference = used(Headway(), h, memory, at=1.0, idle=0.8, x=0.1, y=0.1)
    assert [j.demand for j in reference.values()] == [0.1, 0.1]
    h, memory = start(Headway(), job("x"), job("y"))
    reference = used(Headway(), h, memory, at=1.0, idle=0.0, x=0.1, y=0.9)
    assert [j.demand for j in reference.values()] == [0.1, 1.0]


def test_the_reference_world_had_no_more_than_other_processes_left():
    h, memory = start(Headway(), sized("x", 10), sized("y", 40))
    reference = used(Headway(), h, memory, at=4.0, idle=0.0, x=0.499, y=0.001)
    assert [j.done for j in reference.values()] == pytest.approx([1.0, 1.0])


def test_a_trickle_says_nothing_of_what_other_processes_left():
    """The job that had the rest of the node has ended: its last use is not known."""
    h, memory = start(Headway(), sized("x", 10), sized("y", 40))
    gone = (replace(sized("x", 10), phase=Phase.SUCCEEDED),)
    reference = used(Headway(), h, memory, at=4.0, idle=0.0, jobs=gone, y=0.0005)
    assert "x/main-0" not in memory.estimates
    assert reference["y/main-0"].done == pytest.approx(2.0)


loads = st.lists(
    st.tuples(st.integers(0, 150), st.sampled_from([0.0, 0.3, 0.5, 0.6, 0.9])), max_size=6
)


@pytest.mark.untraced
@settings(max_examples=30, deadline=None)
@given(loads, st.integers(0, 1000))
def test_no_job_is_later_than_under_fair_sharing_whatever_other_processes_use(steps, seed):
    """Where each job can use the whole node; `bench promises` measures other demands."""
    profile = {"work": [4, 9, 20, 27], "vary": 0.2}
    foreign = [{"at": at, "cpu": cpu} for at, cpu in steps]
    workload = make_workload(
        arrivals={"uniform": [0, 40], "jobs": 6, "profile": profile}, nodes=[{"foreign": foreign}]
    )
    (_,), (ours,) = compare(workload, ["fair", "headway"], [seed])
    assert ours.slower == 0
