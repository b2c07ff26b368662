"""Distributed jobs: how they are written, drawn, run and scaled."""

from dataclasses import replace
from statistics import fmean

import pytest
from test_world import Once, ended

from headway.core.cycle.policy import Chain
from headway.core.estimate.step_rate import NEAR, Speed, predict
from headway.core.model.decision import Place, Scale, Suspend
from headway.core.model.job import JobSpec, Mode, Task
from headway.core.model.units import ReplicaId, Resources
from headway.errors import ConfigError
from headway.policy.placement.even import Even
from headway.policy.registry import build
from headway.report.comparison import run_charts
from headway.report.explain import explain_job
from headway.report.run_timeline import world_timeline
from headway.runtime.journal import FileJournal
from headway.runtime.result import from_json, to_json
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.sim.scenario import Arrival, Scenario
from headway.sim.summary import summary
from headway.spec.arrivals import expand, occupancy, to_yaml
from headway.spec.load import parse
from headway.spec.workload import Workload
from making import GIB, node

HEAD = "apiVersion: headway.dev/v1alpha1\nkind: Workload\n"
SPEED = Speed(compute=4.0, fixed=0.5, transfer=0.1, penalty=3.0)
DRAWN = """
nodes: [{name: n, cpu: 8, gpu: 4, count: 2}]
arrivals:
  load: 0.9
  jobs: 200
  checkpoint: sdk
  profile:
    steps: [200, 400]
    vary: 0.2
    speed: {kind: sync, compute: 4, fixed: 0.1, size: 100Mi, bandwidth: 1Gi, penalty: 3}
    tasks:
      - {name: ps, cpu: [1]}
      - {name: worker, replicas: [1, 2, 3, 4], min: [1], max: [4, 6, 8], cpu: [1], gpu: [1]}
"""


def workload(body):
    return parse(HEAD + body, Workload, where="test")


def ps_job(workers=3, *, least=1, most=6, kind="sync", work=45.0, steps=10.0, name="x", **speed):
    tasks = (
        Task(name="ps", request=Resources(cpu=1.0)),
        Task(name="worker", replicas=workers, least=least, most=most, request=Resources(cpu=1.0)),
    )
    found = Speed(kind=kind, compute=4.0, fixed=0.5, transfer=0.1, penalty=3.0, **speed)
    spec = JobSpec(tasks=tasks, checkpoint=Mode.SDK, speed=found, total_steps=steps)
    return Arrival(id=name, at=0.0, spec=spec, work=work, steps=steps)


def test_a_job_as_a_user_writes_it():
    found = to_scenario(
        workload(
            """
nodes: [{name: a, cpu: 8, gpu: 4}]
jobs:
  - name: x
    profile: {steps: 300, speed: {kind: sync, compute: 4, fixed: 0.5, size: 100Mi, bandwidth: 1Gi}}
    spec:
      tasks:
        - {name: ps, resources: {requests: {cpu: 1}}}
        - {name: worker, replicas: 2, maxReplicas: 4, resources: {requests: {cpu: 1, gpu: 0.5}}}
"""
        )
    ).jobs[0]
    assert found.spec.speed == Speed(compute=4.0, fixed=0.5, transfer=100 / 1024)
    assert found.work == pytest.approx(300 * 4.5)
    assert [(t.name, t.replicas, t.least, t.most) for t in found.spec.tasks] == [
        ("ps", 1, 1, 1), ("worker", 2, 2, 4),
    ]  # fmt: skip
    assert found.spec.tasks[1].request == Resources(cpu=1.0, gpu=0.5)


def test_a_manifest_that_does_not_suit_its_speed_is_named(tmp_path):
    (tmp_path / "m.yaml").write_text(
        "apiVersion: headway.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: x}\n"
        "spec: {tasks: [{name: worker}]}\n",
        encoding="utf-8",
    )
    given = workload(
        "jobs: [{name: x, manifest: m.yaml, profile: {speed: {kind: sync, compute: 1}}}]"
    )
    with pytest.raises(ConfigError, match="no task called 'ps'") as caught:
        to_scenario(given, path=tmp_path / "w.yaml")
    assert caught.value.where.endswith("m.yaml")


def test_drawn_gangs_keep_their_bounds_and_their_load():
    given = workload(DRAWN)
    one, same, other = (expand(given, s) for s in (1, 1, 2))
    assert one.jobs == same.jobs != other.jobs
    for job in one.jobs:
        worker = job.spec.tasks[1]
        assert 1 == worker.least <= worker.replicas <= 4 <= worker.most
        assert job.profile.work == pytest.approx(job.profile.steps * 4.1)
    assert {j.spec.tasks[1].replicas for j in one.jobs} == {1, 2, 3, 4}
    mean = fmean(occupancy(j, given.to_nodes()) for j in one.jobs)
    span = one.jobs[-1].at / len(one.jobs)
    assert mean / span == pytest.approx(0.9, rel=0.2)
    assert workload(to_yaml(one).partition("kind: Workload\n")[2]).jobs == one.jobs


def test_a_load_counts_what_a_job_takes_most():
    given = workload(
        "nodes: [{name: a, cpu: 4, gpu: 2}]\n"
        "jobs:\n"
        "  - {name: x, profile: {work: 60, demand: 2}}\n"
        "  - name: y\n"
        "    profile: {work: 60}\n"
        "    spec: {tasks: [{replicas: 2, resources: {requests: {cpu: 1, gpu: 1}}}]}\n"
    )
    x, y = (occupancy(j, given.to_nodes()) for j in given.jobs)
    assert (x, y) == pytest.approx((30 * 2 / 4, 30 * 2 / 2))


def test_jobs_drawn_from_lists_without_gangs():
    given = workload("arrivals: {every_s: 5, jobs: 9, profile: {work: [5], steps: [10, 20]}}")
    assert {j.profile.steps for j in expand(given, 1).jobs} == {10, 20}


def test_a_gang_runs_at_the_speed_of_its_formula():
    world = simulate(Scenario(nodes=(node(cpu=8.0),), jobs=(ps_job(),)), build("spread"))
    assert ended(world) == {"x": pytest.approx(10 / predict(SPEED, 3))}


def test_the_slowest_worker_sets_the_pace_and_distance_costs():
    nodes = (node("a", cpu=2.0), node("b", cpu=2.0, speed=0.5))
    where = tuple(
        (ReplicaId(name), node)
        for name, node in (
            ("x/ps-0", "a"),
            ("x/worker-0", "a"),
            ("x/worker-1", "b"),
            ("x/worker-2", "b"),
        )
    )
    world = simulate(
        Scenario(nodes=nodes, jobs=(ps_job(),)), Once(0.0, Place(job="x", where=where))
    )
    expected = 10 / predict(SPEED, 3, rate=0.5, far=NEAR)
    assert ended(world) == {"x": pytest.approx(expected)}


def test_an_asynchronous_gang_adds_its_workers_up():
    nodes = (node("a", cpu=2.0), node("b", cpu=2.0, speed=0.5))
    where = tuple(
        (ReplicaId(name), node)
        for name, node in (
            ("x/ps-0", "a"),
            ("x/worker-0", "a"),
            ("x/worker-1", "b"),
            ("x/worker-2", "b"),
        )
    )
    job = ps_job(kind="async")
    world = simulate(Scenario(nodes=nodes, jobs=(job,)), Once(0.0, Place(job="x", where=where)))
    rate = 1 / (4.5 + 0.1 * 3) + 2 / (4.5 / 0.5 + 3 * 0.1 * 3)
    assert ended(world) == {"x": pytest.approx(10 / rate)}


def test_scaling_keeps_every_step_that_was_made():
    grow = Scale(
        job="x", task="worker", add=((ReplicaId("x/worker-3"), "a"), (ReplicaId("x/worker-4"), "a"))
    )
    policy = Chain(Even(), Once(10.0, grow))
    job = ps_job(work=450.0, steps=100.0)
    world = simulate(Scenario(nodes=(node(cpu=8.0),), jobs=(job,)), policy)
    rest = 100 - 10 * predict(SPEED, 3)
    assert ended(world) == {"x": pytest.approx(10 + 10 + rest / predict(SPEED, 5))}
    assert world.finished[0].done == pytest.approx(450.0)


def test_explain_names_the_replicas_that_a_scale_adds_and_removes(tmp_path):
    added, removed = ReplicaId("x/worker-3"), ReplicaId("x/worker-1")
    grow = Scale(job="x", task="worker", add=((added, "a"),), reason="room")
    shrink = Scale(job="x", task="worker", remove=(removed,))
    journal = FileJournal(tmp_path / "journal.jsonl", durable=False)
    policy = Chain(Even(), Once(10.0, grow), Once(20.0, shrink))
    simulate(Scenario(nodes=(node(cpu=8.0),), jobs=(ps_job(),)), policy, journal=journal)
    journal.close()
    told = [(e.what, e.why) for e in explain_job(tmp_path / "journal.jsonl", "x").events]
    assert ("scale: add worker-3 on a", "room") in told
    assert ("scale: remove worker-1", "") in told


def test_the_chart_names_the_replicas_of_a_job_that_has_several():
    alone = Arrival(id="alone", at=0.0, spec=JobSpec(), work=45.0)
    scenario = Scenario(nodes=(node(cpu=8.0),), jobs=(ps_job(), alone))
    page = run_charts(world_timeline(simulate(scenario, Even(), record=True)))
    assert all(f"x {name}\n" in page for name in ("ps-0", "worker-0", "worker-1", "worker-2"))
    assert "alone\n" in page


def test_a_parameter_server_uses_no_more_than_it_asks_for():
    world = simulate(
        Scenario(nodes=(node(cpu=8.0),), jobs=(ps_job(),)), build("spread"), record=True
    )
    assert {cores for _, name, _, cores in world.trace if "ps-0" in name} <= {-1.0, 0.0, 1.0}


def gpu_gangs(speed=None):
    tasks = (Task(name="worker", replicas=3, least=3, most=3, request=Resources(cpu=1, gpu=1)),)
    spec = JobSpec(tasks=tasks, checkpoint=Mode.SDK, speed=speed)
    return tuple(
        Arrival(id=f"g{i}", at=0.0, spec=spec, work=work, steps=work)
        for i, work in enumerate((30.0, 60.0))
    )


def gpu_node(name, **more):
    return replace(node(name, **more), capacity=Resources(cpu=1.0, memory=GIB, gpu=1.0))


def test_what_half_started_jobs_hold_is_not_useful():
    """Two gangs of three on four GPUs: 300 s of deadlock, then 10 s and 20 s of work."""
    nodes = tuple(gpu_node(n) for n in "abcd")
    scenario = Scenario(nodes=nodes, jobs=gpu_gangs())
    found = summary(simulate(scenario, build("spread")), "spread", None)
    assert found.deadlocks == 1
    assert found.makespan_s == pytest.approx(330.0)
    assert found.gpu_allocated == pytest.approx((300 * 4 + 30 * 3) / (330 * 4), rel=0.01)
    assert found.gpu_useful == pytest.approx(30 * 3 / (330 * 4))
    assert found.cpu_useful == pytest.approx(30 * 3 / (330 * 4))
    assert found.mean_waiting_s == pytest.approx((300 + 310) / 2)
    assert found.mean_running_s == pytest.approx(15.0)
    whole = summary(simulate(scenario, build("las")), "las", None)
    assert (whole.deadlocks, whole.gpu_useful) == (0, pytest.approx(30 * 3 / (30 * 4)))


def test_workers_that_wait_at_the_barrier_are_not_useful():
    """One worker of three is half as fast: the others wait half of each step."""
    nodes = (gpu_node("a"), gpu_node("b"), gpu_node("c", speed=0.5))
    jobs = gpu_gangs(Speed(kind="ring", compute=3.0))[:1]
    found = summary(simulate(Scenario(nodes=nodes, jobs=jobs), build("spread")), "spread", None)
    assert found.gpu_allocated == pytest.approx(1.0)
    assert found.gpu_useful == pytest.approx((0.5 + 0.5 + 1) / 3)


def test_without_requests_what_is_used_is_what_is_held():
    jobs = (Arrival(id="x", at=0.0, spec=JobSpec(), work=10.0),)
    found = summary(simulate(Scenario(nodes=(node(cpu=2.0),), jobs=jobs), build("fair")), "f", None)
    assert (found.cpu_allocated, found.cpu_useful) == pytest.approx((0.5, 0.5))
    assert found.gpu_useful is None
    assert from_json(to_json([found])) == found


def test_a_suspended_job_counts_only_while_it_holds_room():
    policy = Chain(Even(), Once(10.0, Suspend(job="x")))
    world = simulate(
        Scenario(nodes=(node(cpu=8.0),), jobs=(ps_job(work=450.0, steps=100.0),)), policy
    )
    state = world.finished[0]
    train = 100 / predict(SPEED, 3)
    assert state.finished_at == pytest.approx(train + 5.0)
    assert state.held_cpu == pytest.approx(4 * (train + 5.0))  # all but no time in the queue
    assert state.useful_cpu == pytest.approx(4 * train)
