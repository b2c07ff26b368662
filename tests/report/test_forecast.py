"""The forecast of an observe-only run: a simulation of what was measured and known."""

from dataclasses import replace

import pytest

from headway.core.model.job import JobSpec
from headway.report.run_page import measured_scenario
from headway.report.run_timeline import RunTimeline
from headway.runtime.result import JobResult
from headway.sim.compare import run_all

SEEN = RunTimeline(
    jobs=["long", "short"], cores=1.0, nodes=["machine"], stays=[], values={},
    shares={"long": [(0.0, 0.5), (40.0, 1.0), (60.0, 0.0)], "short": [(0.0, 0.5), (40.0, 0.0)]},
)  # fmt: skip
DONE = [
    JobResult(name=n, submitted_s=0.0, started_s=0.0, finished_s=t, steps=100, moves=0,
              outcome="succeeded")
    for n, t in (("long", 60.0), ("short", 40.0))
]  # fmt: skip


def test_the_policy_knows_in_the_forecast_what_it_knew_in_the_run():
    told = {"long": JobSpec(total_steps=100), "short": JobSpec(total_steps=100)}
    fair, ours = run_all(measured_scenario(SEEN, DONE, told), ["fair", "headway"])
    assert fair.mean_completion_s == pytest.approx(50)
    assert ours.mean_completion_s < 45
    nothing = {"long": JobSpec(), "short": JobSpec()}
    fair, ours = run_all(measured_scenario(SEEN, DONE, nothing), ["fair", "headway"])
    assert ours.mean_completion_s == pytest.approx(fair.mean_completion_s, rel=0.02)


def test_sizes_vary_from_draw_to_draw_within_the_error_of_one_measurement():
    told = {"long": JobSpec(), "short": JobSpec()}
    draws = [measured_scenario(SEEN, DONE, told, draw) for draw in range(6)]
    sizes = [scenario.jobs[0].work for scenario in draws]
    assert sizes[0] == 40
    assert len(set(sizes)) == 6
    assert all(40 / 1.1 <= size <= 40 * 1.1 for size in sizes)
    assert measured_scenario(SEEN, DONE, told, 3) == draws[3]


def test_a_job_that_shared_a_full_machine_may_be_able_to_use_more():
    jobs = measured_scenario(SEEN, DONE, {"long": JobSpec(), "short": JobSpec()}).jobs
    assert {j.id: j.demand for j in jobs} == {"long": 1.0, "short": 1.0}
    alone = replace(SEEN, shares={"short": [(0.0, 0.5), (40.0, 0.0)]})
    (short,) = measured_scenario(alone, DONE[1:], {"short": JobSpec()}).jobs
    assert short.demand == 0.5, "half of the machine was idle"
