"""Jobs wait while their user has used up its quota; jobs of others do not."""

import pytest

from headway.core.model.job import JobSpec, Task
from headway.core.model.units import JobId, Resources
from headway.runtime.held_jobs import HeldJobs
from headway.runtime.owner import Owner
from headway.runtime.submissions import Submitted
from headway.spec.quotas import Quotas
from headway.spec.runnable import RunnableJob

ANN, BEN, ROOT = Owner(1000, 1000, "ann"), Owner(1001, 1001), Owner(0, 0, "root")


def held(**quota):
    return HeldJobs(Quotas.model_validate({"default": quota}))


def hold(jobs, name, owner, *, cpu=0.0, memory=0.0, replicas=1):
    task = Task(replicas=replicas, request=Resources(cpu=cpu, memory=memory))
    made = RunnableJob(id=JobId(name), at=0.0, spec=JobSpec(tasks=(task,)), commands={})
    row = Submitted(entry={}, directory="/", number=1, id=JobId(name), submitted=0.0, owner=owner)
    jobs.hold(row, made)


def names(jobs):
    return [job.id for job in jobs.take()]


def test_so_many_jobs_of_a_user_run_and_the_next_follows_when_one_has_ended():
    jobs = held(runningJobs=2)
    for name in "abc":
        hold(jobs, name, ANN)
    hold(jobs, "d", BEN)
    assert names(jobs) == ["a", "b", "d"]
    assert jobs.reasons == {"c": "quota: 2 jobs of ann run already"}
    assert names(jobs) == []
    jobs.forget(JobId("a"))
    assert names(jobs) == ["c"]
    assert jobs.reasons == {}


@pytest.mark.parametrize("owner", [None, ROOT])
def test_root_and_a_server_of_one_user_have_no_quota(owner):
    jobs = held(runningJobs=0)
    for name in "abc":
        hold(jobs, name, owner)
    assert names(jobs) == ["a", "b", "c"]


def test_requests_of_all_replicas_count_and_a_small_job_does_not_overtake_a_large_one():
    jobs = held(cores=4, memory="4Gi")
    hold(jobs, "a", ANN, cpu=1.0, replicas=3)
    hold(jobs, "b", ANN, cpu=2.0)
    hold(jobs, "c", ANN)
    assert names(jobs) == ["a"]
    assert jobs.reasons["b"] == "quota: jobs of ann may request 4 cores together"
    assert jobs.reasons["c"] == jobs.reasons["b"]
    hold(jobs, "d", BEN, memory=3 * 2.0**30)
    hold(jobs, "e", BEN, memory=2 * 2.0**30)
    assert names(jobs) == ["d"]
    assert jobs.reasons["e"] == "quota: jobs of 1001 may request 4 GiB of memory together"


def test_a_job_that_is_handed_over_in_any_case_counts_too():
    jobs = held(runningJobs=1)
    for name in "ab":
        hold(jobs, name, ANN)
    assert names(jobs) == ["a"]
    assert jobs.release(JobId("b")).id == "b"
    jobs.forget(JobId("a"))
    hold(jobs, "c", ANN)
    assert names(jobs) == []
