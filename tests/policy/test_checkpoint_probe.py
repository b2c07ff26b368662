"""The policy that stops each job once, to see what that costs."""

from dataclasses import replace

import pytest

from headway.core.model.decision import CALM, Suspend
from headway.core.model.job import Phase
from headway.policy.migration.checkpoint_probe import CheckpointProbe
from headway.policy.registry import build
from headway.sim.driver import simulate
from headway.sim.scenario import Arrival, Costs, Scenario
from making import heard, job, node, replica, snapshot


def halfway(steps=100.0, **more):
    """A job that has made five of its steps."""
    at = replace(replica("x"), history=heard(5.0, 4.0, 3.0, 2.0, 1.0))
    return snapshot(jobs=[job("x", total_steps=steps, **more)], replicas=[at])


def decide(s, at=0.5, memory=None):
    policy = CheckpointProbe(at=at)
    return policy.decide(s, memory or policy.begin())


@pytest.mark.parametrize(
    ("steps", "at", "stopped"),
    [(10.0, 0.5, True), (10.0, 0.6, False), (None, 0.1, False), (5.0, 0.5, False)],
    ids=["that part is done", "not yet", "nobody knows how far it is", "all of it is done"],
)
def test_a_job_is_stopped_after_that_part_of_its_steps(steps, at, stopped):
    plan, _ = decide(halfway(steps), at)
    assert [isinstance(d, Suspend) for d in plan.decisions] == [True] * stopped
    assert plan.look == ("a",), "it wants to hear how far they are"


def test_no_job_is_probed_twice_and_ended_jobs_are_forgotten():
    plan, memory = decide(halfway(10.0))
    assert len(plan.decisions) == 1
    plan, memory = decide(halfway(10.0), memory=memory)
    assert not plan.decisions
    calm, memory = decide(snapshot(jobs=[job("y", phase=Phase.PENDING)]), memory=memory)
    assert (calm, memory.done) == (CALM, {})


def test_a_simulated_interruption_costs_what_the_job_itself_needs_for_it():
    own = Costs(save=3.0, restore=4.0)
    spec = job("x", total_steps=100.0).spec
    arrival = Arrival(id="x", at=0.0, spec=spec, work=100.0, steps=100, costs=own)
    for costs, took in ((own, 107.0), (None, 105.0)):
        jobs = (replace(arrival, costs=costs),)
        world = simulate(Scenario(nodes=(node(),), jobs=jobs), build("interrupted:at=0.3"))
        assert world.finished[0].finished_at == pytest.approx(took)
        assert world.finished[0].saved == pytest.approx(30.0)
