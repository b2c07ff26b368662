"""Baselines, and names of policies."""

from dataclasses import fields

import pytest

from headway.core.cycle.free_capacity import load_of
from headway.core.cycle.policy import Chain, PerNode
from headway.core.cycle.project import project
from headway.core.cycle.validate import check
from headway.core.fairness.priority_weights import demand_of
from headway.core.fairness.reference import ReferenceJob
from headway.core.model.decision import CALM, Plan, SetShare
from headway.core.model.job import Estimate, Expected, Phase, Task
from headway.core.model.snapshot import Trigger
from headway.core.model.units import NOTHING, NodeId, ReplicaId, Resources
from headway.errors import ConfigError, UnknownName
from headway.policy.common.node_search import score
from headway.policy.placement.even import Even
from headway.policy.placement.fair_placement import FairPlacement
from headway.policy.placement.kube_default import EvenByPod, KubeDefault
from headway.policy.placement.spread import Spread
from headway.policy.registry import CHOICES, POLICIES, build
from headway.policy.share.fair import Fair
from headway.policy.share.headway import Headway
from making import GIB, job, node, replica, running, snapshot


def placed(s):
    plan, _ = Even().decide(s, None)
    return {d.job: [n for _, n in d.where] for d in plan.decisions}


def waiting(*names, **more):
    return [job(n, phase=Phase.PENDING, **more) for n in names]


def test_even_goes_round_the_nodes_in_order():
    s = snapshot(nodes=("a", "b"), jobs=waiting("x", "y", "z"))
    assert placed(s) == {"x": ["a"], "y": ["b"], "z": ["a"]}


def test_even_looks_at_requests_and_not_at_use():
    s = snapshot(
        nodes=("a", "b"), jobs=[job("big", cpu=0.6), *waiting("x")], replicas=[replica("big")]
    )
    assert placed(s) == {"x": ["b"]}


def picky(name, *nodes, replicas=1):
    task = Task(replicas=replicas, most=replicas, request=Resources(cpu=0.4), nodes=nodes)
    return job(name, phase=Phase.PENDING, tasks=(task,))


PLACERS = [
    "spread", "even", "headway", "gang", "gang+locality", "dragon", "kips", "optimus", "tiresias",
    "fifo",
]  # fmt: skip


@pytest.mark.parametrize("policy", PLACERS)
def test_a_task_goes_only_to_nodes_that_will_do(policy):
    """The best node, a, will not do for p; two of g fit on b beside it, and q has nowhere to go."""
    chosen = [picky("p", "b", "gone"), picky("g", "b", "c", replicas=3), picky("q")]
    s = snapshot(nodes=("a", "b", "c"), jobs=chosen)
    made = build(policy)
    plan, _ = made.decide(s, made.begin())
    where = {d.job: sorted(n for _, n in d.where) for d in plan.decisions}
    assert where == {"p": ["b"], "g": ["b", "c", "c"]}


def test_a_job_grows_only_where_it_may():
    """Node c is free, a too, but only b and c will do: b has room for one more, c for two."""
    worker = Task(
        name="worker", replicas=1, most=4, request=Resources(cpu=0.4), nodes=("b", "c", "gone")
    )
    s = snapshot(
        nodes=("a", "b", "c"),
        jobs=[job("x", tasks=(worker,))],
        replicas=[replica("x", on="b", task="worker")],
    )
    made = build("dragon")
    memory = made.begin()
    memory.acted_at = -1000.0
    plan, _ = made.decide(s, memory)
    (scaled,) = plan.decisions
    assert sorted(n for _, n in scaled.add) == ["b", "c", "c"]


def test_even_scores_as_kube_scheduler_does_without_rounding():
    """2 cores and 4 GiB, half of each taken after this pod: 50 for room, 100 for balance."""
    there = node(cpu=2.0, memory=4 * GIB)
    assert score(there, Resources(cpu=1.0, memory=2 * GIB)) == pytest.approx(150)
    assert score(there, Resources(cpu=1.0, memory=1 * GIB)) == pytest.approx(62.5 + 75)
    assert score(node(memory=0.0), Resources()) == pytest.approx(100 * (1 - 1.1 / 2))


def test_a_pod_without_requests_counts_as_a_little():
    taken, nominal = load_of([Resources(cpu=0.5)], 2)
    assert taken == Resources(cpu=0.5)
    assert nominal.cpu == pytest.approx(0.6)
    assert nominal.memory == 400 * 2**20


def test_even_fills_what_fits_and_leaves_the_rest_waiting():
    s = snapshot(nodes=("a",), jobs=waiting("x", "y", cpu=0.6))
    assert placed(s) == {"x": ["a"]}
    assert placed(snapshot(nodes=(node(up=False),), jobs=waiting("x"))) == {}


def test_even_starts_a_gang_whole_or_not_at_all():
    three = (Task(name="worker", replicas=3, least=3, most=3, request=Resources(cpu=1.0)),)
    jobs = [*waiting("gang", tasks=three), *waiting("small", cpu=1.0)]
    assert placed(snapshot(nodes=("a", "b"), jobs=jobs)) == {"small": ["a"]}
    assert placed(snapshot(nodes=("a", "b", "c", "d"), jobs=jobs)) == {
        "gang": ["a", "b", "c"],
        "small": ["d"],
    }


def test_small_replicas_of_a_gang_do_not_stand_in_the_way_of_its_large_ones():
    """One after another the workers leave one core on each node, and the chief asks for two."""

    def asks(workers):
        many = {"replicas": workers, "least": workers, "most": workers}
        worker = Task(name="worker", request=Resources(cpu=1.0), **many)
        return worker, Task(name="chief", request=Resources(cpu=2.0))

    nodes = (node("a", cpu=3.0), node("b", cpu=2.0))
    gang = waiting("gang", tasks=asks(3))
    s = snapshot(nodes=nodes, jobs=gang)
    (placed_,) = Even().decide(s, None)[0].decisions
    assert [name for name, _ in placed_.where] == [
        "gang/worker-0", "gang/worker-1", "gang/worker-2", "gang/chief-0",
    ]  # fmt: skip
    assert check(Plan(decisions=(placed_,)), s).accepted == (placed_,)
    too_many = waiting("many", tasks=asks(4))
    jobs = [*too_many, *waiting("small", cpu=1.0)]
    assert placed(snapshot(nodes=nodes, jobs=jobs)) == {"small": ["a"]}


def test_even_decides_nothing_without_pending_jobs():
    assert Even().decide(running("x"), Even().begin())[0] is CALM
    assert Even().decide(snapshot(nodes=(), jobs=waiting("x")), None)[0] is CALM


def test_crowded_nodes_are_distinguished_by_their_count():
    """Above ten pods without requests kube-scheduler sees no difference; we still do."""
    jobs = [job(f"j{i}") for i in range(23)]
    there = [replica(f"j{i}", on="a" if i < 12 else "b") for i in range(23)]
    assert placed(snapshot(nodes=("a", "b"), jobs=[*jobs, *waiting("x")], replicas=there)) == {
        "x": ["b"]
    }


def test_fair_takes_ceilings_and_weights_away():
    s = snapshot(
        jobs=[job("x"), job("y")], replicas=[replica("x", limit=0.5), replica("y", weight=3.0)]
    )
    plan, _ = Fair().decide(s, Fair().begin())
    assert plan.decisions == tuple(
        SetShare(replica=ReplicaId(f"{n}/main-0"), reason="the same weight for all") for n in "xy"
    )
    assert Fair().decide(running("x"), None)[0] is CALM


def test_fair_gives_users_the_same_weight_and_a_user_s_jobs_a_part_of_it():
    owners = {"x": "ann", "y": "ann", "z": "ann", "big": "ben"}
    s = snapshot(
        jobs=[job(name, owner=owner) for name, owner in owners.items()],
        replicas=[replica(name) for name in owners],
    )
    plan, _ = Fair().decide(s.only(NodeId("a"), Trigger.TICK), None)
    found = {d.replica.job: d.weight for d in plan.decisions}
    assert found["x"] == found["y"] == found["z"] == found["big"] / 3
    assert sum(found.values()) == 4.0
    assert {d.reason for d in plan.decisions} == {"the same weight for all users"}
    alone = snapshot(
        jobs=[job("x", owner="ann"), job("y", owner="ann")], replicas=[replica("x"), replica("y")]
    )
    assert Fair().decide(alone, None)[0] is CALM


HALF = Task(limit=0.5)


@pytest.mark.parametrize("policy", ["fair", "headway", "las", "srpt", "fsp", "specon", "flowcon"])
@pytest.mark.parametrize("lifted", [None, 0.5])
def test_no_policy_allows_a_replica_more_than_its_user_does(policy, lifted):
    """What is as it should be is not said again; what was lifted is put back."""
    there = [replica("x", limit=lifted), replica("y")]
    s = snapshot(jobs=[job("x", tasks=(HALF,)), job("y")], replicas=there)
    made = build(policy)
    plan, memory = made.decide(s, made.begin())
    found = {d.replica: d.limit for d in plan.decisions}
    assert found.get("x/main-0", lifted) == 0.5
    assert found.get("y/main-0") is None
    after = snapshot(jobs=list(s.jobs.values()), replicas=project(plan, s).running, at=10.0)
    assert not made.decide(after, memory)[0].decisions


def test_a_ceiling_of_the_user_is_a_ceiling_in_the_reference_world_too():
    """Of two on one core, one may use an eighth: the other is promised the rest."""
    few = Task(limit=0.125)
    told = Expected(work=Estimate(value=70.0), demand=1.0)
    jobs = [job("x", tasks=(few,), expected=told), job("y", expected=told)]
    s = snapshot(jobs=jobs, replicas=[replica("x", limit=0.125), replica("y")])
    policy = Headway()
    _, memory = policy.decide(s, policy.begin())
    assert memory.reference["x/main-0"].demand == 0.125
    assert memory.reference["y/main-0"].due == pytest.approx(80.0)
    assert demand_of(s, s.replicas["x/main-0"]) == 0.125


def test_a_name_means_a_combination():
    both = build("fair")
    assert isinstance(both, Chain)
    assert [m.name for m in both.members] == ["even", "fair"]
    assert type(build("spread")) is KubeDefault
    assert type(both.members[0]) is EvenByPod
    assert type(build("las").members[0]) is Even
    assert build("@spread:release=1.17").members[1] == Spread(release="1.17", reserve=True)
    assert type(build("specon").members[1]) is Spread
    chain = build("spread+flowcon:paper,threshold=0.1,backoff=no,signal=range")
    inner = chain.members[1].inner
    assert isinstance(chain.members[1], PerNode)
    assert (inner.threshold, inner.backoff, inner.signal, inner.cold_start) == (
        0.1, False, "range", "zero",
    )  # fmt: skip
    assert all(build(name).name == name for name in POLICIES)


def test_every_word_that_a_setting_is_by_itself_is_among_those_allowed():
    made = [entry.make() for entry in POLICIES.values()]
    words = [(f.name, getattr(m, f.name)) for m in made for f in fields(m) if f.name != "name"]
    assert all(value in CHOICES[key] for key, value in words if isinstance(value, str))


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("flwcon", UnknownName, "did you mean 'flowcon'"),
        ("flowcon:treshold=1", UnknownName, "did you mean 'threshold'"),
        ("flowcon:threshold=many", ConfigError, "must be a number"),
        ("fair:paper", ConfigError, "has no mode 'paper'"),
        ("flowcon:papr", ConfigError, "did you mean 'paper'?"),
        ("flowcon:signal", ConfigError, "did you mean 'signal=…'?"),
        ("flowcon:threshold=-1", ConfigError, "must be a number, 0 or more, not '-1'"),
        ("flowcon:threshold=inf", ConfigError, "must be a number"),
        ("flowcon:interval=0", ConfigError, "must be a number, above 0, not '0'"),
        ("flowcon:signal=loud", ConfigError, "signal cannot be 'loud' there are: range, maximum"),
        ("flowcon:soft=perhaps", ConfigError, "soft cannot be 'perhaps' there are: on"),
    ],
)
def test_a_wrong_name_says_what_would_be_right(name, error, says):
    with pytest.raises(error) as caught:
        build(name)
    assert says in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("request_", "now", "goes"),
    [
        pytest.param(NOTHING, 10.0, "b", id="in the reference world a is still taken"),
        pytest.param(Resources(cpu=0.5), 10.0, "b", id="and counts by what it asks for"),
        pytest.param(NOTHING, 200.0, "a", id="there too it has ended by now"),
    ],
)
def test_a_job_goes_where_fair_sharing_would_have_put_it(request_, now, goes):
    """On node a somebody was made to finish early, who would still be there under fair sharing."""
    policy = FairPlacement(PerNode(Headway()))
    memory = policy.begin()
    gone = ReferenceJob(demand=1.0, size=90.0, least=90.0, sure=True, due=100.0, left=True)
    gone.request = request_
    memory.members["a"] = Headway().begin()
    memory.members["a"].reference[ReplicaId("gone/main-0")] = gone
    waits = job("new", phase=Phase.PENDING)
    seen = snapshot(nodes=("a", "b"), jobs=[waits], at=now)
    plan, _ = policy.decide(seen, memory)
    assert [d.where for d in plan.decisions] == [(("new/main-0", goes),)]


@pytest.mark.parametrize("name", ["@fair", "@spread", "@even"])
def test_for_real_a_gang_is_started_whole_or_not_at_all(name):
    """Two gangs of two that fit only alone: in the simulator each gets a pod, for real one runs."""
    two = (Task(replicas=2, least=2, most=2, request=Resources(cpu=0.8)),)
    s = snapshot(nodes=("a", "b"), jobs=waiting("x", "y", tasks=two))

    def places(policy):
        plan, _ = policy.decide(s, policy.begin())
        return {(d.job, d.partial): len(d.where) for d in plan.decisions}

    assert places(build(name)) == {("x", False): 2}
    assert places(build(name[1:])) == {("x", True): 1, ("y", True): 1}
