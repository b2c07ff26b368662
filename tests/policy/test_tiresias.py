"""Packing, strict first come first served, and least attained service with preemption."""

from dataclasses import replace

import pytest

from headway.core.cycle.cluster_state import ClusterState, assemble, remember
from headway.core.cycle.free_capacity import slots
from headway.core.model.capabilities import ALL, Capabilities
from headway.core.model.decision import CALM, Place, Suspend
from headway.core.model.job import JobSpec, Mode, Phase, Task
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import NOTHING, ReplicaId, Resources
from headway.policy.common.packing import Packing, gang_request
from headway.policy.gang.tiresias import LOWER, UPPER, Tiresias
from headway.policy.placement.fifo import Fifo
from headway.policy.registry import build
from headway.sim.driver import simulate
from headway.sim.scenario import Arrival, Costs, Failure, Scenario
from making import GIB, job, node, replica, snapshot


def gpus(count, each=1.0):
    request = Resources(gpu=each)
    return (Task(name="w", replicas=count, least=count, most=count, request=request),)


def box(name, gpu=4.0, **more):
    return replace(node(name, **more), capacity=Resources(cpu=gpu, memory=GIB, gpu=gpu))


def waits(name, count=1, **more):
    return job(name, phase=Phase.PENDING, tasks=gpus(count), **more)


def runs(name, on, count=1, **more):
    there = [replica(name, on=on, task="w", index=i) for i in range(count)]
    return job(name, tasks=gpus(count), **more), there


def spread_over(places):
    return {n: [node for _, node in places].count(n) for n in sorted({n for _, n in places})}


# -- packing -------------------------------------------------------------------------------------


def crowded():
    """Of four nodes with four GPUs each, four, two, one and none are free."""
    (x, xs), (y, ys), (z, zs) = runs("x", "b", 2), runs("y", "c", 3), runs("z", "d", 4)
    return snapshot(nodes=[box(n) for n in "abcd"], jobs=[x, y, z], replicas=[*xs, *ys, *zs])


@pytest.mark.parametrize(
    ("count", "goes"),
    [
        (1, {"c": 1}),
        (2, {"b": 2}),
        (3, {"a": 3}),
        (5, {"a": 4, "c": 1}),
        (6, {"a": 4, "b": 2}),
        (7, {"a": 4, "b": 2, "c": 1}),
        (8, {}),
    ],
)
def test_a_gang_lies_close_and_leaves_large_holes(count, goes):
    packing = Packing(crowded())
    assert packing.total.gpu == 7
    assert spread_over(packing.place(waits("g", count))) == goes
    assert packing.total.gpu == 7 - sum(goes.values())


def test_what_was_placed_before_in_a_cycle_counts():
    packing = Packing(crowded())
    for count, goes in ((1, {"c": 1}), (1, {"b": 1}), (4, {"a": 4}), (1, {"b": 1}), (1, {})):
        assert spread_over(packing.place(waits("g", count))) == goes


def test_a_gang_that_fits_only_by_its_sum_is_not_placed():
    """scheduler-plugins #429: three times four GPUs on free 6, 2, 2, 2."""
    nodes = [box("a", 6.0), *(box(n, 2.0) for n in "bcd")]
    packing = Packing(snapshot(nodes=nodes))
    before = packing.total
    assert packing.place(job("g", phase=Phase.PENDING, tasks=gpus(3, 4.0))) == ()
    assert packing.place(job("h", phase=Phase.PENDING, tasks=gpus(1, 7.0))) == ()
    assert (packing.total, packing.touched) == (before, {})


def test_a_node_that_is_down_has_no_room():
    assert Packing(snapshot(nodes=[box("a", up=False)])).place(waits("g")) == ()


def test_room_is_counted_by_what_is_scarcest():
    there = replace(box("a"), capacity=Resources(cpu=8.0, memory=4 * GIB, gpu=4.0))
    assert slots(there, Resources(cpu=3.0, gpu=1.0)) == 2
    assert slots(there, Resources(memory=GIB)) == 4
    assert slots(replace(there, taken=Resources(gpu=4.0)), Resources(gpu=0.5)) == 0
    assert slots(there, NOTHING) > 1000
    both = JobSpec(tasks=(Task(name="ps", request=Resources(cpu=1.0)), *gpus(3)))
    assert gang_request(both) == Resources(cpu=1.0, gpu=3.0)


def test_what_is_taken_and_released_can_be_tried_on_a_copy():
    s = crowded()
    packing = Packing(s)
    other = packing.copy()
    other.release(s.placed("z"))
    assert (other.total.gpu, packing.total.gpu) == (11, 7)
    assert spread_over(other.place(waits("g", 8))) == {"a": 4, "d": 4}
    packing.take_all(waits("h", 2).spec, ((ReplicaId("h/w-0"), "a"), (ReplicaId("h/w-1"), "c")))
    assert spread_over(packing.place(waits("g", 4))) == {"a": 3, "b": 1}


# -- fifo ----------------------------------------------------------------------------------------


def decided(policy, s, memory=None):
    plan, memory = policy.decide(s, policy.begin() if memory is None else memory)
    return plan.decisions, memory


def test_no_job_overtakes_the_first_that_waits():
    s = snapshot(nodes=[box("a")], jobs=[waits("x", 3), waits("y", 2), waits("z", 1)])
    decisions, _ = decided(Fifo(), s)
    assert [d.job for d in decisions] == ["x"]
    assert Fifo().decide(snapshot(nodes=[box("a")]), None)[0] is CALM


def test_fifo_does_not_try_again_a_job_that_did_not_fit_before():
    h = ClusterState()
    x, xs = runs("x", "a", 3)
    first = Observation(
        at=0.0, complete=True, nodes=(box("a"),), jobs=(x, waits("y", 2)), replicas=tuple(xs)
    )
    assert Fifo().decide(assemble(remember(h, first), Trigger.NODE), None)[0] is CALM
    more = Observation(at=1.0, jobs=(waits("z"),))
    assert Fifo().decide(assemble(remember(h, more), Trigger.ARRIVED), None)[0] is CALM
    gone = Observation(at=2.0, jobs=(replace(x, phase=Phase.SUCCEEDED),))
    plan, _ = Fifo().decide(assemble(remember(h, gone), Trigger.FINISHED), None)
    assert [d.job for d in plan.decisions] == ["y", "z"]


def test_fifo_tries_a_refused_job_again():
    """The backend refused the place: nothing has changed when it asks to look again."""
    h = ClusterState()
    first = Observation(at=0.0, complete=True, nodes=(box("a"),), jobs=(waits("x", 2),))
    (placed,), _ = decided(Fifo(), assemble(remember(h, first), Trigger.ARRIVED))
    later = assemble(remember(h, Observation(at=30.0)), Trigger.NODE)
    assert decided(Fifo(), later)[0] == (placed,)


# -- tiresias ------------------------------------------------------------------------------------


class Watched:
    """Cycles of the policy over looks that a test tells one by one."""

    def __init__(self, *nodes, quantum=100.0):
        self.policy, self.h = Tiresias(quantum=quantum), ClusterState()
        self.memory = self.policy.begin()
        self.see(0.0, nodes=nodes, complete=True)

    def see(self, at, **seen):
        s = assemble(remember(self.h, Observation(at=at, **seen)), Trigger.NODE)
        self.plan, self.memory = self.policy.decide(s, self.memory)
        return self.plan.decisions

    def started(self, at, name, on="a", count=1):
        started, there = runs(name, on, count)
        return self.see(at, jobs=(started,), replicas=tuple(there))


def test_a_job_that_has_used_its_quantum_is_preempted():
    w = Watched(box("a"))
    (place,) = w.see(0.0, jobs=(waits("old", 4),))
    assert (place.job, place.reason) == ("old", "least attained service")
    w.started(0.0, "old", count=4)
    assert w.memory.accounts["old"].queue == UPPER
    assert w.see(10.0, jobs=(waits("new", 2),)) == ()
    assert w.plan.wake_after == pytest.approx(15.0)  # four GPUs have had 100 s at 25
    (suspend,) = w.see(25.0)
    assert suspend == Suspend(job="old", reason=suspend.reason)
    leaving, there = runs("old", "a", 4)
    assert w.see(26.0, jobs=(replace(leaving, phase=Phase.SUSPENDING),)) == ()
    gone = [replace(r, node=None, phase=Phase.PENDING) for r in there]
    decisions = w.see(27.0, jobs=(waits("old", 4),), replicas=tuple(gone))
    assert [d.job for d in decisions] == ["new"]
    assert w.memory.accounts["old"].queue == LOWER
    assert w.memory.waiting == [0, 1]


def test_a_job_that_can_no_longer_be_suspended_stays_a_candidate_for_later():
    w = Watched(box("a"))
    w.see(0.0, jobs=(waits("old", 4),))
    w.started(0.0, "old", count=4)
    w.see(25.0)
    fixed = Capabilities(suspend=False)
    assert w.see(26.0, jobs=(waits("new", 2),), capabilities=fixed) == ()
    (suspend,) = w.see(27.0, jobs=(waits("more", 2),), capabilities=ALL)
    assert isinstance(suspend, Suspend)


def test_the_youngest_give_way_and_no_more_than_are_needed():
    w = Watched(box("a"), box("b"))
    w.see(0.0, jobs=tuple(waits(n, 2) for n in "wxyz"))
    for name, on in zip("wxyz", "aabb", strict=True):
        w.started(0.0, name, on, 2)
    assert [d.job for d in w.see(60.0, jobs=(waits("new", 3),))] == ["z", "y"]
    leaving = tuple(replace(runs(n, "b", 2)[0], phase=Phase.SUSPENDING) for n in "yz")
    assert w.see(60.5, jobs=(*leaving, waits("more", 1))) == (), "what is left will do for it"


def test_no_job_is_suspended_for_one_that_would_still_not_fit():
    pinned, there = runs("pinned", "a", 2, mode=Mode.NONE)
    w = Watched(box("a"))
    w.see(0.0, jobs=(pinned, waits("x", 2)), replicas=tuple(there))
    w.started(0.0, "x", count=2)
    assert w.see(90.0, jobs=(waits("new", 3),)) == ()
    # By the sum it would fit; on these nodes it does not.
    w = Watched(box("a", 3.0), box("b", 3.0))
    w.see(0.0, jobs=(waits("x", 3), waits("y", 3)))
    w.started(0.0, "x", "a", 3)
    w.started(0.0, "y", "b", 3)
    wide = job("wide", phase=Phase.PENDING, tasks=gpus(3, 2.0))
    assert w.see(90.0, jobs=(wide,)) == ()
    assert [d.job for d in w.see(91.0, jobs=(waits("new", 1),))] == ["y"]


def test_what_was_refused_is_decided_again():
    w = Watched(box("a"))
    assert [d.job for d in w.see(0.0, jobs=(waits("x", 4),))] == ["x"]
    assert [d.job for d in w.see(5.0, nodes=(box("a"),))] == ["x"], "nobody carried it out"
    assert w.memory.accounts["x"].attained == 0
    w.started(5.0, "x", count=4)
    w.see(31.0, jobs=(waits("new", 1),))
    assert list(w.memory.suspending) == ["x"]
    assert [d.job for d in w.see(32.0, nodes=(box("a"),))] == ["x"], "it still runs"


def test_jobs_that_ran_before_and_jobs_that_leave_the_queue():
    before, there = runs("before", "a", 4)
    w = Watched(box("a"))
    w.see(0.0, jobs=(before, waits("x")), replicas=tuple(there))
    assert w.plan.wake_after == pytest.approx(25.0)
    w.see(1.0, jobs=(waits("y"),))
    w.see(2.0, jobs=(replace(waits("x"), phase=Phase.CANCELLED),))
    assert w.memory.waiting == [1, 0]
    assert list(w.memory.accounts) == ["before", "y"]
    (place,) = w.see(3.0, jobs=(replace(before, phase=Phase.SUCCEEDED),))
    assert isinstance(place, Place)
    w.started(3.0, "y")
    assert w.see(4.0, jobs=(replace(waits("ghost"), phase=Phase.CANCELLED),)) == ()


def test_a_job_reported_twice_waits_once_and_an_ended_job_frees_nothing():
    w = Watched(box("a", 2.0))
    w.see(0.0, jobs=(waits("x"), waits("y")))
    w.started(0.0, "x")
    w.started(0.0, "y")
    w.see(110.0, jobs=(waits("z", 2),))
    assert list(w.memory.suspending) == ["y", "x"]
    w = Watched(box("a", 2.0))
    w.see(0.0, jobs=(waits("x"), waits("y")))
    w.started(0.0, "x")
    w.started(0.0, "y")
    w.see(105.0)
    w.see(110.0, jobs=(replace(runs("y", "a")[0], phase=Phase.SUCCEEDED),))
    assert [d.job for d in w.see(111.0, jobs=(waits("z", 2),))] == ["x"]
    w.see(112.0, jobs=(waits("z", 2), replace(runs("x", "a")[0], phase=Phase.SUSPENDING)))
    assert w.memory.waiting == [1, 0]


def test_small_ones_pass_large_ones_that_do_not_fit():
    w = Watched(box("a"))
    decisions = w.see(0.0, jobs=(waits("x", 3), waits("y", 2), waits("z", 1)))
    assert [d.job for d in decisions] == ["x", "z"]


def arrivals(*rows, mode=Mode.SDK):
    return tuple(
        Arrival(id=n, at=at, spec=JobSpec(tasks=gpus(g), checkpoint=mode), work=lasts * g)
        for n, at, lasts, g in rows
    )


def ends(world):
    return {j.arrival.id: j.finished_at for j in world.finished}


def test_a_short_job_need_not_wait_for_a_long_one():
    jobs = arrivals(("long", 0.0, 1000.0, 4), ("short", 500.0, 10.0, 4))
    free = Costs(save=0.0, restore=0.0)
    scenario = Scenario(nodes=(box("a"),), jobs=jobs, costs=free)
    assert ends(simulate(scenario, build("fifo"))) == {"long": 1000.0, "short": 1010.0}
    found = ends(simulate(scenario, build("tiresias:quantum=400")))
    assert found == {"short": pytest.approx(510.0), "long": pytest.approx(1010.0)}
    paid = replace(scenario, costs=Costs(save=2.0, restore=3.0))
    found = ends(simulate(paid, build("tiresias:quantum=400")))
    assert found == {"short": pytest.approx(512.0), "long": pytest.approx(1015.0)}


def test_a_failed_node_sends_its_jobs_back_with_what_they_have_had():
    jobs = arrivals(("x", 0.0, 100.0, 4), ("y", 0.0, 100.0, 4), ("z", 150.0, 10.0, 4))
    scenario = Scenario(
        nodes=(box("a"), box("b")), jobs=jobs, failures=(Failure(at=50.0, node="a", lasts=60.0),)
    )
    found = ends(simulate(scenario, build("tiresias:quantum=100")))
    assert found["y"] == 100.0
    assert found["x"] == pytest.approx(200.0)
    assert found["z"] == pytest.approx(160.0)
