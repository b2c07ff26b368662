"""Placement pod by pod (`even`, `spread`): half-started jobs hold their room, and deadlocks end."""

import pytest

from headway.core.estimate.step_rate import Speed
from headway.core.model.capabilities import Capabilities
from headway.core.model.decision import CALM, Suspend
from headway.core.model.job import JobSpec, Phase, Task
from headway.core.model.units import Resources
from headway.policy.placement.kube_default import ByPodMemory, EvenByPod
from headway.policy.registry import build
from headway.sim.driver import simulate
from headway.sim.scenario import Arrival, Scenario
from making import job, node, replica, running, snapshot


def workers(count, cpu=1.0):
    request = Resources(cpu=cpu)
    return (Task(name="worker", replicas=count, least=count, most=count, request=request),)


def waiting(name, count):
    return job(name, phase=Phase.PENDING, tasks=workers(count))


def half(name, count, *there):
    """A job of which these many have a place."""
    started = job(name, phase=Phase.STARTING, tasks=workers(count))
    held = [
        replica(name, on=n, task="worker", index=i, phase=Phase.STARTING)
        for i, n in enumerate(there)
    ]
    return started, held


def stuck(at=0.0, **more):
    """Two gangs of three, each holding half of a cluster of four."""
    (x, xs), (y, ys) = half("x", 3, "a", "b"), half("y", 3, "c", "d")
    memory = ByPodMemory()
    memory.partial = {"x": None, "y": None}
    found = snapshot(nodes=list("abcd"), jobs=[x, y], replicas=[*xs, *ys], at=at, **more)
    return found, memory


def test_what_fits_of_a_gang_is_placed_and_the_rest_waits():
    plan, memory = EvenByPod().decide(
        snapshot(nodes="ab", jobs=[waiting("x", 3)]), EvenByPod().begin()
    )
    (place,) = plan.decisions
    assert place.partial
    assert place.where == (("x/worker-0", "a"), ("x/worker-1", "b"))
    assert memory.partial == {"x": None}


def test_a_gang_that_fits_is_placed_whole():
    plan, memory = EvenByPod().decide(
        snapshot(nodes="abc", jobs=[waiting("x", 3)]), EvenByPod().begin()
    )
    assert [(d.job, d.partial) for d in plan.decisions] == [("x", False)]
    assert memory is None


def test_a_gang_of_which_nothing_fits_just_waits():
    there = [replica("y", on="a")]
    s = snapshot(jobs=[job("y", cpu=1.0), waiting("x", 2)], replicas=there)
    assert EvenByPod().decide(s, None)[0] is CALM


@pytest.mark.parametrize(
    ("turns", "goes"), [(False, {"x": ["b", "c"]}), (True, {"x": ["b"], "y": ["c"]})]
)
def test_jobs_take_turns_by_default(turns, goes):
    x, xs = half("x", 3, "a")
    s = snapshot(nodes="abc", jobs=[waiting("y", 2), x], replicas=xs)
    memory = ByPodMemory()
    memory.partial = {"x": None}
    plan, memory = EvenByPod(turns=turns).decide(s, memory)
    assert {d.job: [n for _, n in d.where] for d in plan.decisions} == goes
    assert all(d.partial for d in plan.decisions)
    assert list(memory.partial) == list(goes)


def test_half_started_jobs_that_wait_for_each_other_are_given_time():
    s, memory = stuck(at=10.0)
    plan, memory = EvenByPod().decide(s, memory)
    assert (plan.decisions, plan.wake_after) == ((), 300.0)
    later, _ = stuck(at=200.0)
    plan, memory = EvenByPod().decide(later, memory)
    assert plan.wake_after == pytest.approx(110.0)


def test_a_deadlock_ends_with_the_youngest():
    s, memory = stuck(at=10.0)
    _, memory = EvenByPod().decide(s, memory)
    late, _ = stuck(at=310.0)
    plan, memory = EvenByPod().decide(late, memory)
    (end,) = plan.decisions
    assert isinstance(end, Suspend)
    assert (end.job, plan.wake_after) == ("y", 0.0)
    assert memory.sent_back == {"y": None}


def test_a_deadlock_lasts_where_nothing_can_be_suspended():
    s, memory = stuck(at=10.0)
    _, memory = EvenByPod().decide(s, memory)
    late, _ = stuck(at=310.0)
    late.capabilities = Capabilities(suspend=False)
    assert EvenByPod().decide(late, memory)[0] is CALM


def test_a_job_that_gave_way_waits_until_no_job_is_half_started():
    x, xs = half("x", 3, "a", "b")
    memory = ByPodMemory()
    memory.partial, memory.sent_back = {"x": None}, {"y": None}
    plan, memory = EvenByPod().decide(
        snapshot(nodes="abcd", jobs=[waiting("y", 3), x], replicas=xs), memory
    )
    assert [d.job for d in plan.decisions] == ["x"]
    done = job("x", tasks=workers(3))
    all_there = [replica("x", on=n, task="worker", index=i) for i, n in enumerate("abc")]
    plan, memory = EvenByPod().decide(
        snapshot(nodes="abcd", jobs=[waiting("y", 3), done], replicas=all_there), memory
    )
    assert [(d.job, len(d.where)) for d in plan.decisions] == [("y", 1)]
    assert not memory.sent_back


def test_no_deadlock_while_a_running_job_will_free_enough():
    x, xs = half("x", 3, "a", "b")
    memory = ByPodMemory()
    memory.partial = {"x": None, "gone": None}
    s = snapshot(
        nodes="abc", jobs=[x, job("r", cpu=1.0)], replicas=[*xs, replica("r", on="c")], at=900.0
    )
    plan, memory = EvenByPod().decide(s, memory)
    assert plan is CALM
    assert memory.partial == {"x": None}


def test_without_pending_or_half_started_jobs_nothing_is_due():
    assert EvenByPod().decide(running("x"), None)[0] is CALM


def gangs(*works, count=3):
    spec = job("x", tasks=workers(count)).spec
    return tuple(Arrival(id=f"g{i}", at=0.0, spec=spec, work=w) for i, w in enumerate(works))


def times(world):
    return {j.arrival.id: (j.started_at, j.finished_at) for j in world.finished}


def test_two_gangs_that_hold_each_other_up_are_ended_and_counted():
    """scheduler-plugins #114: each holds part of what the other needs, and either would fit."""
    nodes = tuple(node(n) for n in "abcd")
    world = simulate(Scenario(nodes=nodes, jobs=gangs(30.0, 60.0)), build("even"))
    assert world.deadlocks == 1
    assert times(world) == {"g0": (300.0, 310.0), "g1": (310.0, 330.0)}
    world = simulate(Scenario(nodes=nodes, jobs=gangs(30.0, 60.0)), build("even:turns=no"))
    assert world.deadlocks == 0
    assert times(world) == {"g0": (0.0, 10.0), "g1": (10.0, 30.0)}


def test_an_asynchronous_job_trains_before_it_is_whole():
    server = Task(name="ps", request=Resources(cpu=1.0))
    speed = Speed(kind="async", compute=1.0)
    spec = JobSpec(tasks=(server, *workers(3)), speed=speed)
    crowd = Arrival(id="s", at=0.0, spec=job("s", cpu=2.0).spec, work=20.0, demand=2.0)
    train = Arrival(id="t", at=0.0, spec=spec, work=60.0, steps=60)
    nodes = (node("a", cpu=2.0), node("b", cpu=2.0))
    world = simulate(Scenario(nodes=nodes, jobs=(crowd, train)), build("even"))
    # One worker for ten seconds, then three for the other fifty steps.
    assert times(world)["t"] == (0.0, pytest.approx(10.0 + 50 / 3))


def test_a_synchronous_job_stands_still_until_it_is_whole():
    server = Task(name="ps", request=Resources(cpu=1.0))
    spec = JobSpec(tasks=(server, *workers(3)), speed=Speed(compute=3.0))
    crowd = Arrival(id="s", at=0.0, spec=job("s", cpu=2.0).spec, work=20.0, demand=2.0)
    train = Arrival(id="t", at=0.0, spec=spec, work=180.0, steps=60)
    nodes = (node("a", cpu=2.0), node("b", cpu=2.0))
    world = simulate(Scenario(nodes=nodes, jobs=(crowd, train)), build("even"))
    assert times(world)["t"] == (10.0, pytest.approx(70.0))
