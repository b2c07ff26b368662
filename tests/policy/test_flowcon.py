"""FlowCon, line by line (docs/papers/flowcon.md)."""

import pytest

from headway.core.estimate.category import Category
from headway.core.model.job import Task
from headway.core.model.report import EMPTY, Usage
from headway.core.model.snapshot import Trigger
from headway.core.model.units import ReplicaId
from headway.policy.share.flowcon import PAPER, FlowCon, FlowConMemory
from making import heard, job, node, replica, snapshot

G, W, C = Category.GROWING, Category.WATCHED, Category.CONVERGED
AT = 40.0


def decide(policy, tracks, before, *, trigger=Trigger.TICK, cpu=1.0, interval=20.0, **given):
    """One run of Algorithm 1 over jobs with these tracks and categories. `limits`: the ceilings
    that they have, `own`: those that their users gave them, `usages`: what they use.
    """
    limits, own = given.get("limits") or {}, given.get("own") or {}
    s = snapshot(
        at=AT,
        trigger=trigger,
        nodes=(node(cpu=cpu),),
        jobs=[job(n, tasks=(Task(limit=own.get(n)),)) for n in tracks],
        replicas=[replica(n, limit=limits.get(n)) for n in tracks],
    )
    for name, track in tracks.items():
        s.replicas[f"{name}/main-0"].history = track
        s.replicas[f"{name}/main-0"].usage = given.get("usages", {}).get(name)
    categories = {ReplicaId.of(n, "main", 0): c for n, c in before.items()}
    memory = FlowConMemory(interval=interval, categories=categories)
    plan, after = policy.decide(s, memory)
    names = {k.job: v for k, v in after.categories.items()}
    return {d.replica.job: d.limit for d in plan.decisions}, names, plan, after


def test_the_published_limits_of_two_jobs():
    """Thesis 6.1.3: when MNIST is launched at 40 s, VAE is limited to 0.25 and MNIST to 1."""
    slow = heard(1.0, 0.98, cpu=1.0)
    limits, now, _, _ = decide(
        FlowCon(**PAPER), {"vae": slow, "mnist": EMPTY}, {"vae": W}, trigger=Trigger.STARTED
    )
    assert limits == {"vae": 0.25}  # a newcomer starts without a ceiling, and keeps it
    assert (now["vae"], now["mnist"]) == (C, G)


def test_a_watched_replica_keeps_its_limit_and_the_floor_holds():
    """Algorithm 1, lines 18 to 28, with VAE converged and MNIST watched: 0.25 and unchanged."""
    slow, quick = heard(1.0, 0.99), heard(1.0, 0.8)
    limits, now, _, _ = decide(FlowCon(**PAPER), {"vae": slow, "mnist": quick}, {"vae": C})
    assert (now["vae"], now["mnist"]) == (C, W)
    assert limits == {"vae": 0.25}


def test_the_floor_of_the_authors_code_depends_on_the_number_of_replicas():
    """β = 1 + 1/n: one third for one of two."""
    slow, quick = heard(1.0, 0.99), heard(1.0, 0.8)
    policy = FlowCon(**PAPER, floor_rule="count")
    limits, _, _, _ = decide(policy, {"vae": slow, "mnist": quick}, {"vae": C})
    assert limits == {"vae": pytest.approx(1 / 3)}


def test_growing_replicas_get_what_they_earn():
    """G is 0.05 and 0.025 a second: two thirds and one third of the node's two cores."""
    policy = FlowCon(**PAPER, threshold=0.01)
    quick, slower = heard(1.0, 0.5, cpu=1.0), heard(1.0, 0.75, cpu=1.0)
    limits, _, _, _ = decide(policy, {"a": quick, "b": slower}, {}, cpu=2.0)
    assert limits == {"a": pytest.approx(4 / 3), "b": pytest.approx(2 / 3)}


@pytest.mark.parametrize(
    ("used", "parts"),
    [
        ({"memory": (1.0, 4.0)}, (2 / 3, 1 / 9)),
        ({"memory": (4.0, 1.0)}, (1 / 3, 1 / 3)),
        ({"memory": (4.0, 1.0), "block_io": (14.0, 1.0)}, (1 / 8, 1 / 3)),
        ({"network_io": (4.0, 1.0)}, (1 / 3, 1 / 3)),
        ({"network_io": (4.0, None)}, (2 / 3, 1 / 3)),
        ({"block_io": (4.0, 0.0)}, (2 / 3, 1 / 3)),
        ({"cpu": (0.0, 1.0), "memory": (4.0, 1.0)}, (2 / 3, 1 / 3)),
    ],
)
def test_the_least_limit_of_all_resources_is_set(used, parts):
    """Algorithm 1, line 19: `a` grows twice as fast on the same CPU, and may need more of another
    resource. One that is not counted for all replicas does not count for any.
    """
    tracks = {"a": heard(1.0, 0.5, cpu=1.0), "b": heard(1.0, 0.75, cpu=1.0)}
    usages = {
        name: Usage(**{"cpu": 1.0, **{k: amounts[i] for k, amounts in used.items()}})
        for i, name in enumerate(tracks)
    }
    paper = {**PAPER, "threshold": 0.01}
    limits, _, _, _ = decide(FlowCon(**paper), tracks, {}, usages=usages)
    assert limits == {"a": pytest.approx(2 / 3), "b": pytest.approx(1 / 3)}
    every, _, _, _ = decide(FlowCon(**paper, resources="all"), tracks, {}, usages=usages)
    assert list(every.values()) == pytest.approx(parts)


def test_no_job_gets_more_than_its_user_allows():
    """It has earned two thirds of two cores, and may use one; all converged, no more either."""
    quick, slower = heard(1.0, 0.5, cpu=1.0), heard(1.0, 0.75, cpu=1.0)
    tracks, paper = {"a": quick, "b": slower}, FlowCon(**PAPER, threshold=0.01)
    own = {"a": 1.0, "b": 1.0}
    limits, _, _, _ = decide(paper, tracks, {}, cpu=2.0, limits={"a": 0.5}, own=own)
    assert limits == {"a": 1.0, "b": pytest.approx(2 / 3)}
    slow = heard(1.0, 0.99)
    limits, _, _, _ = decide(
        FlowCon(**PAPER), {"a": slow}, {"a": C}, limits={"a": 0.2}, own={"a": 0.4}
    )
    assert limits == {"a": 0.4}


def test_all_converged_means_free_competition_and_a_doubled_interval():
    slow = heard(1.0, 0.999)
    tracks, before = {"a": slow, "b": slow}, {"a": C, "b": C}
    limits, _, plan, after = decide(FlowCon(**PAPER), tracks, before, limits={"a": 0.25})
    assert limits == {"a": None}
    assert (plan.wake_after, after.interval) == (40.0, 40.0)
    _, _, _, later = decide(FlowCon(**PAPER), tracks, before, interval=40.0)
    assert later.interval == 80.0
    _, _, plan, _ = decide(FlowCon(**PAPER, backoff=False), tracks, before)
    assert plan.wake_after == 20.0


def test_an_event_starts_the_interval_over():
    slow = heard(1.0, 0.999)
    _, _, _, after = decide(
        FlowCon(**PAPER), {"a": slow}, {"a": C}, trigger=Trigger.FINISHED, interval=160.0
    )
    assert after.interval == 40.0  # all converged: doubled from the initial one


def test_the_papers_cold_start_counts_silence_as_no_growth_and_ours_does_not():
    tracks = {"a": heard(1.0, start=20.0), "b": heard(1.0, 0.5)}
    _, paper, _, _ = decide(FlowCon(**PAPER), tracks, {})
    _, ours, _, _ = decide(FlowCon(), tracks, {})
    assert (paper["a"], ours["a"]) == (W, G)


def test_unknown_growth_leaves_category_and_limit_as_they_are():
    limits, now, _, _ = decide(
        FlowCon(), {"a": EMPTY, "b": heard(1.0, 0.5)}, {"a": W}, limits={"a": 0.5}
    )
    assert now["a"] is W
    assert "a" not in limits


def test_on_a_node_without_growing_jobs_every_limit_stays():
    same = heard(1.0, 1.0)
    limits, _, _, _ = decide(FlowCon(**PAPER), {"a": same, "b": same}, {"a": W})
    assert limits == {}


def test_no_limit_falls_below_the_minimum():
    quick, crawling = heard(1.0, 0.1), heard(1.0, 0.9999)
    limits, _, _, _ = decide(
        FlowCon(**PAPER, threshold=1e-9), {"quick": quick, "crawling": crawling}, {}
    )
    assert limits["crawling"] == pytest.approx(0.01)


def test_the_threshold_does_not_depend_on_the_interval_in_ours():
    """Half of the range in one interval, at half of the node: growth efficiency 1."""
    for every in (10.0, 20.0):
        track = heard(1.0, 0.5, every=every, start=AT - 2 * every)
        growth = FlowCon(interval=every)._efficiency(
            _one(track).running[0], _one(track), every, 1.0
        )
        assert growth == pytest.approx(1 / 0.9 / 0.5)


def _one(track):
    s = snapshot(at=AT, jobs=[job("x")], replicas=[replica("x")])
    s.replicas["x/main-0"].history = track
    return s


def test_an_empty_node_forgets():
    s = snapshot(at=AT)
    plan, memory = FlowCon().decide(s, FlowConMemory(interval=80.0, categories={"x": C}))
    assert (plan.wake_after, memory.interval, memory.categories) == (None, 20.0, {})
