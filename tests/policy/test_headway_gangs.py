"""`headway` divides the share of a gang among its replicas on a node."""

from dataclasses import replace

import pytest

from headway.core.cycle.cluster_state import assemble, remember
from headway.core.model.job import Estimate, Expected, Task
from headway.core.model.report import Report, Usage
from headway.core.model.snapshot import Observation, Trigger
from headway.policy.share.headway import Headway
from making import history, job, replica


def with_size(made, work):
    told = Expected(work=Estimate(value=work), demand=1.0) if work else None
    return replace(made, spec=replace(made.spec, expected=told))


def single(name, work):
    return with_size(job(name), work)


def gang(name, work=None, **more):
    two = Task(name="worker", replicas=2, least=2, most=2)
    crew = [replica(name, task="worker", index=i) for i in range(2)]
    return with_size(job(name, tasks=(two,), **more), work), crew


def served(name, work, *, workers=1):
    """A job with a parameter server, all on one node."""
    tasks = (Task(name="ps"), Task(name="worker", replicas=workers, most=workers))
    crew = [replica(name, task="ps")]
    crew += [replica(name, task="worker", index=i) for i in range(workers)]
    return with_size(job(name, tasks=tasks), work), crew


def observe(h, at, used, **steps):
    """Reports of all that was used since time 0."""
    reports = tuple(
        Report(replica=n, at=at, since=0.0, usage=Usage(cpu=cpu), step=steps.get(n))
        for n, cpu in used.items()
    )
    return assemble(remember(h, Observation(at=at, reports=reports)), Trigger.TICK)


def test_a_parameter_server_gets_its_fair_share_whatever_is_left_of_its_job():
    """With the least weight, its workers would wait for it."""
    long, (server, *crew) = served("long", 900.0, workers=2)
    crew.append(replace(server, weight=0.004))
    h = history(jobs=[long, single("short", 10)], replicas=[*crew, replica("short")])
    policy = Headway()
    plan, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    given = {d.replica: d.weight for d in plan.decisions}
    assert given["long/worker-0"] < 0.02
    assert given["long/ps-0"] == pytest.approx(1.0, rel=0.05)
    assert memory.rates["long/ps-0"] == pytest.approx(0.25)
    why = {d.replica: d.reason for d in plan.decisions}
    assert why["long/ps-0"] == "its workers wait for it: fair share"
    assert plan.wake_after > 2.0, "nothing more will be known of its size"


def test_what_a_parameter_server_leaves_goes_to_others():
    long, crew = served("long", 900.0)
    h = history(jobs=[long, single("short", 10)], replicas=[*crew, replica("short")])
    policy = Headway()
    _, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    used = {"long/ps-0": 0.02, "long/worker-0": 0.0, "short/main-0": 0.9}
    _, memory = policy.decide(observe(h, 5.0, used), memory)
    assert memory.reference["long/ps-0"].demand == pytest.approx(0.02)
    assert memory.rates["short/main-0"] >= 0.9


def test_the_workers_of_a_gang_get_equal_parts_of_its_share():
    """The first would wait for the second, and the second have as little as the jobs after it."""
    two, crew = gang("g", 20.0)
    h = history(jobs=[two, single("long", 500)], replicas=[*crew, replica("long")])
    policy = Headway()
    plan, memory = policy.decide(assemble(h, Trigger.STARTED), policy.begin())
    assert [memory.rates[r.id] for r in crew] == [0.5, 0.5]
    given = {d.replica: d.weight for d in plan.decisions}
    assert given["g/worker-0"] == given["g/worker-1"] > 100 * given["long/main-0"]


def test_the_chief_of_a_gang_is_not_served_after_workers_whose_size_is_unknown():
    """Only the chief reports steps."""
    two, crew = gang("g", None, total_steps=1000.0)
    h = history(jobs=[two, single("short", 5)], replicas=[*crew, replica("short")])
    policy, memory = Headway(), Headway().begin()
    memory.probes = {r.id: 0 for r in crew}
    used = {"g/worker-0": 0.4, "g/worker-1": 0.4}
    _, memory = policy.decide(observe(h, 10.0, used, **{"g/worker-0": 30.0}), memory)
    assert memory.rates["g/worker-0"] == memory.rates["g/worker-1"] == pytest.approx(1 / 3)
