"""The guarantee of `headway` on one node, whatever is known of the jobs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.policy.registry import build
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.spec.workload import make_workload

pytestmark = pytest.mark.untraced

KNOWS = st.sampled_from(["all", "nothing", {"after": "20%"}, {"after": "10s"}])


@st.composite
def jobs(draw):
    """Jobs that can each fill the node."""
    count = draw(st.integers(2, 7))
    return [
        {
            "name": f"job-{i}",
            "at": draw(st.integers(0, 80)),
            "profile": {"work": draw(st.integers(5, 120)), "demand": 1.0},
            "knows": draw(KNOWS),
        }
        for i in range(count)
    ]


def completions(listed, policy):
    scenario = to_scenario(make_workload(jobs=listed))
    ended = simulate(scenario, build(policy)).finished
    return {j.arrival.id: j.finished_at - j.arrival.at for j in ended}


@settings(max_examples=60, deadline=None)
@given(jobs())
def test_no_job_is_later_than_under_fair_sharing_whatever_is_known_of_it(listed):
    """Jobs of unknown size lose a second of their share when others show how much they can use."""
    fair, ours = completions(listed, "fair"), completions(listed, "headway")
    for job in listed:
        late = ours[job["name"]] - 1.01 * fair[job["name"]]
        assert late <= (2 if job["knows"] == "nothing" else 1), job["name"]


@settings(max_examples=60, deadline=None)
@given(jobs(), st.data())
def test_announcing_the_size_of_a_job_is_never_worse_than_withholding_it(listed, data):
    index = data.draw(st.integers(0, len(listed) - 1))
    found = {}
    for knows in ("all", "nothing"):
        said = [{**job, "knows": knows} if i == index else job for i, job in enumerate(listed)]
        found[knows] = completions(said, "headway")[f"job-{index}"]
    assert found["all"] <= 1.01 * found["nothing"] + 1


def mixed(count, **options):
    """As in `headway bench promises`."""
    work, demand = [40, 60, 90, 130, 200, 270], [1, 1, 1, 0.5, 0.2]
    profile = {"work": work, "vary": 0.2, "demand": demand}
    arrivals = {"uniform": [0, 200], "jobs": count, "profile": profile}
    return make_workload(arrivals=arrivals, **options)


@pytest.mark.parametrize("seed", [10168, 10071, 10221])
def test_jobs_that_wait_delay_no_guarantee(seed):
    """Here guarantees have no slack for ten minutes and more, in which each job that waits keeps
    0.2 % of the node. The last job, which cannot use the whole node, ended 2 to 5 s late.
    """
    scenario = to_scenario(mixed(10), seed=seed)
    fair, ours = (
        max(job.finished_at for job in simulate(scenario, build(policy)).finished)
        for policy in ("fair", "headway")
    )
    assert ours <= fair + 0.2


@pytest.mark.parametrize("seed", [20022, 20089, 20234])
def test_jobs_of_about_known_size_keep_their_pace_after_their_least_size(seed):
    """Sizes from an earlier run, with its error. A job that had done its smallest possible size
    before its guarantee waited from then on, and could not catch up: 7 to 10 % late.
    """
    scenario = to_scenario(mixed(15, sizes={"earlier": 0.1}), seed=seed)
    fair, ours = (
        {j.arrival.id: j.finished_at - j.arrival.at for j in simulate(scenario, policy).finished}
        for policy in (build("fair"), build("headway"))
    )
    assert max(ours[job] / fair[job] for job in fair) <= 1.03
