"""The benchmark of submissions to a running server: what it submits, and how it is judged."""

import pytest

from headway.bench import ordinary_script
from headway.bench.scripts import compare
from headway.bench.submissions import JOBS, PERIOD, SIZES, STYLES, bench_submissions, draw


def test_the_same_jobs_are_submitted_in_each_run():
    assert draw(JOBS, PERIOD, SIZES) == draw(JOBS, PERIOD, SIZES) != draw(JOBS, PERIOD, SIZES, 1)


def test_together_the_jobs_need_more_than_two_cores_have_while_they_are_submitted():
    jobs = draw(JOBS, PERIOD, SIZES)
    assert sum(job.work for job in jobs) > 2 * PERIOD
    assert max(job.at for job in jobs) < PERIOD
    assert {job.style for job in jobs} == set(STYLES)


@pytest.mark.parametrize("style", STYLES)
def test_each_job_announces_its_steps_after_the_first_one(style):
    text = ordinary_script.line(style, 1, 70)
    assert "70" in text or "1/7\n" in text  # epochs of ten


def test_a_job_that_ends_later_than_under_fair_is_a_miss_only_beyond_the_noise_band():
    fair = [{"a": 10.0, "b": 20.0}, {"a": 11.0, "b": 20.0}]
    within = compare([(run, {"a": 5.0, "b": 20.9}) for run in fair], most=0.75)
    beyond = compare([(run, {"a": 5.0, "b": 21.1}) for run in fair], most=0.75)
    assert [figure.plain()["pass"] for figure in within[:3]] == [False, True, True]
    assert [figure.plain()["pass"] for figure in beyond[:3]] == [False, True, False]


def test_jobs_that_are_submitted_to_a_server_are_measured_under_each_policy(monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    found = bench_submissions(1, jobs=2, period=1.0, sizes=(1.0, 1.5))
    assert [figure.name for figure in found[3:]] == ["job-1 against fair", "job-2 against fair"]
    assert all(figure.value > 0 for figure in found[3:])
