"""No policy plans what the platform cannot do, and `check` refuses it."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.core.cycle.validate import check
from headway.core.model.capabilities import Capabilities
from headway.core.model.decision import Move, Scale, SetShare, Suspend, job_of
from headway.errors import ConfigError
from headway.policy.registry import POLICIES
from headway.sim.world import World
from scenarios import POLICIES as VARIANTS
from scenarios import clusters, run, scenarios

pytestmark = pytest.mark.untraced

often = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
capabilities = st.builds(
    Capabilities,
    shares=st.booleans(),
    migrate=st.booleans(),
    suspend=st.booleans(),
    scale=st.booleans(),
)
NEEDS = {SetShare: "shares", Move: "migrate", Scale: "scale", Suspend: "suspend"}
EAGER = [
    "dragon:starve_after=3,grow_after=3", "elastic:starve_after=3,grow_after=3,weigh=no",
    "kips:interval=3,cool_down=3", "optimus:interval=5,weigh=no", "spread:patience=5",
]  # fmt: skip


class OnlyPossible:
    """A policy whose plans are checked against the capabilities of the snapshot."""

    def __init__(self, inner):
        self.inner, self.name, self.listens = inner, inner.name, inner.listens

    def begin(self):
        return self.inner.begin()

    def decide(self, snapshot, memory):
        plan, memory = self.inner.decide(snapshot, memory)
        for decision in plan.decisions:
            need = NEEDS.get(type(decision))
            assert need is None or getattr(snapshot.can(job_of(decision)), need), decision
        refused = check(plan, snapshot).refused
        assert not [r for r in refused if "on this platform" in r.why or "for this job" in r.why]
        return plan, memory


def limited(platform, later, jobs):
    """A world on which only this is possible: at first, after a while, and for each job."""

    class Limited(World):
        def observe(self, look=()):
            seen = super().observe(look)
            shown = platform if seen.complete else later if self.now > 15 else None
            own = [replace(j, capabilities=jobs.get(j.id)) for j in seen.jobs]
            return replace(seen, capabilities=shown, jobs=tuple(own))

    return Limited


def simulate(scenario, policy, world):
    with suppress(ConfigError):  # without suspension, a deadlock can last forever
        run(scenario, policy, world_class=world, wrap=OnlyPossible)


@pytest.mark.parametrize("policy", sorted({*POLICIES, *VARIANTS, *EAGER, "@kips", "@specon"}))
@often
@given(data=st.data())
def test_no_policy_plans_what_is_not_possible(policy, data):
    scenario = data.draw(st.one_of(scenarios(), clusters()))
    platform, later = data.draw(capabilities), data.draw(st.one_of(st.none(), capabilities))
    names = [j.id for j in scenario.jobs]
    jobs = data.draw(st.dictionaries(st.sampled_from(names), capabilities))
    simulate(scenario, policy, limited(platform, later, jobs))
