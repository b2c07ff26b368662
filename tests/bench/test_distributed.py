"""The workloads of `headway bench distributed`, and how their figures are judged."""

from dataclasses import replace

import pytest

from headway.bench.distributed import (
    EXPERIMENTS,
    POLICIES,
    Costs,
    Outcome,
    figures_of,
    predict,
    workload,
)
from headway.spec.speed import SpeedSpec

SPEED = SpeedSpec.model_validate(
    {
        "kind": "sync",
        "compute": 0.1,
        "fixed": 0.002,
        "transfer_s": 0.002,
        "penalty": 5,
        "error": 0.1,
    }
)
COSTS = Costs(speed=SPEED, start=2.0, step=0.2, work=0.1)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.name)
@pytest.mark.parametrize("policy", POLICIES)
def test_all_jobs_of_an_experiment_end_under_each_policy_in_a_minute(experiment, policy):
    found = predict(workload(experiment, COSTS), policy)
    assert [j.outcome for j in found.per_job] == ["succeeded"] * len(experiment.jobs)
    assert found.deadlocks == 0
    assert found.makespan_s < 60


def test_a_start_takes_time_in_the_simulator():
    experiment, policy = EXPERIMENTS[0], POLICIES[0]
    slow = predict(workload(experiment, replace(COSTS, start=12.0)), policy)
    fast = predict(workload(experiment, COSTS), policy)
    (first, *_), (sooner, *_) = slow.per_job, fast.per_job
    assert first.completion_s == pytest.approx(sooner.completion_s + 10)


def test_a_prediction_is_judged_by_its_mean_error_and_by_its_worst():
    experiment = EXPERIMENTS[0]
    predicted = predict(workload(experiment, COSTS), POLICIES[0])
    near = replace(predicted, makespan_s=predicted.makespan_s / 1.1)
    far = replace(predicted, makespan_s=predicted.makespan_s / 1.4)
    (outcome,) = [Outcome(POLICIES[0], predicted, [near, near, near, far])]
    found = {f.name: f for f in figures_of(experiment, COSTS, [outcome])}
    assert found["E-D: elapsed, relative error, mean"].value == pytest.approx(0.175)
    assert found["E-D: elapsed, relative error, worst"].value == pytest.approx(0.4)
    judged = {name for name, f in found.items() if not f.plain()["pass"]}
    assert judged == {
        "E-D: elapsed, relative error, mean", "E-D: elapsed, relative error, worst",
    }  # fmt: skip
    assert found["E-D, spread: elapsed, longest"].value == pytest.approx(near.makespan_s)
