"""`gang`, `locality`, `elastic` and `dragon`: who starts, where, and with how many."""

import pytest

from gangs import decide, gang, gpus, placed, tasks, there
from headway.core.cycle.cluster_state import ClusterState, assemble, remember
from headway.core.estimate.category import Category
from headway.core.estimate.step_rate import Speed
from headway.core.model.decision import CALM, Place, Scale, SetShare, Suspend
from headway.core.model.job import Mode, Phase
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import ReplicaId
from headway.policy.gang.dragon import Stage
from headway.policy.registry import build
from making import heard, job, replica, snapshot

# -- whole ---------------------------------------------------------------------------------------


def test_a_gang_starts_whole_or_not_at_all():
    s = snapshot(nodes=[gpus("a", 2)], jobs=[gang("x", 3), gang("y", 2, at=1.0, work=None)])
    assert placed("gang", s) == {"y": ["a"] * 3}
    assert placed("gang", snapshot(nodes=[gpus("a")], jobs=[gang("x", 3)])) == {"x": ["a"] * 4}


def test_nothing_to_do_is_calm():
    assert decide("gang", snapshot(nodes=[gpus("a")]))[0] is CALM
    assert decide("gang", snapshot(nodes=[], jobs=[gang("x", 1)]))[0] is CALM


def test_an_elastic_job_starts_with_what_there_is():
    s = snapshot(nodes=[gpus("a", 2)], jobs=[gang("x", 4, least=1, most=8)])
    assert placed("elastic", s) == {"x": ["a"] * 3}
    assert placed("dragon", s) == {"x": ["a"] * 3}
    assert placed("gang", s) == {}


def test_one_does_not_stand_in_anothers_way_for_ever():
    """Least requested first would put the parameter server where alone the worker has room."""
    s = snapshot(
        nodes=[gpus("a", 1, cpu=1.0), gpus("b", 0, cpu=0.9)],
        jobs=[gang("x", 1, cpu=1.0, ps=0.5)],
    )
    for policy in ("gang", "gang+locality", "kips"):
        plan, _ = decide(policy, s)
        (place,) = plan.decisions
        assert dict(place.where) == {"x/worker-0": "a", "x/ps-0": "b"}


def test_a_suspended_job_has_its_old_place_in_the_queue():
    seen = Observation(at=0.0, complete=True, nodes=(gpus("a", 1),), jobs=(gang("x", 1, at=5.0),))
    history = remember(ClusterState(), seen)
    history = remember(history, Observation(at=9.0, jobs=(gang("old", 1, at=1.0),)))
    assert placed("gang", assemble(history, Trigger.NODE)) == {"old": ["a", "a"]}


# -- near each other -----------------------------------------------------------------------------


def test_one_node_is_best_and_of_several_the_fullest():
    busy = [*there("b1", "b"), *there("b2", "b")]
    jobs = [gang(n, 1, phase=Phase.RUNNING) for n in ("b1", "b2")]
    s = snapshot(nodes=[gpus("a"), gpus("b")], jobs=[*jobs, gang("x", 2)], replicas=busy)
    assert placed("gang+locality", s) == {"x": ["b"] * 3}
    assert placed("gang", s) == {"x": ["a", "a", "a"]}
    assert placed("dragon:paper", s) == {"x": ["a"] * 3}


def test_else_the_fewest_nodes_with_the_parameter_server_where_most_are():
    nodes = [gpus("a", 1), gpus("b", 3), gpus("c", 2)]
    s = snapshot(nodes=nodes, jobs=[gang("x", 5)])
    (place,) = decide("gang+locality", s)[0].decisions
    where = dict(place.where)
    assert where["x/ps-0"] == "b"
    assert sorted(n for name, n in where.items() if "worker" in name) == ["b"] * 3 + ["c"] * 2


def test_a_gang_stays_in_one_rack_if_one_holds_it():
    nodes = [gpus("a", 3, rack="r"), gpus("b", 2, rack="s"), gpus("c", 2, rack="s"),
             gpus("d", 1, rack="t"), gpus("e", 1, rack="t")]  # fmt: skip
    assert placed("gang+locality", snapshot(nodes=nodes, jobs=[gang("x", 4)])) == {
        "x": ["b", "b", "b", "c", "c"]
    }
    assert placed("gang+locality", snapshot(nodes=nodes, jobs=[gang("x", 5)])) == {
        "x": ["a", "a", "a", "a", "b", "b"]
    }


def test_the_authors_code_begins_where_most_of_one_task_fits():
    """Defect 6: room for many parameter servers counts as much as room for workers."""
    nodes = [gpus("a", 0, cpu=16.0), gpus("b", 2, cpu=4.0), gpus("c", 2, cpu=4.0)]
    s = snapshot(nodes=nodes, jobs=[gang("x", 3)])
    (paper,) = decide("dragon:by_total=off", s)[0].decisions
    (ours,) = decide("dragon", s)[0].decisions
    assert dict(paper.where)["x/ps-0"] == "a"
    assert dict(ours.where)["x/ps-0"] == "b"


# -- the first in line ---------------------------------------------------------------------------


def queue(policy, *more, work=100.0, at=0.0, mode=Mode.SDK, long=100.0, **running):
    """X runs on all but one GPU; big waits for four, and others behind it."""
    x = gang("x", 3, phase=Phase.RUNNING, work=long, **running)
    big = gang("big", 4, at=1.0, work=work, mode=mode)
    s = snapshot(nodes=[gpus("a")], jobs=[x, big, *more], replicas=there("x", "a", "a", "a"), at=at)
    return decide(policy, s)


def test_room_is_reserved_for_the_first_job_and_used_by_jobs_that_end_in_time():
    plan, memory = queue("gang", gang("small", 1, at=2.0, work=20.0, mode=Mode.NONE))
    assert [d.job for d in plan.decisions] == ["small"]
    assert memory.reserved.job == "big"
    assert memory.reserved.at == pytest.approx(100 * (1 / 3 + 0.03))
    assert memory.backfilled == {}


def test_a_job_that_would_delay_the_first_waits_or_is_backfilled():
    slow = gang("slow", 1, at=2.0, work=900.0, mode=Mode.NONE)
    assert queue("gang", slow)[0] is CALM
    plan, memory = queue("gang", gang("slow", 1, at=2.0, work=900.0))
    assert plan.decisions[0].reason == "backfilled in reserved capacity; may be suspended"
    assert memory.backfilled == {"slow": None}


def test_a_job_outside_the_reservation_may_start():
    x = gang("x", 3, phase=Phase.RUNNING)
    big, other = gang("big", 4, at=1.0), gang("slow", 1, at=2.0, work=None, mode=Mode.NONE)
    s = snapshot(
        nodes=[gpus("a"), gpus("b", 1)], jobs=[x, big, other], replicas=there("x", "a", "a", "a")
    )
    assert placed("gang+locality", s) == {"slow": ["b", "b"]}


def test_a_backfilled_job_is_suspended_when_the_rest_is_free():
    """And what it leaves is kept until it has left."""
    backfilled = gang("small", 1, at=2.0, phase=Phase.RUNNING, work=900.0)
    big = gang("big", 4, at=1.0)
    third = gang("third", 1, at=3.0, work=1.0)
    first = Observation(
        at=10.0, complete=True, nodes=(gpus("a"),), jobs=(backfilled, big, third),
        replicas=tuple(there("small", "a")),
    )  # fmt: skip
    policy, history = build("gang"), remember(ClusterState(), first)
    memory = policy.begin()
    memory.backfilled["small"] = None
    plan, memory = policy.decide(assemble(history, Trigger.FINISHED), memory)
    (suspend,) = plan.decisions
    assert suspend == Suspend(job="small", reason=suspend.reason)
    assert plan.wake_after == 1.0
    leaving = gang("small", 1, at=2.0, phase=Phase.SUSPENDING, work=900.0)
    saves = tuple(there("small", "a", phase=Phase.SUSPENDING))
    history = remember(history, Observation(at=11.0, jobs=(leaving,), replicas=saves))
    plan, memory = policy.decide(assemble(history, Trigger.TICK), memory)
    assert plan.decisions == ()
    assert memory.reserved.firm


def test_backfilled_jobs_stay_where_they_do_not_help():
    backfilled = gang("small", 1, at=2.0, phase=Phase.RUNNING)
    x, big = gang("x", 2, phase=Phase.RUNNING, work=None), gang("big", 4, at=1.0)
    seen = snapshot(
        nodes=[gpus("a")], jobs=[x, backfilled, big],
        replicas=[*there("x", "a", "a"), *there("small", "a")],
    )  # fmt: skip
    policy = build("gang")
    memory = policy.begin()
    memory.backfilled["small"] = None
    plan, memory = policy.decide(seen, memory)
    assert plan is CALM
    assert memory.reserved.at is None  # nobody knows when x ends


def test_a_job_that_can_never_fit_delays_no_other():
    jobs = [gang("huge", 9), gang("y", 4, at=1.0, work=None, mode=Mode.NONE)]
    s = snapshot(nodes=[gpus("a")], jobs=jobs)
    plan, memory = decide("gang", s)
    assert [d.job for d in plan.decisions] == ["y"]
    assert len(memory.too_large) == 1
    # A larger cluster gives new hope.
    s = snapshot(nodes=[gpus("a"), gpus("b", 8)], jobs=jobs[:1])
    plan, memory = build("gang").decide(s, memory)
    assert [d.job for d in plan.decisions] == ["huge"]


def test_what_starts_in_this_cycle_will_end_too():
    """Else who comes with it would seem to have no room in an empty cluster, and be passed over."""
    jobs = [gang("x", 2), gang("wide", 3), gang("long", 1, work=900.0)]
    plan, memory = decide("gang", snapshot(nodes=[gpus("a", 3)], jobs=jobs))
    assert [d.job for d in plan.decisions] == ["x", "long"]
    assert memory.too_large == []
    assert memory.reserved.job == "wide"
    assert memory.reserved.at == pytest.approx(100 * (1 / 2 + 0.02))
    assert memory.backfilled == {"long": None}
    jobs[0] = gang("x", 2, work=None)
    _, memory = decide("gang", snapshot(nodes=[gpus("a", 3)], jobs=jobs[:2]))
    assert (memory.reserved.job, memory.reserved.at) == ("wide", None)


def test_what_found_no_room_is_not_looked_at_again_until_some_is_free():
    s = snapshot(nodes=[gpus("a", 1)], jobs=[gang("x", 2), gang("y", 2, at=1.0)])
    _, memory = decide("gang", s)
    assert len(memory.misfits) == 1
    calm = assemble(remember(ClusterState(), Observation(at=1.0)), Trigger.TICK)
    _, memory = build("gang").decide(calm, memory)
    assert len(memory.misfits) == 1
    _, memory = build("gang").decide(snapshot(nodes=[gpus("a", 2)]), memory)
    assert memory.misfits == []


def test_a_reservation_stands_until_it_is_due():
    policy, x = build("gang"), gang("x", 3, phase=Phase.RUNNING, work=30.0)
    seen = Observation(
        at=0.0, complete=True, nodes=(gpus("a"),), jobs=(x, gang("big", 4)),
        replicas=tuple(there("x", "a", "a", "a")),
    )  # fmt: skip
    history = remember(ClusterState(), seen)
    _, memory = policy.decide(assemble(history, Trigger.ARRIVED), policy.begin())
    first = memory.reserved
    history = remember(history, Observation(at=1.0))
    _, memory = policy.decide(assemble(history, Trigger.TICK), memory)
    assert memory.reserved is first
    history = remember(history, Observation(at=first.at + 1))
    _, memory = policy.decide(assemble(history, Trigger.TICK), memory)
    assert memory.reserved.at == first.at + 1  # late: it may end at any moment
    history = remember(history, Observation(at=99.0, jobs=(gang("big", 4, phase=Phase.CANCELLED),)))
    _, memory = policy.decide(assemble(history, Trigger.TICK), memory)
    assert memory.reserved is None


def test_a_leaving_job_is_as_good_as_gone():
    x = gang("x", 3, phase=Phase.SUSPENDING, work=None)
    s = snapshot(
        nodes=[gpus("a")], jobs=[x, gang("big", 4)],
        replicas=there("x", "a", "a", "a", phase=Phase.SUSPENDING), at=7.0,
    )  # fmt: skip
    assert decide("gang", s)[1].reserved.at == 7.0


# -- workers taken -------------------------------------------------------------------------------


def starved(policy, *, at=40.0, left=1000.0, chief=False, wide=("a", "a", "b"), nodes=None):
    """X has more workers than it needs; y has waited for 40 s."""
    x = gang("x", 3, least=1, most=4, phase=Phase.RUNNING, work=left, chief=chief)
    y = gang("y", 2, least=2, most=2, work=10.0)
    replicas = there("x", *wide)
    if chief:
        replicas.append(replica("x", on="a", task="chief"))
    s = snapshot(nodes=nodes or [gpus("a", 3), gpus("b", 1)], jobs=[x, y], replicas=replicas, at=at)
    made = build(policy)
    memory = made.begin()
    memory.since = {"x": 0.0, "y": 0.0}
    s.changed = type(s.changed)()
    return made.decide(s, memory)


def test_for_a_job_that_waits_too_long_others_release_isolated_workers_first():
    plan, memory = starved("dragon", chief=True)
    (scale,) = plan.decisions
    assert scale == Scale(
        job="x", task="worker", remove=(ReplicaId("x/worker-2"),), reason=scale.reason
    )
    assert memory.reserved.awaits == ("x",)
    assert memory.acted_at == 40.0
    assert plan.wake_after == 1.0


def test_worker_0_gives_last_however_lonely_it_is():
    """Its parameter server is elsewhere, with the others."""
    x = gang("x", 3, least=1, most=3, phase=Phase.RUNNING, work=None)
    y = gang("y", 2, work=10.0)
    there_ = there("x", "b", "a", "a", ps="a")
    s = snapshot(nodes=[gpus("a", 2), gpus("b", 1)], jobs=[x, y], replicas=there_, at=40.0)
    s.changed = type(s.changed)()
    plan, _ = decide("dragon:starve_after=0", s)
    assert [d.remove for d in plan.decisions] == [("x/worker-2", "x/worker-1")]


def test_no_worker_is_released_before_it_is_time_and_the_policy_wakes_then():
    plan, memory = starved("dragon", at=10.0)
    assert plan.decisions == ()
    assert plan.wake_after == 20.0
    assert starved("dragon:tick=off", at=10.0)[0] is CALM
    assert memory.acted_at is None


def test_no_worker_is_released_where_that_costs_more_than_it_gains():
    assert starved("dragon", left=60.0)[0] is CALM
    plan, _ = starved("dragon:weigh=off", left=60.0)
    assert [type(d) for d in plan.decisions] == [Scale]


def test_no_worker_is_released_in_vain():
    """Even all that x can spare would not be enough."""
    nodes = [gpus("a", 1), gpus("b", 1)]
    assert starved("dragon", wide=("a", "b"), nodes=nodes)[0] is CALM
    assert starved("dragon:carry_on=off", wide=("a", "b"), nodes=nodes)[1].acted_at == 40.0


def test_the_authors_code_makes_room_for_workers_alone():
    """Defect 2: there is room for y's workers at once, and none for its parameter server."""
    x = gang("x", 1, phase=Phase.RUNNING, cpu=1.0, ps=0.5, work=None)
    y = gang("y", 1, cpu=1.0, ps=0.5)
    s = snapshot(nodes=[gpus("a", 4, cpu=2.5)], jobs=[x, y], replicas=there("x", "a"), at=40.0)
    s.changed = type(s.changed)()
    plan, memory = decide("dragon:count_ps=off,starve_after=5", s)
    assert plan.decisions == ()
    assert not memory.reserved.firm


def test_what_was_made_for_one_is_not_anothers():
    """Defect 3: without a reservation the next in line takes what was made for the first."""
    x = gang("x", 2, least=1, most=2, phase=Phase.RUNNING, work=1000.0)
    y, z = gang("y", 2, least=2, most=2), gang("z", 1, at=39.0, work=None)
    s = snapshot(nodes=[gpus("a", 3)], jobs=[x, y, z], replicas=there("x", "a", "a"), at=40.0)
    s.changed = type(s.changed)()
    assert [type(d) for d in decide("dragon", s)[0].decisions] == [Scale]
    assert [type(d) for d in decide("dragon:reserve=off", s)[0].decisions] == [Scale, Place]


def test_the_authors_code_stops_at_one_it_cannot_help():
    """Defect 4."""
    x = gang("x", 3, phase=Phase.RUNNING)
    jobs = [x, gang("y", 2), gang("z", 1, at=1.0)]
    s = snapshot(nodes=[gpus("a", 4)], jobs=jobs, replicas=there("x", "a", "a", "a"), at=40.0)
    s.changed = type(s.changed)()
    assert placed("dragon", s) == {"z": ["a", "a"]}
    assert placed("dragon:carry_on=off", s) == {}


def test_converged_jobs_give_first():
    jobs = [gang(n, 2, least=1, most=2, phase=Phase.RUNNING, work=1000.0) for n in "xz"]
    y = gang("y", 1)
    s = snapshot(
        nodes=[gpus("a")], jobs=[*jobs, y],
        replicas=[*there("x", "a", "a"), *there("z", "a", "a")], at=40.0,
    )  # fmt: skip
    s.changed = type(s.changed)()
    assert decide("dragon", s)[0].decisions[0].job == "x"
    policy = build("dragon:converged=on")
    memory = policy.begin()
    memory.stages["z"] = Stage(category=Category.CONVERGED, judged_at=39.0)
    memory.stages["gone"] = Stage()
    plan, memory = policy.decide(s, memory)
    assert plan.decisions[0].job == "z"
    assert list(memory.stages) == ["z"]
    assert plan.look == ("a",)


# -- workers added -------------------------------------------------------------------------------


def alone(policy, *, at=100.0, work=1000.0, nodes=None, memory=None, wide=("a",), most=4, **more):
    x = gang("x", 1, least=1, most=most, phase=Phase.RUNNING, work=work, **more)
    s = snapshot(
        nodes=nodes or [gpus("b"), gpus("a", 2)], jobs=[x], replicas=there("x", *wide), at=at
    )
    return decide(policy, s, memory)


def test_free_room_goes_first_to_jobs_that_run_near_their_parameter_server():
    plan, memory = alone("dragon")
    (scale,) = plan.decisions
    assert scale.add[0] == ("x/worker-1", "a")
    assert memory.acted_at == 100.0
    plan, _ = alone("dragon:near_ps=off,weigh=off")
    assert [n for _, n in plan.decisions[0].add] == ["b", "b", "b"]
    plan, _ = alone("dragon:near_ps=only,weigh=off")
    assert [n for _, n in plan.decisions[0].add] == ["a"]


def test_a_worker_that_slows_a_job_down_is_not_added():
    """From another node it would have to wait for the network."""
    plan, _ = alone("dragon", nodes=[gpus("a", 1), gpus("b")], most=9, wide=("a",), work=100.0)
    added = [n for d in plan.decisions for _, n in d.add]
    assert 0 < len(added) < 8


def test_a_restart_must_pay():
    assert alone("dragon", work=10.0)[0] is CALM
    assert len(alone("dragon:weigh=off", work=10.0)[0].decisions) == 1
    assert len(alone("dragon", work=None)[0].decisions) == 1  # unknown: as the paper does


def test_workers_are_added_beside_their_own_kind_and_in_the_rack():
    nodes = [gpus("z", 1), gpus("a", 1, rack="r"), gpus("b", 2, rack="s"), gpus("c", 2, rack="r")]
    plan, _ = alone("dragon:weigh=off", nodes=nodes, wide=("a", "b"))
    assert [n for _, n in plan.decisions[0].add] == ["b", "c"]


def test_growth_waits_its_turn_and_is_woken_for_it():
    policy = build("dragon")
    memory = policy.begin()
    memory.acted_at = 70.0
    plan, _ = alone("dragon", memory=memory)
    assert plan.decisions == ()
    assert plan.wake_after == 30.0
    memory.acted_at = 70.0
    assert alone("dragon:tick=off", memory=memory)[0] is CALM
    assert alone("dragon:tick=off")[0].wake_after is None


def test_nothing_is_added_while_another_job_waits():
    x = gang("x", 1, least=1, most=4, phase=Phase.RUNNING, work=1000.0)
    s = snapshot(
        nodes=[gpus("a", 3)], jobs=[x, gang("big", 3, work=None)], replicas=there("x", "a"), at=100
    )
    s.changed = type(s.changed)()
    assert decide("dragon:starve_after=999,tick=off", s)[0] is CALM
    plan, _ = decide("dragon:starve_after=999,weigh=off", s)
    assert [len(d.add) for d in plan.decisions] == [2]


def test_a_job_that_is_changing_is_left_alone():
    x = gang("x", 2, least=1, most=4, phase=Phase.RUNNING, work=1000.0)
    half = [*there("x", "a"), replica("x", on="a", task="worker", index=1, phase=Phase.STOPPING)]
    s = snapshot(nodes=[gpus("a")], jobs=[x], replicas=half, at=100.0)
    assert decide("dragon", s)[0] is CALM


def test_converged_jobs_do_not_grow_and_are_looked_at():
    policy = build("dragon:converged=on,interval=20")
    x = gang("x", 1, least=1, most=4, phase=Phase.RUNNING, work=1000.0)
    flat = heard(1.0, 0.5, 0.5, 0.5, 0.5)
    told = [
        type(r)(id=r.id, job=r.job, task=r.task, node=r.node, history=flat) for r in there("x", "a")
    ]
    memory = policy.begin()
    for at in (60.0, 80.0, 100.0):
        s = snapshot(nodes=[gpus("a")], jobs=[x], replicas=told, at=at)
        memory.acted_at = at
        plan, memory = policy.decide(s, memory)
        assert plan.wake_after == 20.0
        assert plan.look == ("a",)
    assert memory.stages["x"].category == "converged"
    memory.acted_at = None
    plan, _ = policy.decide(s, memory)
    assert plan.decisions == ()
    assert build("dragon:converged=on").decide(snapshot(nodes=["a"]), policy.begin())[0] is CALM


# -- equal speed ---------------------------------------------------------------------------------


def test_workers_of_a_synchronous_job_get_the_speed_of_the_slowest():
    x = gang("x", 2, phase=Phase.RUNNING)
    nodes = [gpus("a"), gpus("fast", speed=2.0)]
    s = snapshot(nodes=nodes, jobs=[x], replicas=there("x", "a", "fast"))
    plan, _ = decide("gang", s)
    assert {d.replica: d.limit for d in plan.decisions if isinstance(d, SetShare)} == {
        "x/worker-0": 1.0, "x/worker-1": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"phase": Phase.STARTING}, id="does not run yet"),
        pytest.param({"kind": "async"}, id="nobody waits for anybody"),
        pytest.param({"alike": True}, id="nodes are alike"),
        pytest.param({"lost": True}, id="a node is gone"),
        pytest.param({"half": True}, id="a worker starts"),
    ],
)
def test_no_ceilings_where(change):
    x = gang("x", 2, phase=change.get("phase", Phase.RUNNING))
    if change.get("kind"):
        x = job("x", tasks=tasks(2), speed=Speed(kind="async"))
    speed = 1.0 if change.get("alike") else 2.0
    nodes = [gpus("a"), *([] if change.get("lost") else [gpus("fast", speed=speed)])]
    replicas = there("x", "a", "fast")
    if change.get("half"):
        replicas[2] = replica("x", on="fast", task="worker", index=1, phase=Phase.STARTING)
    s = snapshot(nodes=nodes, jobs=[x], replicas=replicas)
    assert not [d for d in decide("gang", s)[0].decisions if isinstance(d, SetShare)]


def test_a_ceiling_that_is_no_longer_needed_is_taken_away():
    x = gang("x", 1, phase=Phase.RUNNING)
    capped = [replica("x", on="a", task="ps"), replica("x", on="a", task="worker", limit=0.5)]
    plan, _ = decide("gang", snapshot(nodes=[gpus("a")], jobs=[x], replicas=capped))
    assert [d.limit for d in plan.decisions] == [None]


# -- names ---------------------------------------------------------------------------------------


def test_parts_make_one_policy():
    both = build("gang+locality")
    assert (both.name, both.local, both.elastic) == ("gang+locality", True, False)
    whole = build("gang:restart=5+locality+elastic:starve_after=9")
    assert (whole.local, whole.elastic, whole.restart, whole.starve_after) == (True, True, 5, 9)
    chain = build("dragon+fair")
    assert [m.name for m in chain.members] == ["dragon", "fair"]
    paper = build("dragon:paper")
    assert (paper.starve_after, paper.count_ps, paper.weigh) == (120.0, False, False)
