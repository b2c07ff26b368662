"""Gangs in the simulator: what others' schedulers got wrong, and knavigator's three scenarios."""

from dataclasses import replace

import pytest

from gangs import gpus
from headway.core.cycle.cluster_state import ClusterState, assemble, remember
from headway.core.estimate.step_rate import Speed
from headway.core.model.decision import Place, Plan, Refused
from headway.core.model.job import Estimate, Expected, JobSpec, Mode, Phase, Task
from headway.core.model.node import Node
from headway.core.model.snapshot import Trigger
from headway.core.model.units import ReplicaId, Resources
from headway.errors import ConfigError
from headway.policy.registry import build
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.sim.scenario import Arrival, Failure, Scenario
from headway.sim.world import World
from headway.spec.load import parse
from headway.spec.workload import Workload
from scenarios import run

WHOLE = ["gang", "gang+locality", "dragon", "kips", "optimus"]
whole = pytest.mark.parametrize("policy", WHOLE)


def ring(name, workers, *, at=0.0, work=100.0, gpu=1.0, least=None, most=None, mode=Mode.SDK):
    """A gang that exchanges its gradients in a ring: each worker does its part of the work."""
    least = workers if least is None else least
    worker = Task(
        name="worker", replicas=workers, least=least, most=most or workers,
        request=Resources(cpu=1.0, gpu=gpu),
    )  # fmt: skip
    spec = JobSpec(
        tasks=(worker,),
        speed=Speed(kind="ring", compute=1.0),
        total_steps=work,
        checkpoint=mode,
        expected=Expected(work=Estimate(value=work), demand=1.0),
    )
    return Arrival(id=name, at=at, spec=spec, work=work, demand=1.0, steps=work)


def ran(policy, nodes, jobs, **more):
    world = simulate(Scenario(nodes=tuple(nodes), jobs=tuple(jobs), **more), build(policy))
    assert all(j.phase is Phase.SUCCEEDED for j in world.finished)
    assert not any(n.replicas for n in world.nodes.values())  # nothing is held at the end
    return {j.arrival.id: (j.started_at, j.finished_at) for j in world.finished}


REAL = ["@fair", "@headway", "@spread", "@specon", "@las", *WHOLE]


def stream(policy, singles):
    """Jobs of one worker arrive all the time, and at 11 s a gang that needs both nodes."""
    nodes = [gpus("a", 2), gpus("b", 2)]
    small = [ring(f"s{i}", 1, at=5.0 * i, work=19.0, mode=Mode.NONE) for i in range(singles)]
    gang = ring("gang", 4, at=11.0, work=40.0, mode=Mode.NONE)
    return ran(policy, nodes, sorted([*small, gang], key=lambda job: job.at))


@pytest.mark.parametrize("policy", REAL)
def test_small_jobs_do_not_overtake_a_gang_for_ever(policy):
    """Of those that arrived before it, the last ends at 29 s or a little later."""
    assert stream(policy, 60)["gang"][0] < 60


@pytest.mark.parametrize("policy", REAL)
def test_the_queue_is_by_priority_and_then_by_arrival(policy):
    nodes = [gpus("a", 1)]
    jobs = [ring("first", 1), ring("second", 1, at=1.0), ring("urgent", 1, at=2.0)]
    jobs[2] = replace(jobs[2], spec=replace(jobs[2].spec, priority=1))
    times = ran(policy, nodes, jobs)
    assert times["first"][0] < times["urgent"][0] < times["second"][0]


# -- the gang bugs -------------------------------------------------------------------------------


@whole
def test_two_gangs_never_hold_what_the_other_needs(policy):
    """scheduler-plugins 117 and 114: each had half of a cluster that would do for either."""
    nodes, jobs = [gpus("a", 2), gpus("b", 2)], [ring("x", 3, work=300.0), ring("y", 3, work=300.0)]
    times = ran(policy, nodes, jobs)
    assert times["x"] == (0.0, pytest.approx(100.0))
    assert times["y"][0] == pytest.approx(100.0, abs=1)
    stuck = simulate(Scenario(nodes=tuple(nodes), jobs=tuple(jobs)), build("spread"))
    assert stuck.deadlocks == 1  # which pod by pod ends by force, after five minutes
    assert min(j.started_at for j in stuck.finished) == pytest.approx(300.0)


@whole
def test_nine_places_are_not_held_for_a_tenth(policy):
    """scheduler-plugins 713: nine of ten were placed and waited for ever."""
    nodes = [gpus(f"n{i}", 1) for i in range(10)]
    jobs = [
        ring("long", 1, work=500.0),
        ring("ten", 10, at=1.0, work=100.0),
        *(ring(f"s{i}", 1, at=2.0, work=50.0, mode=Mode.NONE) for i in range(9)),
    ]
    times = ran(policy, nodes, jobs)
    assert all(times[f"s{i}"] == (2.0, pytest.approx(52.0)) for i in range(9))
    assert times["ten"][0] == pytest.approx(500.0, abs=2)


def test_a_gang_is_refused_whole_if_a_node_is_gone():
    """scheduler-plugins 930: one pod was admitted although the node of the other was gone."""
    scenario = Scenario(
        nodes=(gpus("a", 1), gpus("b", 1)),
        jobs=(ring("x", 2),),
        failures=(Failure(at=5.0, node="b", lasts=20.0),),
    )
    world, policy = World(scenario, reports=True), build("gang")
    world.next_at()
    world.jump()
    seen = assemble(remember(ClusterState(), world.observe()), Trigger.ARRIVED)
    (place,) = policy.decide(seen, policy.begin())[0].decisions
    assert isinstance(place, Place)
    world.next_at()
    world.jump()  # b is gone
    assert isinstance(world.act(place), Refused)
    assert not any(n.replicas for n in world.nodes.values())


@whole
def test_a_gang_whose_node_fails_goes_back_whole(policy):
    failures = (Failure(at=5.0, node="b", lasts=20.0),)
    times = ran(policy, [gpus("a", 1), gpus("b", 1)], [ring("x", 2)], failures=failures)
    assert times["x"][1] == pytest.approx(25 + 50, abs=4)  # from the start, when b is back


@whole
def test_room_in_all_is_not_room(policy):
    """scheduler-plugins 429: three times four GPUs on 6, 2, 2 and 2 was tried for ever, and others
    starved.
    """
    nodes = [gpus("n0", 6), *(gpus(f"n{i}", 2) for i in (1, 2, 3)), gpus("back", 4, up=True)]
    nodes.append(gpus("late", 4))
    jobs = [
        ring("three", 3, gpu=4.0, work=300.0),
        *(ring(f"s{i}", 1, at=1.0, gpu=2.0, work=60.0) for i in range(4)),
    ]
    # Two nodes are down for a while: all together have twelve free, one at most has four.
    failures = (
        Failure(at=0.0, node="back", lasts=200.0),
        Failure(at=0.0, node="late", lasts=200.0),
    )
    times = ran(policy, nodes, jobs, failures=failures)
    assert all(times[f"s{i}"][1] == pytest.approx(61.0) for i in range(4))
    assert times["three"][0] == pytest.approx(200.0, abs=2)


@pytest.mark.parametrize("policy", REAL)
def test_what_cannot_be_placed_now_does_not_block_what_can(policy):
    """scheduler-plugins 682: an unschedulable group flooded the queue."""
    nodes = [gpus("a", 2), gpus("b", 2)]
    jobs = [
        *(ring(f"wide{i}", 4, work=40.0) for i in range(20)),
        *(ring(f"s{i}", 1, at=1.0, work=30.0, mode=Mode.NONE) for i in range(2)),
    ]
    failures = (Failure(at=0.0, node="b", lasts=500.0),)
    times = ran(policy, nodes, jobs, failures=failures)
    assert all(times[f"s{i}"][0] == 1.0 for i in range(2))


@whole
def test_a_chief_starts_with_its_workers(policy):
    """mpi-operator 131: the launcher was created after the workers, outside of the gang."""
    tasks = (
        Task(name="worker", replicas=2, least=2, most=2, request=Resources(cpu=1.0)),
        Task(name="chief", request=Resources(cpu=1.0)),
    )
    spec = JobSpec(tasks=tasks, speed=Speed(kind="ring"), checkpoint=Mode.SDK, total_steps=100)
    jobs = (
        Arrival(id="x", at=0.0, spec=spec, work=100.0, steps=100),
        Arrival(id="y", at=0.0, spec=spec, work=100.0, steps=100),
    )
    seen = []

    def watch(world):
        seen.extend(
            {r.task for r in job.replicas.values()} for job in world.jobs.values() if job.replicas
        )

    nodes = (Node(id="a", capacity=Resources(cpu=5.0)),)
    run(Scenario(nodes=nodes, jobs=jobs), policy, watch=watch)
    assert seen
    assert all(tasks == {"chief", "worker"} for tasks in seen)


def test_a_gang_larger_than_the_cluster_is_refused_at_submission():
    """YUNIKORN-520."""
    text = """
apiVersion: headway.dev/v1alpha1
kind: Workload
nodes: [{name: n, cpu: 4, gpu: 2, count: 2}]
jobs:
  - name: huge
    profile: {work: 100}
    spec: {tasks: [{name: worker, replicas: 5, resources: {requests: {gpu: 1}}}]}
"""
    with pytest.raises(ConfigError) as caught:
        to_scenario(parse(text, Workload, where="test"))
    assert "huge" in caught.value.message


@whole
def test_room_kept_for_one_that_is_gone_is_free_again(policy):
    """YUNIKORN-460: a place holder that nobody came for stayed."""
    nodes = [gpus("a", 4)]
    jobs = [
        ring("x", 3, work=300.0),
        ring("never", 4, at=1.0),
        ring("s", 1, at=2.0, work=500.0, mode=Mode.NONE),
    ]
    times = ran(policy, nodes, jobs)
    assert times["never"][0] == pytest.approx(100.0, abs=1)
    # s would have been in its way, and had its turn as soon as it had ended.
    assert times["s"][0] == pytest.approx(times["never"][1], abs=1)


@whole
def test_a_guest_gives_way_and_comes_back(policy):
    """What is free is used until the first in line can have all of it, and not a moment longer."""
    jobs = [
        ring("x", 3, work=300.0),
        ring("four", 4, at=1.0, work=400.0),
        ring("guest", 1, at=2.0, work=500.0),
    ]
    times = ran(policy, [gpus("a", 4)], jobs)
    assert times["guest"][0] == 2.0
    assert times["four"] == (pytest.approx(102.5, abs=1), pytest.approx(202.5, abs=1))
    assert times["guest"][1] == pytest.approx(202.5 + 2.5 + 402, abs=2)


@pytest.mark.parametrize("policy", ["dragon", "kips", "optimus", "elastic"])
def test_a_gang_that_has_enough_does_not_wait_for_more(policy):
    """YUNIKORN-1242: members beyond a full gang waited for a time-out."""
    jobs = [ring("x", 1, work=400.0), ring("y", 4, least=2, most=4, at=1.0, work=300.0)]
    times = ran(policy, [gpus("a", 4)], jobs)
    assert times["y"] == (1.0, pytest.approx(101.0))


# -- knavigator ----------------------------------------------------------------------------------

SIZES = (
    1, 4, 2, 8, 1, 16, 2, 3, 5, 1, 32, 2, 7, 4, 1, 12, 6, 2, 1, 24, 3, 8, 1, 2, 10, 5, 1, 20, 4, 2,
    1, 9, 6, 3, 28, 1, 2, 14, 4, 1, 5, 11, 2, 1, 18, 3, 6, 1, 8, 2, 4, 30, 1,
)  # fmt: skip
"""Of 53 jobs, in a fixed order."""


@pytest.mark.parametrize("policy", ["gang", "gang+locality", "kips"])
def test_occupancy(policy):
    """32 nodes, 53 gangs of 1 to 32 that each take whole nodes for a minute: how full are they
    until the last has started?
    """
    assert len(SIZES) == 53
    nodes = [gpus(f"n{i}", 8) for i in range(32)]
    jobs = [
        ring(f"j{i}", size, gpu=8.0, work=60.0 * size, mode=Mode.NONE)
        for i, size in enumerate(SIZES)
    ]
    times = ran(policy, nodes, jobs)
    last = max(end for _, end in times.values())
    assert sum(SIZES) * 60 / (32 * last) >= 0.95


@pytest.mark.untraced
@pytest.mark.parametrize("policy", ["gang", "gang+locality", "dragon", "kips"])
@pytest.mark.parametrize("jobs", [1, 700])
def test_scaling(policy, jobs):
    """700 nodes, and one job of 700 replicas or 700 jobs of one: all start at once."""
    nodes = [gpus(f"n{i}", 8) for i in range(700)]
    each = 700 // jobs
    times = ran(
        policy, nodes, [ring(f"j{i}", each, gpu=8.0, work=10.0 * each) for i in range(jobs)]
    )
    assert {start for start, _ in times.values()} == {0.0}
    assert max(end for _, end in times.values()) == pytest.approx(10.0)


@pytest.mark.parametrize("policy", ["gang+locality", "dragon"])
def test_topology(policy):
    """Twelve nodes behind three switches, some of them busy: three that share a switch are free
    behind one of them only, and they are n5, n7 and n8.
    """
    busy = {"n2": 1, "n4": 1, "n6": 1, "n10": 1, "n12": 1}
    nodes = [gpus(f"n{i}", 8, rack=f"switch-{(i - 1) // 4}") for i in range(1, 13)]
    held = [
        Arrival(
            id=f"b-{name}", at=0.0, work=1000.0, demand=1.0,
            spec=JobSpec(tasks=(Task(request=Resources(cpu=1.0, gpu=8.0)),)),
        )
        for name in busy
    ]  # fmt: skip
    where = {}

    class Pinned:
        """The busy ones are put where the scenario says."""

        name, listens = "pinned", True

        def begin(self):
            return build(policy).begin()

        def decide(self, snapshot, memory):
            pins = [
                Place(job=job.id, where=((ReplicaId(f"{job.id}/main-0"), job.id[2:]),))
                for job in snapshot.waiting
                if job.id.startswith("b-")
            ]
            if pins:
                return Plan(decisions=tuple(pins)), memory
            plan, memory = build(policy).decide(snapshot, memory)
            where.update({d.job: {n for _, n in d.where} for d in plan.decisions
                          if isinstance(d, Place)})  # fmt: skip
            return plan, memory

    jobs = (*held, ring("x", 3, at=1.0, gpu=8.0, work=30.0))
    simulate(Scenario(nodes=tuple(nodes), jobs=jobs), Pinned())
    assert where["x"] == {"n5", "n7", "n8"}


# -- promises ------------------------------------------------------------------------------------


def plain(name, work, *, at, replicas=1):
    """Of exactly known size; each of its replicas can fill the node."""
    task = Task(replicas=replicas, least=replicas, most=replicas)
    told = Expected(work=Estimate(value=work), demand=4.0)
    spec = JobSpec(tasks=(task,), expected=told)
    return Arrival(id=name, at=at, spec=spec, work=work, demand=4.0)


@pytest.mark.parametrize("work", [50.0, 100.0, 200.0, 400.0])
@pytest.mark.parametrize(
    "singles", [(50.0,) * 8, (40.0, 150.0, 75.0, 20.0, 110.0, 200.0, 60.0, 90.0)]
)
def test_a_promise_is_the_gangs_and_not_its_replicas(work, singles):
    """A gang of two beside eight single jobs: nobody is later than under fair sharing."""
    jobs = (
        plain("gang", work, at=0.0, replicas=2),
        *(plain(f"s{i}", size, at=12.0 * i) for i, size in enumerate(singles)),
    )
    there = [Node(id="a", capacity=Resources(cpu=4.0, memory=2.0**36))]
    fair, ours = ran("fair", there, jobs), ran("headway", there, jobs)
    for j in jobs:
        assert ours[j.id][1] - j.at <= 1.01 * (fair[j.id][1] - j.at) + 1
