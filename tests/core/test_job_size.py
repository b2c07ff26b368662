"""How much work a job is, and how sure that is."""

from math import inf

import numpy as np
import pytest

from headway.core.estimate.cpu_demand import measured_demand
from headway.core.estimate.curve_fit import fit
from headway.core.estimate.job_size import (
    Known,
    SizeEstimate,
    estimate_size,
    from_kind,
    from_steps,
    learn,
    settle,
)
from headway.core.fairness.reference import ReferenceJob, advance, fair_rates, set_guarantees
from headway.core.model.job import Estimate, Expected, JobSpec
from headway.core.model.report import EMPTY, Progress, Report, Usage, extend
from making import heard

TOLD = JobSpec(expected=Expected(work=Estimate(value=100.0, error=0.5)))


def after(work, step=None):
    """The progress of a job that was never interrupted."""
    return Progress(done=work, step=step, work=work, steps=step or 0.0, begin=step or 0.0)


def test_declared_steps_and_their_cost_give_the_size():
    spec = JobSpec(total_steps=1000)
    assert from_steps(spec, after(25.0, 250)).value == pytest.approx(100.0)
    assert from_steps(spec, after(25.0, 250)).error < 0.05
    assert from_steps(spec, after(0.5, 5)) is None, "too early to tell what a step costs"
    assert from_steps(spec, after(5.0)) is None
    assert from_steps(JobSpec(), after(5.0, 50)) is None


def test_the_surest_estimate_is_taken():
    spec = JobSpec(expected=TOLD.expected, total_steps=1000)
    assert estimate_size(spec, after(40.0, 200), None, 1.0).size == pytest.approx(200.0, rel=0.01)
    assert estimate_size(TOLD, after(0.0), None, 1.0).error == 0.5
    assert estimate_size(TOLD, after(0.0), Known(work=80, least=80, most=80), 1.0).error == 0.1


def test_on_a_node_of_double_speed_it_is_half_as_much():
    exact = JobSpec(expected=Expected(work=Estimate(value=100.0)))
    assert estimate_size(exact, after(50.0), None, 2.0) == SizeEstimate(
        attained=25.0, size=50.0, least=50.0, error=0.0
    )


def test_a_job_past_its_largest_possible_size_is_of_unknown_size():
    found = estimate_size(TOLD, after(160.0), None, 1.0)
    assert (found.size, found.error) == (inf, inf)
    assert estimate_size(JobSpec(), after(5.0), None, 1.0).size == inf


def test_the_expected_size_grows_with_what_has_been_done():
    sizes = [estimate_size(TOLD, after(done), None, 1.0).size for done in (0.0, 80.0, 120.0, 149.0)]
    assert sizes == sorted(sizes)
    assert sizes[0] == pytest.approx(102.8, abs=0.1)
    assert 149 < sizes[-1] < 150


def test_kinds_are_learnt_from_those_that_ended():
    assert from_kind(None) is None
    once = learn(None, 100.0)
    assert from_kind(once) == Estimate(value=100.0, error=0.1)
    twice = learn(once, 140.0)
    assert from_kind(twice).value == 120.0
    assert from_kind(twice).error == pytest.approx(40 / 120)


def test_a_run_without_measured_work_teaches_nothing():
    nothing = learn(None, 0.0)
    assert from_kind(nothing) is None
    assert learn(nothing, 100.0) == learn(None, 100.0)
    once = learn(None, 100.0)
    assert learn(once, 0.0) == once


def curve(shape, *, sign=-1.0, noise=0.0, points=20, scale=1.0):
    """A track of a job that goes 1,000 steps, up to the first half."""
    dice = np.random.default_rng(1)
    track = EMPTY
    for i in range(points):
        k = (i + 0.5) * 500 / points
        value = 1 / (0.01 * k + 1) + 0.1 if shape == "inverse" else np.exp(-0.01 * k) + 0.1
        value = float(scale * value * (1 + noise * dice.standard_normal()))
        report = Report(
            replica="x", since=i, at=i + 1, step=(i + 1) * 500 / points, value=-sign * value,
            usage=Usage(cpu=1.0),
        )  # fmt: skip
        track = extend(track, report)
    return track


@pytest.mark.parametrize("shape", ["inverse", "exponential"])
def test_a_fitted_curve_foresees_the_second_half(shape):
    found = fit(curve(shape), -1.0)
    base = curve(shape).base
    truth = 1 / (0.01 * 900 + 1) + 0.1 if shape == "inverse" else np.exp(-9) + 0.1
    assert found.shape == shape
    assert found.at(900) + base == pytest.approx(truth, abs=0.05)


def test_noise_and_direction_do_not_matter():
    down = fit(curve("inverse", noise=0.02), -1.0)
    up = fit(curve("inverse", sign=1.0, noise=0.02), 1.0)
    assert down.reaches(0.95, 1000) == pytest.approx(up.reaches(0.95, 1000))
    assert 300 < down.reaches(0.95, 1000) < 900
    scaled = fit(curve("inverse", noise=0.02, scale=1024.0), -1.0)
    assert scaled.reaches(0.95, 1000) == pytest.approx(down.reaches(0.95, 1000))


def test_too_little_or_nothing_that_falls_gives_no_curve():
    assert fit(heard(1.0, 0.5), -1.0) is None
    assert fit(heard(*[1.0] * 8), -1.0) is None
    assert fit(heard(*[0.1 * i for i in range(8)]), -1.0) is None
    same_step = EMPTY
    for i in range(6):
        report = Report(replica="x", since=i, at=i + 1, step=0.0, value=1.0 / (i + 1))
        same_step = extend(same_step, report)
    assert fit(same_step, -1.0) is None
    flat = fit(curve("inverse"), -1.0)
    assert flat.improvement(0, 0) == 1.0


def test_quality_is_fitted_again_only_after_many_more_reports():
    spec, track = JobSpec(total_steps=1000), curve("inverse")
    first = SizeEstimate(attained=1.0)
    settle(first, spec, track, None)
    assert 0.3 < first.settles < 0.9
    again = SizeEstimate(attained=1.0)
    settle(again, spec, extend(track, Report(replica="x", since=20, at=21)), first)
    assert (again.settles, again.windows) == (first.settles, first.windows)
    unknown = SizeEstimate(attained=1.0)
    settle(unknown, JobSpec(), track, None)
    assert unknown.settles == 1.0


def test_the_reference_world_shares_fairly_and_promises_its_ends():
    jobs = {
        "x": ReferenceJob(demand=1.0, size=50.0, least=50.0, sure=True),
        "y": ReferenceJob(demand=1.0, size=20.0, least=20.0, sure=True),
    }
    set_guarantees(jobs, 1.0, 0.0)
    assert (jobs["y"].due, jobs["x"].due) == (40.0, 70.0)
    advance(jobs, 1.0, 50.0)
    assert (jobs["x"].done, jobs["y"].finished) == (30.0, True)
    assert fair_rates(jobs, 1.0) == {"x": 1.0, "y": 0.0}


def test_users_have_equal_shares_in_the_reference_world_whatever_the_number_of_their_jobs():
    small = {
        f"s{i}": ReferenceJob(demand=1.0, size=5.0, least=5.0, sure=True, owner="ann", weight=w)
        for i, w in enumerate([1.0] * 9 + [8.0])
    }
    large = ReferenceJob(demand=1.0, size=60.0, least=60.0, sure=True, owner="ben")
    jobs = {**small, "large": large}
    rates = fair_rates(jobs, 1.0)
    assert rates["large"] == 0.5
    assert rates["s9"] == pytest.approx(8 * rates["s0"])
    set_guarantees(jobs, 1.0, 0.0)
    assert max(s.due for s in small.values()) == pytest.approx(100.0)  # all of her half
    assert large.due == pytest.approx(110.0)
    advance(jobs, 1.0, 105.0)
    assert large.done == pytest.approx(55.0)


def test_an_uncertain_job_is_due_at_its_least_as_if_unknown_jobs_ended_now():
    jobs = {
        "x": ReferenceJob(demand=1.0, size=50.0, least=40.0),
        "y": ReferenceJob(demand=1.0),
    }
    set_guarantees(jobs, 1.0, 0.0)
    assert (jobs["x"].due, jobs["y"].due) == (40.0, inf)
    advance(jobs, 1.0, 200.0)
    assert jobs["x"].done == 100.0
    set_guarantees(jobs, 1.0, 200.0)
    assert jobs["x"].due == 200.0 or jobs["x"].due == inf


def test_a_replica_that_used_nothing_shows_nothing_of_its_demand():
    assert measured_demand(before=1.0, used=0.0, could=0.5) == (1.0, False)
