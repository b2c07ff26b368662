"""What is left of a job is known after each interruption."""

from dataclasses import replace

import pytest

from headway.core.cycle.policy import Chain
from headway.core.model.decision import Move, Plan, Suspend
from headway.core.model.job import Estimate, Expected, JobSpec, Mode
from headway.core.model.units import ReplicaId
from headway.policy.placement.even import Even
from headway.sim.scenario import Arrival, Failure, Scenario
from making import node
from scenarios import run

X = ReplicaId("x/main-0")
BREAKS = (Failure(at=33.0, job="x"), Failure(at=61.0, job="x"))


class Interrupts:
    """Looks every 10 s, and decides once, at 40 s. At each report it compares what is known of the
    job with what is true.
    """

    name, listens, world = "interrupts", True, None

    def __init__(self, decision):
        self.decision, self.errors = decision, []

    def begin(self):
        return None

    def decide(self, snapshot, memory):
        found, true = snapshot.replicas.get(X), self.world.jobs.get("x")
        if found and found.history.windows and found.history.windows[-1].at == snapshot.at:
            self.errors.append(snapshot.jobs["x"].remaining.value - 100.0 + true.done)
        due = 40.0 <= snapshot.at < 50.0 and X in {r.id for r in snapshot.running}
        decisions = (self.decision,) if due and self.decision else ()
        return Plan(decisions=decisions, wake_after=10.0, look=tuple(snapshot.nodes)), memory


@pytest.mark.parametrize(
    ("mode", "decision", "failures"),
    [
        (Mode.SDK, None, ()),
        (Mode.SDK, Suspend(job="x"), ()),
        (Mode.SDK, Move(replica=X, to="b"), ()),
        (Mode.SDK, None, BREAKS),
        (Mode.SDK, Suspend(job="x"), BREAKS),
        (Mode.NONE, None, BREAKS),
        (Mode.NONE, None, (Failure(at=33.0, node="a", lasts=20.0),)),
    ],
)
@pytest.mark.parametrize("known", ["steps", "declared"])
def test_what_is_left_is_right_at_every_report(mode, decision, failures, known):
    spec = JobSpec(checkpoint=mode, total_steps=1000.0)
    if known == "declared":
        spec = replace(spec, total_steps=None, expected=Expected(work=Estimate(value=100.0)))
    x = Arrival(id="x", at=0.0, spec=spec, work=100.0, steps=1000.0)
    nodes = (node("a"), node("b", speed=2.0))
    scenario = Scenario(nodes=nodes, jobs=(x,), failures=failures)
    interrupts = Interrupts(decision)

    def watch(world):
        interrupts.world = world

    run(scenario, Chain(interrupts, Even()), watch=watch)
    assert len(interrupts.errors) > 5
    assert interrupts.errors == pytest.approx([0.0] * len(interrupts.errors), abs=1e-6)
