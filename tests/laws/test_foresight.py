"""`project` and a live backend agree on what a decision does."""

from copy import deepcopy
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.backend.live import LiveBackend
from headway.backend.memory import MemoryPlatform
from headway.core.cycle.cluster_state import ClusterState, assemble, remember
from headway.core.cycle.project import project
from headway.core.cycle.validate import check
from headway.core.model.decision import Move, Place, Plan, Scale, SetShare, Suspend
from headway.core.model.job import Elastic, JobSpec, Mode, Task
from headway.core.model.snapshot import TABLES, Trigger
from headway.core.model.units import ReplicaId, Resources
from headway.spec.runnable import RunnableJob
from making import node

NODES, JOBS = ["a", "b", "c"], ["x", "y", "z"]
ONE = Resources(cpu=0.4)
TASK = Task(name="worker", least=1, most=2, request=ONE, elastic=Elastic.INDEPENDENT)
PAIR = Task(name="worker", replicas=2, least=2, most=2, request=ONE)


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
                Move(replica=first, to=there),
                Scale(job=name, task="worker", add=((second, there),)),
                Scale(job=name, task="worker", remove=(second,)),
                Suspend(job=name),
            ]
        )
    )


class Live:
    """A live backend over records, and a clock that stands still."""

    def __init__(self):
        specs = {n: JobSpec(tasks=(PAIR if n == "z" else TASK,), checkpoint=Mode.SDK) for n in JOBS}
        jobs = {n: RunnableJob(id=n, at=0.0, spec=spec, commands={}) for n, spec in specs.items()}
        self.platform = MemoryPlatform.of(node(n) for n in NODES)
        self.backend = LiveBackend(self.platform, Path("nowhere"), jobs, lambda: 0.0)
        self.backend.wait(0.0)

    def settle(self):
        while not self.platform.settled:
            self.backend.wait(0.0)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(decisions(), st.booleans()), max_size=25))
def test_foresight_is_what_happens(steps):
    live, state = Live(), ClusterState()
    for decision, settle in steps:
        before = assemble(remember(state, live.backend.observe()), Trigger.NODE)
        plan = Plan(decisions=(decision,))
        if check(plan, before).accepted:
            foreseen = project(plan, before)
            expected = deepcopy({t: dict(getattr(foreseen, t)) for t in TABLES})
            live.backend.act(decision)
            after = assemble(remember(state, live.backend.observe()), Trigger.NODE)
            assert {t: dict(getattr(after, t)) for t in TABLES} == expected
        if settle:
            live.settle()
