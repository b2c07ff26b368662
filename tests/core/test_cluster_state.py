"""Observations in, snapshot out."""

from dataclasses import fields, replace

import pytest

from headway.core.cycle.cluster_state import ClusterState, assemble, remember
from headway.core.estimate.step_rate import Speed
from headway.core.model.capabilities import ALL, Capabilities
from headway.core.model.job import Estimate, Expected, Phase, Task, gang
from headway.core.model.report import Report, Usage
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import ReplicaId, Resources
from making import history, job, node, replica, running


def after(h, **seen):
    h = remember(h, Observation(at=seen.pop("at", h.at + 1), **seen))
    return assemble(h, Trigger.TICK)


def test_a_waiting_job_queues_until_it_is_placed():
    h = history(jobs=[job("x", phase=Phase.PENDING), job("y", phase=Phase.PENDING)])
    assert [j.id for j in assemble(h, Trigger.ARRIVED).waiting] == ["x", "y"]
    s = after(h, jobs=(job("x", phase=Phase.STARTING),))
    assert [j.id for j in s.waiting] == ["y"]


def test_the_queue_is_by_class_value_then_priority_then_arrival():
    def pending(name, **spec):
        made = job(name, phase=Phase.PENDING)
        return replace(made, spec=replace(made.spec, **spec))

    h = history(jobs=[pending("x"), pending("y", priority=2), pending("z", class_value=1)])
    s = after(h, jobs=(pending("w", priority=2),))
    assert [j.id for j in s.waiting] == ["z", "y", "w", "x"]
    s = after(h, jobs=(pending("x", class_value=1, priority=1),))
    assert [j.id for j in s.waiting] == ["x", "z", "y", "w"]
    s = after(h, jobs=(pending("z"),))
    assert [j.id for j in s.waiting] == ["x", "y", "w", "z"]


def test_an_ended_job_removes_its_replicas_and_is_reported_once():
    h = history(jobs=[job("x")], replicas=[replica("x")])
    s = after(h, jobs=(job("x", phase=Phase.SUCCEEDED),))
    assert (dict(s.jobs), dict(s.replicas), s.on("a"), s.of("x")) == ({}, {}, (), ())
    assert [j.id for j in s.changed.ended] == ["x"]
    assert s.changed.nodes == ("a",)
    assert after(h).changed.ended == ()


def test_requests_are_counted_where_replicas_are():
    h = history(jobs=[job("x", cpu=0.5), job("y")], replicas=[replica("x"), replica("y")])
    assert h.nodes["a"].taken == Resources(cpu=0.5)
    assert h.nodes["a"].nominal.cpu == pytest.approx(0.6)  # who asks for nothing counts as 0.1
    assert h.nodes["a"].count == 2
    after(h, replicas=(replica("x", phase=Phase.FAILED),))
    assert h.nodes["a"].taken == Resources()


def test_a_moving_replica_keeps_room_in_both_places():
    h = history(nodes=("a", "b"), jobs=[job("x", cpu=0.5)], replicas=[replica("x")])
    moving = replica("x", phase=Phase.MIGRATING)
    moving.bound_for = "b"
    s = after(h, replicas=(moving,))
    assert (h.nodes["a"].taken.cpu, h.nodes["b"].taken.cpu) == (0.5, 0.5)
    assert s.changed.nodes == ("a", "b")
    after(h, replicas=(replica("x", on="b"),))
    assert (h.nodes["a"].taken.cpu, h.nodes["b"].taken.cpu) == (0.0, 0.5)


def test_a_change_of_share_alone_does_not_stir_the_node():
    h = history(jobs=[job("x")], replicas=[replica("x")])
    s = after(h, replicas=(replica("x", limit=0.25),))
    assert s.replicas["x/main-0"].limit == 0.25
    assert s.changed.nodes == ()


def test_reports_travel_with_the_replica_through_a_restart():
    h = history(jobs=[job("x")], replicas=[replica("x")])
    said = Report(
        replica=ReplicaId("x/main-0"), since=0.0, at=1.0, step=3, value=2.0, usage=Usage(cpu=0.5)
    )
    s = after(h, reports=(said,))
    assert s.replicas["x/main-0"].usage.cpu == 0.5
    assert s.replicas["x/main-0"].attained == 0.5
    quiet = Report(replica=ReplicaId("x/main-0"), since=1.0, at=2.0)
    assert after(h, reports=(quiet,)).replicas["x/main-0"].attained == 0.5
    after(h, replicas=(replica("x", on=None, phase=Phase.PENDING),))
    s = after(h, replicas=(replica("x", on="a", phase=Phase.RUNNING),))
    assert s.replicas["x/main-0"].history.step == 3


def test_a_report_of_an_unknown_replica_is_ignored():
    h = history()
    s = after(h, reports=(Report(replica=ReplicaId("ghost/main-0"), since=0.0, at=1.0, value=1.0),))
    assert not s.replicas


def test_a_replica_of_no_job_is_ignored():
    s = after(history(), replicas=(replica("ghost"),))
    assert not s.replicas


def test_a_complete_look_forgets_what_it_does_not_show():
    h = history(
        nodes=("a", "b"), jobs=[job("x"), job("y")], replicas=[replica("x"), replica("y", on="b")]
    )
    s = after(h, complete=True, nodes=(node("a"),), jobs=(job("x"),), replicas=(replica("x"),))
    assert (list(s.nodes), list(s.jobs), list(s.replicas)) == (["a"], ["x"], ["x/main-0"])
    assert set(s.changed.nodes) == {"a", "b"}


def test_a_node_that_leaves_is_changed_and_one_unknown_is_not():
    h = history(nodes=("a", "b"))
    s = after(h, gone=("b", "c"))
    assert (list(s.nodes), s.changed.nodes) == (["a"], ("b",))


def test_a_node_that_changes_keeps_its_place_and_its_count():
    h = history(nodes=("a", "b"), jobs=[job("x", cpu=1)], replicas=[replica("x")])
    s = after(h, nodes=(node("a", up=False),))
    assert not s.nodes["a"].up
    assert s.nodes["a"].taken.cpu == 1
    assert s.order == {"a": 0, "b": 1}


def test_a_node_keeps_what_its_backend_says_of_it_when_its_load_changes():
    said = {
        "speed": 2.0, "rack": "r", "up": False, "cordoned": True, "images": (("i", 1.0),),
        "foreign": 0.5,
    }  # fmt: skip
    h = history(nodes=(replace(node("a"), **said),), jobs=[job("x", cpu=1)])
    s = after(h, replicas=(replica("x"),))
    ours = {"id", "capacity", "taken", "nominal", "count"}
    assert s.nodes["a"].count == 1
    assert {f.name for f in fields(s.nodes["a"])} == ours | set(said)
    assert {name: getattr(s.nodes["a"], name) for name in said} == said


def test_a_replica_may_leave_a_node_that_is_gone():
    h = history(nodes=("a", "b"), jobs=[job("x")], replicas=[replica("x")])
    after(h, gone=("a",))
    s = after(h, replicas=(replica("x", on="b"),))
    assert s.changed.nodes == ("b",)
    after(h, gone=("b",))
    assert after(h, replicas=(replica("x", phase=Phase.FAILED),)).changed.nodes == ()


def test_nodes_of_one_kind_are_filed_together():
    h = history(nodes=("a", "b", node("c", cpu=2.0)))
    assert sorted(h.alike.values()) == [[0, 1], [2]]
    after(h, jobs=(job("x"),), replicas=(replica("x", on="a"),))
    assert sorted(h.alike.values()) == [[0], [1], [2]]


def test_one_node_of_many_is_what_an_agent_would_see():
    s = running("x", on="a", nodes=("a", "b"))
    here, there = s.only("a", Trigger.TICK), s.only("b", Trigger.NODE)
    assert [r.id for r in here.running] == ["x/main-0"]
    assert (here.node.id, list(here.jobs), list(here.queue)) == ("a", ["x"], [])
    assert [r.id for r in here.on("a")] == ["x/main-0"]
    assert (there.running, list(there.replicas), there.trigger) == ((), [], Trigger.NODE)
    assert here.has("b")
    with pytest.raises(AttributeError):
        here.nonsense  # noqa: B018


def test_a_snapshot_of_one_node_knows_it():
    s = running("x")
    assert s.node.id == "a"
    assert s.request(s.running[0]) == Resources()


def test_history_starts_empty():
    s = assemble(ClusterState(), Trigger.TICK)
    assert not s.nodes
    assert s.on("a") == ()


def test_a_gang_is_named_by_task_and_index():
    j = job("x", tasks=(Task(name="ps"), Task(name="worker", replicas=2, least=2, most=2)))
    assert gang(j) == ("x/ps-0", "x/worker-0", "x/worker-1")
    assert j.spec.task("worker").replicas == 2
    assert j.priority == 0


def test_what_all_replicas_have_done_counts_for_a_job():
    """Two of one core each for 10 s, a quarter of the steps; then one of them leaves."""
    two = (Task(name="ps"), Task(name="worker", replicas=2, most=2))
    h = history(
        jobs=[job("x", tasks=two, total_steps=100.0)],
        replicas=[replica("x", task="worker", index=i) for i in range(2)],
    )

    def said(index, since, step):
        who = f"x/worker-{index}"
        return Report(replica=who, since=since, at=since + 10.0, step=step, usage=Usage(cpu=1.0))

    found = after(h, reports=(said(0, 0.0, 25.0), said(1, 0.0, None))).jobs["x"]
    assert found.remaining.value == pytest.approx(60.0)
    ended = (replica("x", task="worker", index=1, phase=Phase.SUCCEEDED),)
    found = after(h, replicas=ended, reports=(said(0, 10.0, 37.5),)).jobs["x"]
    assert found.remaining.value == pytest.approx(50.0)
    after(h, jobs=(job("x", phase=Phase.SUCCEEDED),))
    assert not h.totals


def test_what_is_left_of_a_job_is_known_while_it_waits_again():
    told = {"total_steps": 10.0}
    h = history(jobs=[job("x", **told), job("y")], replicas=[replica("x"), replica("y")])
    said = Report(replica=ReplicaId("x/main-0"), since=0.0, at=1.0, step=5.0, usage=Usage(cpu=1.0))
    known = after(h, reports=(said,)).jobs["x"]
    s = after(h, jobs=(job("x", phase=Phase.PENDING, **told), job("y", phase=Phase.PENDING)))
    assert s.jobs["x"].remaining == known.remaining
    assert s.jobs["x"].phase is Phase.PENDING
    assert s.jobs["y"].remaining is None
    newer = replace(job("x", **told), remaining=Estimate(value=7.0))
    assert after(h, jobs=(newer,)).jobs["x"] == newer


def test_of_a_distributed_job_the_steps_tell_what_is_left():
    told = Expected(work=Estimate(value=400.0, error=0.1))
    spec = {"speed": Speed(), "total_steps": 100.0, "expected": told}
    h = history(jobs=[job("x", **spec)], replicas=[replica("x")])
    said = Report(replica=ReplicaId("x/main-0"), since=0.0, at=1.0, step=25.0, usage=Usage(cpu=1.0))
    found = after(h, reports=(said,)).jobs["x"]
    assert found.remaining == Estimate(value=300.0, error=0.1)
    h = history(jobs=[job("y", speed=Speed())], replicas=[replica("y")])
    quiet = Report(replica=ReplicaId("y/main-0"), since=0.0, at=1.0, usage=Usage(cpu=1.0))
    assert after(h, reports=(quiet,)).jobs["y"].remaining is None


def test_capabilities_are_those_of_the_platform_and_of_the_job():
    own = replace(job("x"), capabilities=Capabilities(migrate=False))
    h = history(jobs=[own, job("y")], replicas=[replica("x"), replica("y")])
    s = after(h, capabilities=Capabilities(shares=False, scale=False))
    assert (s.can("x").migrate, s.can("x").scale, s.can("x").suspend) == (False, False, True)
    assert (s.can("y").migrate, s.can("y").scale) == (True, False)
    assert s.adjustable == ()
    said = Report(replica=ReplicaId("x/main-0"), since=0.0, at=1.0, usage=Usage(cpu=1.0))
    s = after(h, reports=(said,), capabilities=ALL)
    assert not s.can("x").migrate, "a report does not change it"
    assert [r.job for r in s.adjustable] == ["x", "y"]
    s = after(h, jobs=(job("x"),))
    assert s.can("x") == ALL, "None: as the platform"
