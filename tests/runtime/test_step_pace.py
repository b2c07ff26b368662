"""The pace of a replica: by time, at its present share."""

import sys
from dataclasses import replace
from itertools import pairwise

import pytest
from patience import wait_for

from headway.core.cycle.cluster_state import assemble
from headway.core.model.job import Estimate, Expected
from headway.core.model.snapshot import Trigger
from headway.policy.registry import build
from headway.runtime.job_facts import NOT_CPU, Samples, job_facts
from headway.runtime.step_pace import KEPT, StepPace
from headway.runtime.usage_sampler import ReplicaSample
from making import history, job, node, replica
from serving import listed, submit

SLEEPS = """
import os, time
for step in range(1, 61):
    print(f"step {step}/60 loss: {1 / step:.3f}", flush=True)
    for _ in range(10):
        time.sleep(0 if os.path.exists("go") else 0.1)
"""


def paced(*steps, every=1.0, share=1.0, used=0.5):
    """A pace after one step number per sample."""
    pace = StepPace()
    for i, step in enumerate(steps):
        pace.add(i * every, step, i * every * used, share)
    return pace


def test_the_pace_is_the_number_of_steps_in_the_time_in_which_they_were_made():
    assert paced(1, 2, 3, 4, every=2.0).rate(6.0, 3.0) == (0.5, 0.5)
    assert paced(1, 1, 1, 2, 2, 2, 3).rate(7.0, 3.5) == (pytest.approx(1 / 3), 0.5)


def test_a_pace_is_unknown_before_the_second_step():
    assert StepPace().rate(1.0, 1.0) is None
    assert paced(5, 5, 5).rate(2.0, 1.0) is None


def test_the_pace_is_that_of_the_present_share():
    pace = paced(*range(0, 200, 10))
    for i in range(20, 24):
        pace.add(float(i), 200.0 + i - 20, 10.0, 0.1)
    assert pace.rate(23.0, 10.0) == (1.0, 0.0)


def test_a_share_that_hardly_changes_is_the_same_share():
    pace = paced(0, 10, 20)
    pace.add(3.0, 30.0, 1.5, 1.05)
    pace.add(4.0, 40.0, 2.0, 0.98)
    assert pace.rate(4.0, 2.0) == (10.0, 0.5)


def test_the_pace_falls_while_no_step_is_made():
    pace = paced(0, 1, 2)
    rates = [pace.rate(now, 1.0)[0] for now in (2.0, 4.0, 5.0, 10.0, 100.0)]
    assert rates[:2] == [1.0, 1.0], "the next step may be due"
    assert all(later < before for before, later in pairwise(rates[1:]))


def test_only_the_last_marks_count_and_a_step_that_goes_back_restarts_them():
    pace = paced(*range(0, 1000, 100), *range(1000, 1000 + KEPT))
    assert pace.rate(29.0, 15.0)[0] == pytest.approx(1.0)
    pace.add(30.0, 3.0, 15.0, 1.0)
    assert pace.rate(30.0, 15.0) is None


def known(now, *, policy="headway", others=(), foreign=0.0, weight=1.0):
    """What is known of a job of 1 core-second after a sample."""
    sized = [
        job(name, total_steps=100, expected=Expected(work=Estimate(value=1.0), demand=1.0))
        for name in ("x", *others)
    ]
    replicas = [replace(replica(j.id), weight=weight if j.id == "x" else 1.0) for j in sized]
    state = history(nodes=(replace(node(), foreign=foreign),), jobs=sized, replicas=replicas)
    made = build(policy)
    _, memory = made.decide(assemble(state, Trigger.STARTED), made.begin())
    return job_facts(state, made, memory, Samples(at=0.5, latest={"x/main-0": now}))["x"]


@pytest.mark.parametrize("policy", ["headway", "fair"])
def test_a_job_that_waits_finishes_by_its_steps_and_not_by_the_cpu_that_it_needs(policy):
    """It uses nearly no CPU, so that neither another share nor a guarantee makes it faster."""
    sleeps = known(
        ReplicaSample(cpu=0.0, step=10.0, left=0.1, rate=0.5, rate_cpu=0.005), policy=policy
    )
    assert sleeps.eta_s == pytest.approx(0.5 + 90 / 0.5)
    assert sleeps.guarantee_s is None, "it is about CPU, and earlier than the job can be"
    if policy == "headway":
        assert sleeps.reason == NOT_CPU


def test_cpu_is_not_called_useless_where_other_programs_use_all_of_it():
    """A job that computes gets little there, too."""
    slow = ReplicaSample(cpu=0.0, step=10.0, left=0.1, rate=0.5, rate_cpu=0.005)
    busy = known(slow, foreign=node().capacity.cpu)
    assert busy.reason != NOT_CPU
    assert busy.eta_s == pytest.approx(0.5 + 90 / 0.5), "its steps tell when it ends"


def test_cpu_is_not_called_useless_to_a_job_that_headway_keeps_waiting():
    waits = ReplicaSample(cpu=0.0, step=10.0, left=0.1, rate=0.5, rate_cpu=0.0)
    assert known(waits, others=("y",), weight=0.004).reason != NOT_CPU


def test_a_job_that_its_share_delays_finishes_by_its_guarantee():
    slow = ReplicaSample(cpu=0.5, step=10.0, left=0.9, rate=0.1, rate_cpu=0.5)
    delayed = known(slow, others=("y",))
    assert delayed.guarantee_s is not None
    assert delayed.eta_s == delayed.guarantee_s


def test_a_job_that_computes_finishes_by_its_steps_if_that_is_before_its_guarantee():
    fast = ReplicaSample(cpu=1.0, step=10.0, left=0.4, rate=225.0, rate_cpu=1.0)
    assert known(fast).eta_s == pytest.approx(0.5 + 90 / 225)


def test_ps_shows_when_a_job_that_sleeps_will_finish(serving, headway, tmp_path):
    """A real job: one step a second, nearly without CPU."""
    (tmp_path / "sleep.py").write_text(SLEEPS)
    serving()
    submit(headway, "--", sys.executable, "sleep.py")
    seen = wait_for(lambda: (j := listed(headway)["sleep"])["step"] and j["step"] >= 5 and j)
    left, expected = seen["eta_s"] - seen["at_s"], 60 - seen["step"]
    assert 0.7 * expected < left < 2.5 * expected, "on a loaded machine the steps take longer"
