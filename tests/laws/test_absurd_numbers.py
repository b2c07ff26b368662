"""Whatever finite numbers a job reports, every policy decides, and does so in time."""

import signal
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headway.core.model.report import MOST, bounded
from headway.sim.world import World
from scenarios import POLICIES, clusters, run, scenarios

pytestmark = pytest.mark.untraced

often = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
PATIENCE = 30
"""Seconds for one simulation of a few jobs, which takes a few hundredths."""

numbers = st.one_of(
    st.sampled_from([0.0, 1e-15, -1e-15, 1e-9, 1.0, 1e9, MOST, -MOST, MOST * (1 - 2**-52)]),
    st.floats(-MOST, MOST).map(bounded),
)
absurd = st.lists(st.tuples(numbers, numbers.map(abs)), min_size=1, max_size=12)
totals = st.one_of(st.none(), st.just(MOST), numbers.map(abs).filter(bool))


@contextmanager
def in_time():
    def late(*_):
        raise TimeoutError("a policy does not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def reporting(said):
    """A world in which jobs report these values and steps, in turn."""

    class Absurd(World):
        told = 0

        def observe(self, look=()):
            seen = super().observe(look)
            return replace(seen, reports=tuple(self.absurd(r) for r in seen.reports))

        def absurd(self, report):
            self.told += 1
            value, step = said[self.told % len(said)]
            return replace(report, value=value, high=max(value, 0.0), step=step)

    return Absurd


def with_totals(scenario, total):
    jobs = (replace(j, spec=replace(j.spec, total_steps=total)) for j in scenario.jobs)
    return replace(scenario, jobs=tuple(jobs))


@often
@given(policy=st.sampled_from(POLICIES), scenario=scenarios(), said=absurd, total=totals)
def test_every_policy_copes_with_absurd_reports(policy, scenario, said, total):
    with in_time():
        run(with_totals(scenario, total), policy, world_class=reporting(said))


@often
@given(
    policy=st.sampled_from(POLICIES), scenario=clusters(), said=absurd, total=totals.filter(bool)
)
def test_every_policy_copes_with_absurd_reports_of_gangs(policy, scenario, said, total):
    with in_time():
        run(with_totals(scenario, total), policy, world_class=reporting(said))


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(1e308)
@example(-5e-324)
def test_a_bounded_number_keeps_its_sign_and_is_bounded(number):
    found = bounded(number)
    assert abs(found) <= MOST
    assert found == 0.0 or (found > 0) == (number > 0)
    assert found == number or abs(number) > MOST or abs(number) < 1 / MOST
