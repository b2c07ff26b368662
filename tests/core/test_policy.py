"""Chains, and one policy on many nodes."""

from headway.core.cycle.cluster_state import assemble, remember
from headway.core.cycle.policy import Chain, PerNode
from headway.core.model.decision import CALM, Plan, SetShare
from headway.core.model.job import Phase
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Observation, Trigger
from making import history, job, replica, running


@memory
class Seen:
    """For tests: which triggers a node saw, and when."""

    calls: list[tuple[str, float]]


@record
class Every:
    """For tests: halves every ceiling, and wants to be woken after a while."""

    name: str = "every"
    listens: bool = True
    wake: float | None = 10.0

    def begin(self):
        return Seen(calls=[])

    def decide(self, snapshot, memory):
        memory.calls.append((snapshot.trigger.value, snapshot.at))
        shares = tuple(SetShare(replica=r.id, limit=(r.limit or 1.0) / 2) for r in snapshot.running)
        look = tuple(snapshot.nodes)
        return Plan(decisions=shares, wake_after=self.wake, look=look), memory


@record
class Never(Every):
    name: str = "never"
    listens: bool = False

    def decide(self, _, memory):
        return CALM, memory


def test_a_chain_decides_on_what_the_plans_before_would_leave():
    chain = Chain(Every(), Every(wake=5.0))
    plan, _ = chain.decide(running("x"), chain.begin())
    assert [d.limit for d in plan.decisions] == [0.5, 0.25]
    assert (plan.wake_after, plan.look) == (5.0, ("a",))
    assert chain.name == "every+every"
    assert chain.listens


def test_a_chain_of_calm_policies_is_calm():
    chain = Chain(Never(), Never())
    assert chain.decide(running("x"), chain.begin())[0] is CALM
    assert not chain.listens


def test_one_plan_of_a_chain_passes_as_it_is():
    chain = Chain(Never(), Every(wake=None))
    plan, _ = chain.decide(running("x"), chain.begin())
    assert plan.wake_after is None
    assert len(plan.decisions) == 1


def test_only_nodes_that_changed_or_are_due_decide():
    policy = PerNode(Every())
    h = history(nodes=("a", "b"), jobs=[job("x")], replicas=[replica("x")])
    plan, mem = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    assert (plan.wake_after, plan.look) == (10.0, ("a", "b"))

    remember(h, Observation(at=4.0, jobs=(job("y"),), replicas=(replica("y", on="b"),)))
    plan, mem = policy.decide(assemble(h, Trigger.STARTED), mem)
    assert [d.replica for d in plan.decisions] == ["y/main-0"]
    assert (plan.wake_after, plan.look) == (6.0, ("a",))

    remember(h, Observation(at=10.0))
    plan, mem = policy.decide(assemble(h, Trigger.TICK), mem)
    assert [d.replica for d in plan.decisions] == ["x/main-0"]
    assert (plan.wake_after, plan.look) == (4.0, ("b",))
    assert mem.members["a"].calls == [("started", 0.0), ("tick", 10.0)]
    assert mem.members["b"].calls == [("started", 0.0), ("started", 4.0)]


def test_a_node_that_changes_at_its_tick_knows_that_it_changed():
    policy = PerNode(Every())
    h = history(jobs=[job("x")], replicas=[replica("x")])
    _, mem = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    remember(h, Observation(at=10.0, replicas=(replica("x", phase=Phase.MIGRATING),)))
    _, mem = policy.decide(assemble(h, Trigger.TICK), mem)
    assert mem.members["a"].calls[-1] == ("node", 10.0)


def test_a_node_that_is_gone_is_forgotten():
    policy = PerNode(Every())
    h = history(nodes=("a", "b"))
    _, mem = policy.decide(assemble(h, Trigger.NODE), policy.begin())
    remember(h, Observation(at=1.0, gone=("b",)))
    plan, mem = policy.decide(assemble(h, Trigger.NODE), mem)
    assert list(mem.members) == ["a"]
    assert plan.look == ("a",)


def test_a_policy_that_is_never_woken_leaves_no_wake_up_time():
    policy = PerNode(Never())
    h = history(jobs=[job("x")], replicas=[replica("x")])
    plan, mem = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    assert plan is CALM
    assert (mem.due, mem.agenda) == ({}, [])
    quiet = PerNode(Every(wake=None))
    plan, _ = quiet.decide(assemble(h, Trigger.STARTED), quiet.begin())
    assert len(plan.decisions) == 1
    assert plan.wake_after is None
