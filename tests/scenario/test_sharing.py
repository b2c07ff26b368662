"""Exact fluid sharing, against an independent slow model and against arithmetic."""

import numpy as np
import pytest
from reference import finish_times

from headway.core.cycle.policy import Chain
from headway.core.fairness.water_filling import share
from headway.core.model.decision import Plan, SetShare
from headway.core.model.job import JobSpec
from headway.policy.placement.even import Even
from headway.sim.driver import simulate
from headway.sim.scenario import Arrival, Scenario
from making import node

CASES, JOBS = 1000, 5


class Fixed:
    """For tests: every replica gets the share that the test says, as soon as it runs."""

    name, listens = "fixed", True

    def __init__(self, shares):
        self.shares = shares

    def begin(self):
        return None

    def decide(self, snapshot, memory):
        wanted = ((r, self.shares[r.job]) for r in snapshot.running)
        changes = tuple(
            SetShare(replica=r.id, limit=limit, weight=weight)
            for r, (limit, weight) in wanted
            if (limit, weight) != (r.limit, r.weight)
        )
        return Plan(decisions=changes), memory


@pytest.mark.untraced
def test_a_thousand_random_cases_agree_with_the_slow_reference():
    dice = np.random.default_rng(2026)
    shape = (CASES, JOBS)
    cores = dice.choice([1.0, 2.0, 4.0], CASES)
    speed = dice.choice([0.5, 1.0, 2.0], CASES)
    arrive = dice.choice([0.0, 1.0], shape) * dice.uniform(0, 100, shape).round(2)
    work = dice.uniform(5, 200, shape)
    demand = dice.choice([0.2, 0.5, 1.0, 2.0, 8.0], shape)
    limit = np.where(dice.random(shape) < 0.5, np.inf, dice.uniform(0.05, 2.0, shape))
    limit = np.maximum(limit, 0.01 * cores[:, None])
    weight = dice.choice([0.5, 1.0, 1.0, 3.0, 20.0], shape)
    expected = finish_times(cores, speed, arrive, work, np.minimum(demand, limit), weight)
    worst = 0.0
    for c in range(CASES):
        order = np.argsort(arrive[c], kind="stable")
        jobs = tuple(
            Arrival(
                id=f"j{i}", at=arrive[c, i], spec=JobSpec(), work=work[c, i], demand=demand[c, i]
            )
            for i in order
        )
        shares = {
            f"j{i}": (None if np.isinf(limit[c, i]) else float(limit[c, i]), float(weight[c, i]))
            for i in range(JOBS)
        }
        only = node(cpu=cores[c], speed=speed[c])
        world = simulate(Scenario(nodes=(only,), jobs=jobs), Chain(Even(), Fixed(shares)))
        for job in world.finished:
            i = int(job.arrival.id[1:])
            worst = max(worst, abs(job.finished_at / expected[c, i] - 1))
    assert worst < 0.001


@pytest.mark.parametrize(
    ("capacity", "caps", "weights", "expected"),
    [
        pytest.param(1, [1, 1], [1, 1], [0.5, 0.5], id="equal"),
        pytest.param(1, [1, 1], [3, 1], [0.75, 0.25], id="by weight"),
        pytest.param(1, [0.1, 1, 1], [1, 1, 1], [0.1, 0.45, 0.45], id="the capped leave theirs"),
        pytest.param(1, [0.1, 0.2], [1, 1], [0.1, 0.2], id="nobody can use more"),
        pytest.param(2, [1, 0.5, 9], [1, 1, 2], [0.5, 0.5, 1.0], id="a cap reached exactly"),
        pytest.param(1, [], [], [], id="nobody"),
    ],
)
def test_water_filling_by_hand(capacity, caps, weights, expected):
    assert share(capacity, caps, weights) == pytest.approx(expected)
