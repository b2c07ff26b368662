"""`kips`: near each other, workers and their CPU by load; and `optimus`: by marginal gain."""

from dataclasses import replace

import pytest

from gangs import SPEED, decide, gang, gpus, there
from headway.core.cycle.cluster_state import ClusterState, assemble, remember
from headway.core.estimate.step_rate import Speed
from headway.core.model.decision import CALM, Place, Scale, SetShare
from headway.core.model.job import Estimate, Expected, Job, JobSpec, Mode, Phase, Task
from headway.core.model.report import Usage
from headway.core.model.snapshot import Changes, Observation, Trigger
from headway.core.model.units import Resources
from headway.policy.registry import build
from making import job, node, replica, snapshot


def cores(name, cpu=8.0, **more):
    return node(name, cpu=cpu, **more)


def cpu_job(name, workers=2, *, at=0.0, phase=Phase.PENDING, kind="sync", limit=2.0, work=900.0):
    """A parameter server of one core, workers of two that could use eight."""
    request = Resources(cpu=2.0)
    worker = Task(name="worker", replicas=workers, least=1, most=4, request=request, limit=limit)
    tasks = (Task(name="ps", request=Resources(cpu=1.0)), worker)
    told = Expected(work=Estimate(value=work), demand=8.0)
    speed = Speed(kind=kind, compute=1.0, transfer=0.01, penalty=4.0)
    spec = JobSpec(
        tasks=tasks, speed=speed, expected=told, total_steps=work, checkpoint=Mode.SDK
    )  # fmt: skip
    return Job(id=name, spec=spec, submitted_at=at, phase=phase)


def using(name, *nodes, used=2.0, limit=2.0):
    """Its replicas, heard of: the workers use so much of their ceilings."""
    found = there(name, *nodes)
    return found[:1] + [replace(r, limit=limit, usage=Usage(cpu=used)) for r in found[1:]]


def limits(plan):
    return {d.replica: d.limit for d in plan.decisions if isinstance(d, SetShare)}


def kips(s, policy="kips", **remembered):
    made = build(policy)
    memory = made.begin()
    for name, value in remembered.items():
        setattr(memory, name, value)
    return made.decide(s, memory)


# -- where ---------------------------------------------------------------------------------------


def test_workers_go_where_their_parameter_server_is():
    s = snapshot(nodes=[cores("a", 3.0), cores("b"), cores("c")], jobs=[cpu_job("x", 3)])
    (place,) = [d for d in kips(s)[0].decisions if isinstance(d, Place)]
    assert {n for _, n in place.where} == {"b"}


def test_a_task_that_does_not_fit_there_goes_where_it_leaves_least_free():
    s = snapshot(nodes=[cores("a", 5.0), cores("b", 4.1), cores("c", 2.9)], jobs=[cpu_job("x", 4)])
    (place,) = [d for d in kips(s)[0].decisions if isinstance(d, Place)]
    assert [n for _, n in place.where] == ["a", "a", "a", "b", "b"]


def test_as_many_as_fit_start_and_none_where_the_least_does_not():
    s = snapshot(nodes=[cores("a", 5.0)], jobs=[cpu_job("x", 4), cpu_job("y", 4, at=1.0)])
    places = [d for d in kips(s)[0].decisions if isinstance(d, Place)]
    assert [(d.job, len(d.where)) for d in places] == [("x", 3)]


def test_a_job_that_asks_for_nothing_has_room_anywhere():
    s = snapshot(nodes=[node("a", cpu=0.0)], jobs=[job("x", phase=Phase.PENDING)])
    assert [d.job for d in kips(s)[0].decisions] == ["x"]


# -- how many ------------------------------------------------------------------------------------


def running(*replicas, at=100.0, jobs=None, nodes=None, **more):
    jobs = jobs or [cpu_job("x", phase=Phase.RUNNING)]
    return snapshot(nodes=nodes or [cores("a")], jobs=jobs, replicas=replicas, at=at, **more)


def test_a_job_that_uses_what_it_has_gets_another_worker():
    plan, memory = kips(running(*using("x", "a", "a")))
    (scale,) = [d for d in plan.decisions if isinstance(d, Scale)]
    assert scale.add == (("x/worker-2", "a"),)
    assert memory.adjusted == {"x": 100.0}
    assert not limits(plan)  # it is about to start again


@pytest.mark.parametrize(
    ("replicas", "memory"),
    [
        pytest.param(using("x", "a", "a", used=1.0), {}, id="uses too little"),
        pytest.param(there("x", "a", "a"), {}, id="not heard of"),
        pytest.param(using("x", "a", "a"), {"adjusted": {"x": 70.0}}, id="changed a moment ago"),
        pytest.param(using("x", "a", "a"), {"due": 105.0}, id="not yet time"),
    ],
)
def test_no_worker_is_added_where(replicas, memory):
    plan, _ = kips(running(*replicas), **memory)
    assert not [d for d in plan.decisions if isinstance(d, Scale)]
    assert plan.wake_after == (5.0 if "due" in memory else 15.0)


@pytest.mark.parametrize(
    ("used", "remembered", "left"),
    [
        pytest.param(0.1, {}, 1, id="hardly anything"),
        pytest.param(0.5, {}, 1, id="a quarter"),
        pytest.param(0.7, {}, None, id="enough"),
        pytest.param(0.1, {"x": 80.0}, None, id="changed a moment ago"),
    ],
)
def test_a_job_that_uses_little_releases_workers(used, remembered, left):
    x = cpu_job("x", 3, phase=Phase.RUNNING)
    s = running(*using("x", "a", "a", "a", used=used), jobs=[x])
    s.changed = Changes()
    plan, memory = kips(s, since=remembered or {"x": 0.0})
    taken = [len(d.remove) for d in plan.decisions if isinstance(d, Scale)]
    assert taken == ([] if left is None else [3 - left])
    assert plan.look == memory.looks == ("a",)  # how is it doing next time?


@pytest.mark.parametrize("least", [0, 1])
def test_a_job_of_one_worker_has_none_to_give_back(least):
    """It had more before it was suspended: they are remembered, and are not there."""
    x = cpu_job("x", phase=Phase.RUNNING)
    ps, worker = x.spec.tasks
    x = replace(x, spec=replace(x.spec, tasks=(ps, replace(worker, least=least))))
    gone = replica("x", on=None, task="worker", index=1, phase=Phase.PENDING)
    s = running(*using("x", "a", used=0.1), gone, jobs=[x])
    s.changed = Changes()
    plan, memory = kips(s, since={"x": 0.0})
    assert not [d for d in plan.decisions if isinstance(d, Scale)]
    assert not memory.adjusted


def test_the_best_speed_up_for_a_core_goes_first():
    """Y has one worker and gains more by a second than x by a third."""
    jobs = [cpu_job("x", phase=Phase.RUNNING), cpu_job("y", phase=Phase.RUNNING)]
    s = running(*using("x", "a", "a"), *using("y", "a"), jobs=jobs, nodes=[cores("a", 10.0)])
    plan, _ = kips(s)
    assert [d.job for d in plan.decisions if isinstance(d, Scale)] == ["y"]


def test_an_end_is_a_reason_to_adjust_at_once():
    x = cpu_job("x", phase=Phase.RUNNING)
    seen = Observation(
        at=0.0, complete=True, nodes=(cores("a"),), replicas=tuple(using("x", "a", "a")),
        jobs=(x, cpu_job("y")),
    )  # fmt: skip
    history = remember(ClusterState(), seen)
    gone = Observation(at=100.0, jobs=(cpu_job("y", phase=Phase.SUCCEEDED),))
    s = assemble(remember(history, gone), Trigger.FINISHED)
    plan, _ = kips(s, due=114.0, adjusted={"y": 99.0})
    assert [d.job for d in plan.decisions if isinstance(d, Scale)] == ["x"]


def test_workers_are_given_to_one_that_waits():
    x = cpu_job("x", 3, phase=Phase.RUNNING, work=9000.0)
    s = running(*using("x", "a", "a", "a"), jobs=[x, cpu_job("y", 1, at=1.0)])
    plan, memory = kips(s)
    (scale,) = [d for d in plan.decisions if isinstance(d, Scale)]
    assert scale.remove == ("x/worker-2",)
    assert memory.adjusted == {"x": 100.0}
    plan, _ = kips(s, adjusted={"x": 70.0})
    assert not [d for d in plan.decisions if isinstance(d, Scale)]
    assert plan.wake_after == 15.0


def test_either_half_can_be_left_out():
    s = running(*using("x", "a", "a", limit=1.0))
    assert all(isinstance(d, SetShare) for d in kips(s, "kips:workers=off")[0].decisions)
    assert all(isinstance(d, Scale) for d in kips(s, "kips:ceilings=off")[0].decisions)
    assert kips(snapshot(nodes=["a"]))[0] is CALM


# -- how much CPU --------------------------------------------------------------------------------


def test_cores_without_demand_are_shared_by_the_workers():
    plan, _ = kips(running(*using("x", "a", "a")), "kips:workers=off")
    assert limits(plan) == {"x/worker-0": 3.5, "x/worker-1": 3.5}  # 8 - 1 - 4 are spare


def test_synchronous_workers_get_no_more_than_the_slowest():
    nodes = [cores("a", 5.0), cores("b")]
    x = cpu_job("x", phase=Phase.RUNNING)
    s = running(*using("x", "a", "b"), nodes=nodes, jobs=[x])
    assert set(limits(kips(s, "kips:workers=off")[0]).values()) == {4.0}
    x = cpu_job("x", phase=Phase.RUNNING, kind="async")
    s = running(*using("x", "a", "b"), nodes=nodes, jobs=[x])
    assert limits(kips(s, "kips:workers=off")[0]) == {"x/worker-0": 4.0, "x/worker-1": 8.0}


def test_ceilings_come_down_when_another_job_arrives():
    """In the same cycle in which the newcomer is placed."""
    x = cpu_job("x", phase=Phase.RUNNING)
    s = running(*using("x", "a", "a", limit=3.5), jobs=[x, cpu_job("y", 1, at=1.0)])
    plan, _ = kips(s, "kips:workers=off")
    assert [d.job for d in plan.decisions if isinstance(d, Place)] == ["y"]
    assert limits(plan) == {"x/worker-0": 2.0, "x/worker-1": 2.0}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"limit": 3.4}, id="too little to change"),
        pytest.param({"phase": Phase.STARTING}, id="does not run"),
        pytest.param({"half": True}, id="a worker is leaving"),
    ],
)
def test_ceilings_stay_where(change):
    phase = change.get("phase", Phase.RUNNING)
    replicas = using("x", "a", "a", limit=change.get("limit", 2.0))
    if change.get("half"):
        replicas[2] = replace(replicas[2], phase=Phase.STOPPING)
    s = running(*replicas, jobs=[cpu_job("x", phase=phase)])
    assert not limits(kips(s, "kips:workers=off")[0])


def test_a_worker_on_a_node_that_is_gone_keeps_what_it_asked_for():
    x = cpu_job("x", phase=Phase.RUNNING, limit=None)
    s = running(*using("x", "a", "gone", limit=None), jobs=[x])
    assert set(limits(kips(s, "kips:workers=off")[0]).values()) == {2.0}


def test_nothing_changes_on_nodes_where_nothing_changed():
    s = running(*using("x", "a", "a"))
    s.changed = Changes()
    assert not kips(s, "kips:workers=off")[0].decisions


# -- optimus -------------------------------------------------------------------------------------


def test_optimus_gives_workers_to_the_job_they_save_most():
    """Of two alike the one with more left; each keeps its least."""
    jobs = [
        gang("short", 2, least=1, most=4, phase=Phase.RUNNING, work=50.0),
        gang("long", 1, least=1, most=4, phase=Phase.RUNNING, work=5000.0),
    ]
    replicas = [*there("short", "a", "a"), *there("long", "a")]
    s = snapshot(nodes=[gpus("a", 4)], jobs=jobs, replicas=replicas)
    plan, memory = decide("optimus", s)
    assert memory.targets == {"short": 1, "long": 3}
    assert [(d.job, d.remove) for d in plan.decisions] == [("short", ("short/worker-1",))]
    assert plan.wake_after == 1.0
    # Once they are gone, the others come.
    s = snapshot(
        nodes=[gpus("a", 4)], jobs=jobs, replicas=[*there("short", "a"), *there("long", "a")], at=2
    )
    plan, _ = build("optimus").decide(s, memory)
    assert [(d.job, len(d.add)) for d in plan.decisions] == [("long", 2)]


def test_optimus_starts_jobs_with_what_it_has_for_them():
    jobs = [gang("x", 2, least=1, most=6, work=1000.0), gang("y", 1, work=1000.0)]
    plan, memory = decide("optimus", snapshot(nodes=[gpus("a", 4)], jobs=jobs))
    assert [(d.job, len(d.where) - 1) for d in plan.decisions] == [("x", 3), ("y", 1)]
    assert memory.targets == {"x": 3}
    assert memory.slot == 600.0


def test_optimus_leaves_within_a_slot_what_it_has_given():
    policy = build("optimus")
    memory = policy.begin()
    memory.slot = 600.0
    s = snapshot(nodes=[gpus("a", 4)], jobs=[gang("x", 2, least=1, most=6)], at=10.0)
    plan, _ = policy.decide(s, memory)
    assert [(d.job, len(d.where) - 1) for d in plan.decisions] == [("x", 2)]
    memory.slot = 600.0
    plan, _ = build("optimus:prompt=off").decide(s, memory)
    assert plan.decisions == ()
    assert plan.wake_after == 590.0


def test_optimus_does_not_guess():
    """Without a size there is no gain; more workers than can be had are not promised."""
    jobs = [gang("x", 1, least=1, most=6, work=None), gang("y", 9, least=9, most=9)]
    _, memory = decide("optimus", snapshot(nodes=[gpus("a", 4)], jobs=jobs))
    assert memory.targets == {"x": 1}
    _, memory = decide("optimus", snapshot(nodes=[], jobs=jobs[:1]))
    assert memory.targets == {}
    assert decide("optimus", snapshot(nodes=[gpus("a")]))[0].wake_after is None


def test_optimus_stops_where_more_workers_do_not_help():
    stiff = gang("x", 1, least=1, most=20, work=1000.0)
    stiff = replace(stiff, spec=replace(stiff.spec, speed=replace(SPEED, transfer=0.1)))
    _, memory = decide("optimus", snapshot(nodes=[gpus("a", 32)], jobs=[stiff]))
    assert memory.targets == {"x": 3}  # the square root of 1 / 0.1


def test_a_job_that_asks_for_nothing_takes_no_part_of_the_cluster():
    free = Task(name="worker", replicas=1, least=1, most=3)
    told = Expected(work=Estimate(value=900.0), demand=1.0)
    one = job("x", phase=Phase.PENDING, tasks=(free,), expected=told)
    _, memory = decide("optimus", snapshot(nodes=[node("a", cpu=4.0)], jobs=[one]))
    assert memory.targets == {"x": 3}
    assert replica("x").node == "a"
