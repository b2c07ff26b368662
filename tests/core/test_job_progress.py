"""Steps, work and size agree through interruptions."""

import pytest

from headway.core.cycle.cluster_state import assemble, remember
from headway.core.estimate.job_size import from_steps
from headway.core.model.job import Estimate, Expected, JobSpec, Mode, Phase, Task
from headway.core.model.report import BEGIN, Report, Usage, proceed, start_over
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import ReplicaId
from making import history, job, replica

STEPS = JobSpec(total_steps=100.0)
USES = Usage(cpu=1.0)
X = ReplicaId("x/main-0")


def said(since, at, step=None, *, usage=USES, **more):
    return Report(replica=X, since=since, at=at, step=step, usage=usage, **more)


def told(*reports, start=BEGIN):
    """The progress after these reports of a replica that used one core."""
    found = start
    for report in reports:
        found = proceed(found, report, report.at - report.since if report.usage else 0.0)
    return found


def left(progress):
    return from_steps(STEPS, progress).value - progress.done


def test_without_interruptions_all_work_counts():
    found = told(said(0, 10), said(10, 20, 10.0), said(20, 30), said(30, 40, 40.0))
    assert (found.done, found.work, found.steps) == (pytest.approx(40.0), 40.0, 40.0)
    assert left(found) == pytest.approx(60.0)


def test_the_work_between_the_last_checkpoint_and_a_failure_does_not_count():
    found = told(said(0, 50, 50.0), said(60, 70, 30.0, restarted=True))
    assert (found.done, left(found)) == (30.0, 70.0)
    assert left(told(said(70, 80, 40.0), start=found)) == pytest.approx(60.0)


def test_the_cost_of_a_step_does_not_include_a_restart():
    """Ten seconds of imports, before it goes on at the step of its checkpoint."""
    found = told(said(0, 50, 50.0), said(60, 70, restarted=True), said(70, 80, 52.0))
    assert left(found) == pytest.approx(48.0)
    assert left(told(said(80, 90, 62.0), start=found)) == pytest.approx(38.0)


def test_a_restarted_job_waits_at_its_last_known_step():
    found = told(said(0, 50, 50.0), said(60, 70, restarted=True))
    assert (found.step, left(found)) == (50.0, 50.0)


def test_an_adopted_job_is_measured_from_its_adoption():
    first = told(said(0, 10, 85.0, restarted=True))
    assert from_steps(STEPS, first) is None, "the cost of a step is not known yet"
    found = told(said(10, 15, 90.0), start=first)
    assert (found.done, left(found)) == (90.0, 10.0)


def test_an_interval_of_unknown_work_does_not_change_the_cost_of_a_step():
    found = told(said(0, 20, 20.0), said(20, 30, 60.0, usage=None), said(30, 40, 70.0))
    assert found.done == pytest.approx(70.0)


def test_a_job_that_starts_over_has_all_its_work_before_it():
    over = start_over(told(said(0, 50, 50.0)))
    assert (over.done, over.step, left(over)) == (0.0, 0.0, 100.0)
    assert start_over(told(said(0, 50))).step is None


def after(h, **seen):
    return assemble(remember(h, Observation(at=1.0, **seen)), Trigger.TICK)


def at_work(mode, *, phase=Phase.RUNNING, **spec):
    return job("x", mode=mode, phase=phase, **spec)


@pytest.mark.parametrize("mode", [Mode.NONE, Mode.SDK])
@pytest.mark.parametrize(
    "spec",
    [{"total_steps": 100.0}, {"expected": Expected(work=Estimate(value=100.0))}],
    ids=["steps", "declared"],
)
@pytest.mark.parametrize("stopped", [Phase.PENDING, Phase.FAILED])
def test_what_is_left_after_a_stop_depends_on_the_checkpoint(mode, spec, stopped):
    """`FAILED`: a live platform removes the replica, and adds another one later."""
    h = history(jobs=[at_work(mode, **spec)], replicas=[replica("x")])
    s = after(h, reports=(said(0, 40, 40.0),))
    assert s.jobs["x"].remaining.value == pytest.approx(60.0)
    waits = at_work(mode, phase=Phase.PENDING, **spec)
    s = after(h, jobs=(waits,), replicas=(replica("x", on=None, phase=stopped),))
    lost = mode is Mode.NONE
    assert s.jobs["x"].remaining.value == pytest.approx(100.0 if lost else 60.0)
    s = after(h, jobs=(at_work(mode, **spec),), replicas=(replica("x"),))
    found = s.replicas[X]
    assert found.attained == 40.0, "the service that it got"
    assert found.progress.done == pytest.approx(0.0 if lost else 40.0)
    step = 10.0 if lost else 50.0
    s = after(h, reports=(said(60, 70, step, restarted=True),))
    assert s.jobs["x"].remaining.value == pytest.approx(100.0 - step)
    after(h, jobs=(at_work(mode, phase=Phase.SUCCEEDED, **spec),))
    assert not h.former


def test_a_gang_that_fails_starts_over_and_one_whose_worker_is_done_does_not():
    tasks = (Task(name="worker", replicas=2, most=2),)
    spec = {"tasks": tasks, "total_steps": 100.0}
    both = [replica("x", task="worker", index=i) for i in range(2)]
    h = history(jobs=[at_work(Mode.NONE, **spec)], replicas=both)

    def report(index, step):
        who = ReplicaId(f"x/worker-{index}")
        return Report(replica=who, since=0.0, at=10.0, step=step, usage=USES)

    after(h, reports=(report(0, 40.0), report(1, 40.0)))
    done = replica("x", task="worker", index=1, phase=Phase.SUCCEEDED)
    assert after(h, replicas=(done,)).jobs["x"].remaining.value == pytest.approx(30.0)
    fails = replica("x", task="worker", phase=Phase.FAILED)
    s = after(h, jobs=(at_work(Mode.NONE, phase=Phase.BACKOFF, **spec),), replicas=(fails,))
    assert s.jobs["x"].remaining.value == pytest.approx(50.0)
