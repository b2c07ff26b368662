"""The cost of a step of a distributed job, from measured rates."""

from dataclasses import replace

import pytest

from headway.calibrate.speed import plan_points
from headway.calibrate.speed_fit import Point, fit_speed, left_out_error
from headway.core.estimate.step_rate import Speed

MODELS = [
    Speed(kind="sync", compute=0.05, fixed=0.004, transfer=0.003, per_server=0.01, penalty=5.0),
    Speed(kind="sync", compute=0.05),
    Speed(kind="async", compute=0.06, transfer=0.002, penalty=3.0),
    Speed(kind="ring", compute=0.05, fixed=0.002, transfer=0.004, latency=0.01, penalty=2.0),
]


def points(speed, most=4, noise=()):
    plan = plan_points(most, 2.0, ring=speed.kind == "ring")
    made = [Point(workers=w, cores=c, far=far, steps_per_s=1.0) for w, c, far in plan]
    factors = [*noise, *[1.0] * len(made)]
    return [
        replace(p, steps_per_s=p.predicted(speed) * f) for p, f in zip(made, factors, strict=False)
    ]


@pytest.mark.parametrize("speed", MODELS)
def test_a_model_is_found_by_the_rates_that_it_makes(speed):
    found = fit_speed(speed.kind, points(speed))
    for name in ("compute", "fixed", "transfer", "per_server", "latency", "penalty"):
        assert getattr(found, name) == pytest.approx(getattr(speed, name), rel=1e-6, abs=1e-9)
    if speed.kind != "ring":  # it has few points; without some of them, costs are not told apart
        assert left_out_error(speed.kind, points(speed)) < 1e-6


@pytest.mark.parametrize("speed", MODELS)
def test_noise_makes_an_error_and_no_negative_cost(speed):
    noise = [1.1, 0.9, 1.05, 0.95, 1.1, 0.9, 1.0, 1.1]
    seen = points(speed, noise=noise)
    found = fit_speed(speed.kind, seen)
    costs = (found.fixed, found.transfer, found.per_server, found.latency)
    assert found.compute > 0
    assert min(costs) >= 0
    assert found.penalty >= 1
    assert 0 < max(p.error(found) for p in seen) < 0.25
    assert left_out_error(speed.kind, seen) > 0


def test_a_transfer_that_takes_time_only_between_nodes_is_a_large_penalty():
    near = Speed(kind="async", compute=0.05)
    far = replace(near, transfer=0.02)
    seen = [replace(p, steps_per_s=p.predicted(far if p.far else near)) for p in points(near)]
    found = fit_speed("async", seen)
    assert found.penalty * found.transfer == pytest.approx(0.02)
    assert found.penalty == pytest.approx(1e5), "a workload accepts at most 1e6"
    assert max(p.error(found) for p in seen) < 1e-3
