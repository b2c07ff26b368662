"""What a workload says about when the size of a job is known."""

import pytest
from pydantic import ValidationError

from headway.sim.build import to_scenario
from headway.spec.profile import Announcement
from headway.spec.workload import make_workload


def scenario(knows):
    job = {"name": "x", "profile": {"work": 50, "demand": 0.5, "steps": 200}, "knows": knows}
    return to_scenario(make_workload(jobs=[job])).jobs[0]


def test_by_default_size_steps_and_demand_are_known():
    job = scenario("all")
    assert (job.spec.expected.work.value, job.spec.expected.demand) == (50, 0.5)
    assert (job.spec.total_steps, job.announces) == (200, None)


def test_nothing_withholds_size_steps_and_demand():
    job = scenario("nothing")
    assert (job.spec.expected, job.spec.total_steps, job.announces) == (None, None, None)
    assert not job.silent


@pytest.mark.parametrize(
    ("after", "time", "work"), [("30s", 30.0, 0.0), (90, 90.0, 0.0), ("20%", 0.0, 10.0)]
)
def test_an_announcement_follows_after_a_time_or_a_part_of_the_work(after, time, work):
    job = scenario({"after": after})
    assert job.spec.total_steps is None
    assert (job.announces.time, job.announces.work) == (time, work)
    assert job.announces.spec.total_steps == 200


@pytest.mark.parametrize("after", ["120%", "soon", "-3s", "x%"])
def test_an_announcement_that_cannot_be_read_is_refused(after):
    with pytest.raises(ValidationError):
        Announcement(after=after)


def test_generated_jobs_take_what_is_known_in_turn():
    drawn = {"work": [40], "demand": [1.0]}
    arrivals = {"every_s": 1, "jobs": 3, "profile": drawn, "knows": ["all", "nothing"]}
    jobs = to_scenario(make_workload(arrivals=arrivals)).jobs
    assert [j.spec.expected is None for j in jobs] == [False, True, False]
