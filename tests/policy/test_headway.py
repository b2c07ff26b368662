"""`headway` and the baselines that it is measured by."""

from dataclasses import replace

import pytest

from headway.core.cycle.cluster_state import assemble, remember
from headway.core.estimate.step_rate import Speed
from headway.core.model.decision import CALM
from headway.core.model.job import Estimate, Expected, JobSpec, Mode, Phase, Task
from headway.core.model.report import Report, Usage
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import JobId, ReplicaId
from headway.policy.common.per_replica_work import working_replicas
from headway.policy.registry import build
from headway.policy.share.fsp import Fsp
from headway.policy.share.headway import Headway
from headway.policy.share.las import Las
from headway.policy.share.srpt import Srpt
from headway.sim.driver import simulate
from headway.sim.scenario import Arrival, Failure, Scenario
from making import history, job, node, replica, running, snapshot


def sized(name, work, *, demand=1.0, error=0.0, at=0.0, **more):
    known = Expected(work=Estimate(value=work, error=error), demand=demand)
    return job(name, at=at, expected=known, **more)


def world(*jobs, cpu=1.0):
    return history(nodes=(node(cpu=cpu),), jobs=jobs, replicas=[replica(j.id) for j in jobs])


def weights(plan):
    return {d.replica.job: d.weight for d in plan.decisions}


def reasons(plan):
    return {d.replica.job: d.reason for d in plan.decisions}


def test_the_shortest_gets_nearly_all_and_the_others_a_trickle():
    h = world(sized("long", 100), sized("short", 10))
    plan, memory = Headway().decide(assemble(h, Trigger.STARTED), Headway().begin())
    found = weights(plan)
    assert found["short"] > 100 * found["long"]
    assert found["long"] >= 0.002 * sum(found.values())
    assert "runs first" in reasons(plan)["short"]
    waits = "waits for short (about 10 s of CPU left); guaranteed to finish within 110 s"
    assert reasons(plan)["long"] == waits
    assert memory.reference["short/main-0"].due == pytest.approx(20.0)
    assert plan.look == ("a",)


def test_a_job_that_gets_only_what_a_shorter_one_cannot_use_does_not_run_first():
    h = world(sized("long", 100), sized("short", 10, demand=0.8))
    plan, memory = Headway().decide(assemble(h, Trigger.STARTED), Headway().begin())
    assert memory.rates == pytest.approx({"long/main-0": 0.2, "short/main-0": 0.8})
    spare = "gets spare CPU beside short (about 10 s of CPU left); guaranteed to finish within "
    assert reasons(plan)["long"].startswith(spare)


def test_a_guarantee_that_allows_no_delay_is_kept_first_and_says_so():
    """It can use a fifth of the node only, and is at least 67 core-seconds: under fair sharing it
    would never wait for the other.
    """
    h = world(sized("thin", 100, demand=0.2, error=0.5), sized("short", 10))
    plan, memory = Headway().decide(assemble(h, Trigger.STARTED), Headway().begin())
    assert reasons(plan)["thin"] == "guaranteed to finish within 333 s, which allows no delay"
    assert memory.rates["thin/main-0"] == pytest.approx(0.2)


def test_a_thin_job_runs_beside_the_shorter_one():
    """It can use a fifth of the node only: it hardly delays the other, and would itself wait."""
    h = world(sized("thin", 100, demand=0.2), sized("short", 10))
    _, memory = Headway().decide(assemble(h, Trigger.STARTED), Headway().begin())
    assert memory.rates == {"thin/main-0": 0.2, "short/main-0": 0.8}


def test_one_job_alone_is_left_alone():
    h = world(sized("x", 10))
    plan, _ = Headway().decide(assemble(h, Trigger.STARTED), Headway().begin())
    assert (plan.decisions, plan.wake_after) == ((), None)


def test_an_empty_node_decides_nothing():
    s = snapshot()
    assert Headway().decide(s, Headway().begin())[0].wake_after is None
    for policy in (Srpt(), Las(), Fsp()):
        assert policy.decide(s, policy.begin())[0].decisions == ()


def test_unknown_sizes_share_fairly():
    h = world(job("x"), job("y"))
    plan, _ = Headway().decide(assemble(h, Trigger.STARTED), Headway().begin())
    assert set(weights(plan).values()) <= {1.0}


def test_priority_doubles_the_guarantee():
    h = world(sized("x", 50), sized("y", 50, priority=1))
    _, memory = Headway().decide(assemble(h, Trigger.STARTED), Headway().begin())
    assert memory.reference["y/main-0"].due == pytest.approx(75.0)
    assert memory.reference["x/main-0"].due == pytest.approx(100.0)


def look(h, at, *, jobs=(), used=None, since=None):
    since = h.at if since is None else since
    reports = tuple(
        Report(replica=ReplicaId(f"{n}/main-0"), since=since, at=at, usage=Usage(cpu=c))
        for n, c in (used or {}).items()
    )
    remember(h, Observation(at=at, jobs=jobs, reports=reports))
    return assemble(h, Trigger.TICK)


def test_a_job_that_ended_runs_on_in_the_reference_world_unless_it_failed():
    h = world(sized("x", 100, kind="vae"), sized("y", 30), sized("z", 60))
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    before = memory.reference["x/main-0"].due
    done = sized("y", 30, phase=Phase.SUCCEEDED)
    s = look(h, 30.0, jobs=(done,), used={"x": 0.0, "z": 0.0})
    _, memory = policy.decide(s, memory)
    assert memory.reference["y/main-0"].left
    assert memory.reference["x/main-0"].due == pytest.approx(before)
    s = look(h, 40.0, jobs=(sized("z", 60, phase=Phase.FAILED),), used={"x": 0.5})
    _, memory = policy.decide(s, memory)
    assert "z/main-0" not in memory.reference
    assert memory.reference["x/main-0"].due < before
    s = look(h, 135.0, jobs=(sized("x", 100, kind="vae", phase=Phase.SUCCEEDED),))
    _, memory = policy.decide(s, memory)
    assert memory.kinds["vae"].work == pytest.approx(100.0)
    assert memory.reference["x/main-0"].left  # the reference world still has it
    _, memory = policy.decide(look(h, 200.0), memory)
    assert memory.reference == {}


def test_the_true_size_of_an_uncertain_job_is_taken_when_it_ends():
    h = world(sized("x", 100, error=0.5, kind="gru"), sized("y", 300))
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    _, memory = policy.decide(look(h, 50.0, used={"x": 1.0, "y": 0.0}), memory)
    ended = sized("x", 100, error=0.5, kind="gru", phase=Phase.SUCCEEDED)
    _, memory = policy.decide(look(h, 80.0, jobs=(ended,), used={"y": 0.0}), memory)
    assert memory.kinds["gru"].work == pytest.approx(80.0, rel=0.02)


def gang_of_two(name, work, **more):
    """Each of its replicas can fill the node, and does half of its work."""
    two = Task(name="worker", replicas=2, least=2, most=2)
    whole = job(name, tasks=(two,), kind="vae", **more)
    told = Expected(work=Estimate(value=work), demand=1.0) if work else None
    crew = [replica(name, task="worker", index=i) for i in range(2)]
    return replace(whole, spec=replace(whole.spec, expected=told)), crew


@pytest.mark.parametrize(
    ("grows", "due", "first"),
    [pytest.param(1.01, 20.0, True, id="a little"), pytest.param(2.0, 40.0, False, id="a lot")],
)
def test_a_guarantee_that_has_passed_stays_unless_the_size_grows_a_lot(grows, due, first):
    """Otherwise a job that waits is never overdue: each estimate moves its guarantee to later."""
    h = world(sized("x", 10), sized("y", 90))
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    h = remember(h, Observation(at=20.0, jobs=(sized("x", 10 * grows), sized("y", 90))))
    _, memory = policy.decide(assemble(h, Trigger.TICK), memory)
    assert memory.reference["x/main-0"].due == pytest.approx(due)
    assert (memory.rates["x/main-0"] == 1.0) is first


def test_a_replica_of_a_gang_is_a_part_of_its_size():
    """What is told is about the job, and so is what is learnt of its kind."""
    told, crew = gang_of_two("g", 80.0)
    h = history(jobs=[told], replicas=crew)
    policy, memory = Headway(), Headway().begin()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), memory)
    assert [b.size for b in memory.estimates.values()] == [40.0, 40.0]
    _, fsp = Fsp().decide(assemble(h, Trigger.STARTED), Fsp().begin())
    assert [s.size for s in fsp.reference.values()] == [40.0, 40.0]
    remember(h, Observation(at=80.0, jobs=(replace(told, phase=Phase.SUCCEEDED),)))
    _, memory = policy.decide(assemble(h, Trigger.FINISHED), memory)
    assert memory.kinds["vae"].work == pytest.approx(80.0)
    unknown, crew = gang_of_two("u", None)
    remember(h, Observation(at=80.0, jobs=(unknown,), replicas=tuple(crew)))
    _, memory = policy.decide(assemble(h, Trigger.STARTED), memory)
    memory.probes = dict.fromkeys(memory.probes, 0)
    _, memory = policy.decide(assemble(h, Trigger.TICK), memory)
    assert [b.least for b in memory.estimates.values()] == pytest.approx([40.0 / 1.1] * 2)


def test_a_parameter_server_does_none_of_a_paced_job():
    tasks = (Task(name="ps"), Task(name="worker", replicas=3, most=3))
    assert working_replicas(JobSpec(tasks=tasks, speed=Speed())) == 3
    assert working_replicas(JobSpec(tasks=tasks)) == 4
    assert working_replicas(JobSpec(tasks=tasks[:1], speed=Speed())) == 1


def test_a_job_past_its_least_may_lag_only_a_little():
    h = world(sized("x", 100, error=1.0), sized("y", 60, error=1.0))
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    plan, memory = policy.decide(look(h, 150.0, used={"x": 0.25, "y": 0.75}), memory)
    assert "behind its fair share" in reasons(plan)["x"]


def test_what_a_job_leaves_unused_shows_what_it_can_use():
    h = world(job("x"), job("y"))
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    _, memory = policy.decide(look(h, 10.0, used={"x": 0.2, "y": 0.5}), memory)
    assert memory.reference["x/main-0"].demand == pytest.approx(0.2)
    assert memory.reference["x/main-0"].done == pytest.approx(2.0)  # it would not have used more
    assert memory.reference["y/main-0"].done == pytest.approx(8.0)
    _, memory = policy.decide(look(h, 20.0, used={"x": 0.22, "y": 0.5}), memory)
    assert memory.reference["x/main-0"].demand == pytest.approx(0.33)


def test_a_trickle_and_a_glimpse_show_nothing_of_what_a_job_can_use():
    h = world(sized("short", 10), job("x"))
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    memory.minimum_cores["x/main-0"] = 0.01
    _, memory = policy.decide(look(h, 10.0, used={"short": 0.9, "x": 0.001}), memory)
    assert memory.reference["x/main-0"].demand == 1.0
    memory.minimum_cores["x/main-0"] = 0.9
    _, memory = policy.decide(look(h, 10.4, used={"short": 0.9, "x": 0.1}), memory)
    assert memory.reference["x/main-0"].demand == 1.0


def test_a_probe_that_an_arrival_cuts_short_still_shows_what_a_job_can_use():
    h = world(job("x"), job("y"))
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    _, memory = policy.decide(look(h, 0.9, used={"x": 0.2, "y": 0.5}), memory)
    assert memory.reference["x/main-0"].demand == pytest.approx(0.2)


def test_a_job_that_uses_more_than_was_declared_can_use_more():
    h = world(sized("x", 100, demand=0.2), sized("y", 100))
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    _, memory = policy.decide(look(h, 10.0, used={"x": 0.2, "y": 0.8}), memory)
    assert memory.reference["x/main-0"].demand == 0.2
    _, memory = policy.decide(look(h, 20.0, used={"x": 0.4, "y": 0.6}), memory)
    assert memory.reference["x/main-0"].demand == pytest.approx(0.6)


def test_a_report_over_several_decisions_shows_nothing_of_what_a_job_can_use():
    h = world(job("x"), job("y"))
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    remember(h, Observation(at=2.0))
    _, memory = policy.decide(assemble(h, Trigger.NODE), memory)
    _, memory = policy.decide(look(h, 10.0, used={"x": 0.1, "y": 0.9}, since=0.0), memory)
    assert memory.reference["x/main-0"].demand == 1.0
    assert memory.reference["x/main-0"].done == pytest.approx(5.0)
    _, memory = policy.decide(look(h, 20.0, used={"x": 0.1, "y": 0.9}), memory)
    assert memory.reference["x/main-0"].demand == pytest.approx(0.1)


def test_a_script_that_may_still_print_its_length_is_looked_at_soon():
    h = world(job("x"), job("y"))
    policy = Headway()
    plan, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    assert plan.wake_after == pytest.approx(1.0)
    plan, memory = policy.decide(look(h, 8.0, used={"x": 0.5, "y": 0.5}), memory)
    assert plan.wake_after == pytest.approx(4.0)
    plan, memory = policy.decide(look(h, 100.0, used={"x": 0.5, "y": 0.5}), memory)
    assert plan.wake_after == pytest.approx(10.0)


def test_a_size_that_becomes_known_is_used_once_the_demand_was_seen():
    h = world(job("x", total_steps=100.0), job("y"))
    policy = Headway()
    plan, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    assert plan.wake_after == pytest.approx(1.0)
    said = Report(replica=ReplicaId("x/main-0"), since=0.0, at=1.0, step=10.0, usage=Usage(cpu=0.5))
    remember(h, Observation(at=1.0, reports=(said,)))
    plan, memory = policy.decide(assemble(h, Trigger.TICK), memory)
    assert memory.rates == {"x/main-0": 1.0, "y/main-0": 0.0}
    assert "goes first for a second" in reasons(plan)["x"]
    assert plan.wake_after == pytest.approx(1.0)
    said = Report(replica=ReplicaId("x/main-0"), since=1.0, at=2.0, step=28.0, usage=Usage(cpu=0.9))
    remember(h, Observation(at=2.0, reports=(said,)))
    plan, memory = policy.decide(assemble(h, Trigger.TICK), memory)
    assert memory.estimates["x/main-0"].size == pytest.approx(5.0, rel=0.01)
    assert memory.probes == {"x/main-0": 0, "y/main-0": 3}


def test_a_job_that_waits_while_another_goes_first_shows_nothing_of_what_it_can_use():
    h = world(job("x", total_steps=100.0), job("y"))
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    said = Report(replica=ReplicaId("x/main-0"), since=0.0, at=1.0, step=10.0, usage=Usage(cpu=0.5))
    remember(h, Observation(at=1.0, reports=(said,)))
    plan, memory = policy.decide(assemble(h, Trigger.TICK), memory)
    assert memory.rates == {"x/main-0": 1.0, "y/main-0": 0.0}
    assert (
        reasons(plan)["y"] == "its length is unknown (set totalSteps): waits for jobs that go first"
    )
    assert 0 < memory.minimum_cores["y/main-0"] < 0.01
    _, memory = policy.decide(look(h, 2.0, used={"x": 0.9, "y": 0.001}), memory)
    assert memory.reference["y/main-0"].demand == 1.0


def test_the_length_of_a_job_that_is_alone_does_not_matter():
    """Nothing is decided about it, so what is known of it is old."""
    h = world(job("x", total_steps=100.0))
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    h.replicas[ReplicaId("x/main-0")] = replace(replica("x"), weight=0.5)
    plan, _ = policy.decide(assemble(h, Trigger.TICK), memory)
    assert reasons(plan) == {"x": "alone on its node"}


def test_a_job_whose_demand_never_shows_is_served_first_three_times_at_most():
    h = world(job("x", total_steps=100.0), job("y"))
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    for i in range(5):
        said = Report(
            replica=ReplicaId("x/main-0"), since=i, at=i + 1.0, step=10.0 + i, usage=Usage(cpu=0.3)
        )
        remember(h, Observation(at=i + 1.0, reports=(said,)))
        memory.minimum_cores["x/main-0"] = 0.3  # others went first
        _, memory = policy.decide(assemble(h, Trigger.TICK), memory)
    assert memory.probes == {"x/main-0": 0, "y/main-0": 3}
    assert memory.estimates["x/main-0"].size < 20.0


def test_for_quality_the_settled_wait():
    h = world(sized("x", 100), sized("y", 120))
    policy = Headway(objective="quality")
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    memory.estimates["x/main-0"].settles = 0.1
    s = look(h, 20.0, used={"x": 0.9, "y": 0.1})
    s.replicas["x/main-0"].history = replace(s.replicas["x/main-0"].history)
    plan, memory = policy.decide(s, memory)
    assert plan.wake_after


def test_baselines_order_by_what_they_know():
    h = world(sized("x", 100), sized("y", 10))
    for name, left in (("x", 5.0), ("y", 90.0)):
        h.jobs[name] = replace(h.jobs[name], truth=left)
    s = assemble(h, Trigger.STARTED)
    assert weights(Srpt().decide(s, None)[0])["x"] > 1
    assert weights(Fsp().decide(s, Fsp().begin())[0])["y"] > 1
    look(h, 50.0, used={"x": 1.0, "y": 0.0})
    plan, _ = Las().decide(assemble(h, Trigger.TICK), None)
    assert weights(plan)["y"] > 1
    assert plan.wake_after == 5.0
    assert Las().decide(running("x"), None)[0].wake_after is None
    assert Srpt().decide(running("x", "y"), None)[0].decisions


def test_fsp_forgets_a_job_that_is_done_in_both_worlds():
    h = world(sized("x", 10))
    policy = Fsp()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    s = look(h, 10.0, jobs=(sized("x", 10, phase=Phase.SUCCEEDED),))
    plan, memory = policy.decide(s, memory)
    assert (plan, memory.reference) == (CALM, {})


# -- a job that stops early, one that never ends, one that lies ---------------------------------


def arrival(name, at, work, *, says=None, demand=1.0, steps=1000, declared=None):
    known = Expected(work=Estimate(value=says or work), demand=demand)
    spec = JobSpec(
        expected=known, total_steps=declared or steps, checkpoint=Mode.SDK, backoff_limit=0
    )
    return Arrival(id=name, at=at, spec=spec, work=work, demand=demand, steps=steps)


HONEST = [
    arrival(f"honest-{i}", 10.0 * i, work, demand=d)
    for i, (work, d) in enumerate([(60, 1.0), (130, 0.5), (90, 1.0), (200, 1.0), (40, 0.2)])
]


@pytest.mark.parametrize(
    ("strange", "failures"),
    [
        pytest.param(arrival("odd", 5.0, 300), (Failure(at=80.0, job="odd"),), id="stops early"),
        pytest.param(arrival("odd", 5.0, 20000, says=100, declared=5), (), id="never ends"),
        pytest.param(arrival("odd", 5.0, 150, says=15, declared=100), (), id="says less"),
        pytest.param(arrival("odd", 5.0, 30, says=300, declared=10000), (), id="says more"),
    ],
)
def test_the_others_keep_their_guarantees_whatever_one_does(strange, failures):
    """A guarantee is the finish under fair sharing, by what was known: with that one as it is, or
    as it said that it would be.
    """
    said = replace(strange, work=strange.spec.expected.work.value)
    really, as_told = ended(strange, failures, "fair"), ended(said, (), "fair")
    found = ended(strange, failures, "headway")
    for j in HONEST:
        assert found[j.id] <= 1.01 * max(really[j.id], as_told[j.id]) + 1, j.id


def ended(strange, failures, policy):
    jobs = tuple(sorted([*HONEST, strange], key=lambda j: j.at))
    scenario = Scenario(nodes=(node(),), jobs=jobs, failures=failures)
    found = simulate(scenario, build(policy)).finished
    return {j.arrival.id: j.finished_at - j.arrival.at for j in found}


def test_ten_small_jobs_of_one_user_do_not_outweigh_a_large_job_of_another():
    small = [f"s{i}" for i in range(10)]
    arrivals = dict.fromkeys(small, ("ann", 20.0)) | {"large": ("ben", 50.0)}

    def large_ends(*, users):
        jobs = tuple(
            Arrival(id=JobId(name), at=0.0, work=work, spec=owned(work, owner if users else ""))
            for name, (owner, work) in arrivals.items()
        )
        found = simulate(Scenario(nodes=(node(),), jobs=jobs), build("headway")).finished
        return next(j.finished_at for j in found if j.arrival.id == "large")

    assert large_ends(users=True) <= 102.0  # half of the node until then
    assert large_ends(users=False) > 200.0


def owned(work, owner):
    known = Expected(work=Estimate(value=work), demand=1.0)
    return JobSpec(owner=owner, expected=known)
