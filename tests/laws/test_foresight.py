"""`project` and the memory backend agree on what a decision does."""

from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.backend.memory import MemoryBackend
from headway.core.cycle.cluster_state import ClusterState, assemble, remember
from headway.core.cycle.project import project
from headway.core.cycle.validate import check
from headway.core.model.decision import Move, Place, Plan, Scale, SetShare, Suspend
from headway.core.model.job import Phase, Task
from headway.core.model.snapshot import TABLES, Trigger
from headway.core.model.units import ReplicaId, Resources
from making import job, node

NODES, JOBS = ["a", "b", "c"], ["x", "y", "z"]
TASK = Task(name="worker", replicas=1, least=1, most=2, request=Resources(cpu=0.4))
PAIR = Task(name="worker", replicas=2, least=2, most=2, request=Resources(cpu=0.4))


def replicas(name):
    return st.sampled_from([ReplicaId.of(name, "worker", i) for i in range(2)])


@st.composite
def decisions(draw):
    name, there = draw(st.sampled_from(JOBS)), draw(st.sampled_from(NODES))
    first, second = (ReplicaId.of(name, "worker", i) for i in range(2))
    return draw(
        st.sampled_from(
            [
                SetShare(replica=first, limit=0.5, weight=2.0),
                Place(job=name, where=((first, there),)),
                Place(job=name, where=((first, there),), partial=True),
                Place(job=name, where=((second, there),), partial=True),
                Move(replica=first, to=there),
                Scale(job=name, task="worker", add=((second, there),)),
                Scale(job=name, task="worker", remove=(second,)),
                Suspend(job=name),
            ]
        )
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(decisions(), st.booleans()), max_size=25))
def test_foresight_is_what_happens(steps):
    jobs = [job(n, phase=Phase.PENDING, tasks=(PAIR if n == "z" else TASK,)) for n in JOBS]
    backend = MemoryBackend([node(n) for n in NODES], jobs)
    history = ClusterState()
    for decision, settle in steps:
        before = assemble(remember(history, backend.observe()), Trigger.NODE)
        plan = Plan(decisions=(decision,))
        if check(plan, before).accepted:
            foreseen = project(plan, before)
            expected = deepcopy({t: dict(getattr(foreseen, t)) for t in TABLES})
            backend.act(decision)
            after = assemble(remember(history, backend.observe()), Trigger.NODE)
            assert {t: dict(getattr(after, t)) for t in TABLES} == expected
        if settle:
            backend.settle()
