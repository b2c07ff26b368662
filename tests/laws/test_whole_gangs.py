"""What holds for distributed jobs, whatever happens."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headway.core.estimate.step_rate import FAR, Speed, predict
from headway.core.model.decision import Scale, Suspend
from headway.core.model.job import Estimate, Expected, JobSpec, Mode, Phase, Task
from headway.core.model.node import Node
from headway.core.model.units import Resources
from headway.sim.scenario import Arrival, Costs, Failure, Scenario
from headway.sim.world import World
from scenarios import TwiceAndUntouched, run

pytestmark = pytest.mark.untraced

often = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
CORRECTED = [
    "gang", "gang+locality", "elastic", "dragon", "dragon:starve_after=5,grow_after=5,restart=1",
    "dragon:converged=on,interval=3,starve_after=5,grow_after=5", "kips",
    "kips:interval=3,cool_down=5", "optimus:interval=20",
]  # fmt: skip
WHOLE = [*CORRECTED, "dragon:paper", "dragon:paper,starve_after=5,grow_after=5"]
SWITCHES = ("count_ps", "reserve", "carry_on", "near_ps", "by_total", "most_first", "tick", "weigh")
ALONE = [f"dragon:starve_after=5,grow_after=5,{switch}=off" for switch in SWITCHES]
corrected, whole = st.sampled_from(CORRECTED), st.sampled_from([*WHOLE, *ALONE])


@st.composite
def tasks(draw):
    """A job of one kind or another, and how its speed is told."""
    kind = draw(st.sampled_from(["sync", "async", "ring", "plain"]))
    replicas = draw(st.integers(1, 4))
    worker = Task(
        name="worker",
        replicas=replicas,
        least=draw(st.integers(1, replicas)),
        most=replicas + draw(st.integers(0, 3)),
        request=Resources(
            cpu=draw(st.sampled_from([0.5, 1.0])), gpu=draw(st.sampled_from([0.0, 0.0, 0.5, 1.0]))
        ),
        limit=draw(st.sampled_from([None, None, 0.5])),
    )
    if kind in ("ring", "plain"):
        return kind, (worker,)
    ps = Task(name="ps", request=Resources(cpu=draw(st.sampled_from([0.0, 0.5, 1.0]))))
    chief = Task(name="chief", request=Resources(cpu=0.5))
    return kind, (ps, chief, worker) if draw(st.booleans()) else (ps, worker)


@st.composite
def arrivals(draw, name, at, nodes, *, known):
    kind, found = draw(tasks())
    if known:  # every replica has a core of its own, so that its speed is known too
        found = tuple(replace(t, request=Resources(cpu=1.0)) for t in found)
    steps, work = draw(st.sampled_from([5.0, 40.0])), draw(st.sampled_from([10.0, 60.0, 400.0]))
    speed = None
    if kind != "plain":
        speed = Speed(
            kind=kind, compute=work / steps, transfer=0.02, latency=0.01, penalty=3.0,
            rack_penalty=2.0,
        )  # fmt: skip
    told = Expected(work=Estimate(value=work), demand=1.0)
    spec = JobSpec(
        tasks=found,
        speed=speed,
        checkpoint=Mode.SDK if known else draw(st.sampled_from([Mode.SDK, Mode.NONE])),
        expected=told if known else draw(st.sampled_from([told, None])),
        total_steps=steps if known else draw(st.sampled_from([steps, None])),
    )
    if known and not fits(spec, nodes, fewest=False):
        spec = replace(spec, tasks=tuple(_one(t) for t in spec.tasks if t.name != "chief"))
    elif not fits(spec, nodes, fewest=False):
        spec = replace(spec, tasks=tuple(replace(t, request=Resources()) for t in spec.tasks))
    return Arrival(id=name, at=at, spec=spec, work=work, demand=1.0, steps=steps)


@st.composite
def gangs(draw, *, known=False, broken=True):
    nodes = tuple(
        Node(
            id=f"QN{i}Q",
            capacity=Resources(
                cpu=draw(st.sampled_from([2.0, 4.0])),
                memory=2.0**36,
                gpu=draw(st.sampled_from([0.0, 2.0])),
            ),
            speed=draw(st.sampled_from([1.0, 1.0, 2.0])),
            rack=draw(st.sampled_from(["", "r"])),
        )
        for i in range(draw(st.integers(1, 2 if known else 4)))
    )
    jobs, at = [], 0.0
    for i in range(draw(st.integers(1, 6))):
        at += draw(st.sampled_from([0.0, 0.0, 3.7, 21.0]))
        jobs.append(draw(arrivals(f"QJ{i}Q", at, nodes, known=known)))
    failures = ()
    if broken and draw(st.booleans()):
        failures = (
            Failure(at=draw(st.floats(1, 60)), node=nodes[0].id, lasts=30.0),
            Failure(at=draw(st.floats(1, 60)), job=jobs[0].id),
        )
    return Scenario(nodes=nodes, jobs=tuple(jobs), costs=Costs(), failures=failures)


def fits(spec, nodes, *, fewest):
    """Every way of placing it is tried."""
    asked = [t.request for t in spec.tasks for _ in range(t.least if fewest else t.replicas)]
    rooms = {(n.taken, n.capacity) for n in nodes if n.up}
    return _placed(
        [r for r in asked if r != Resources()], [n.taken for n in nodes if n.up],
        [n.capacity for n in nodes if n.up],
    ) and bool(rooms)  # fmt: skip


def _placed(asked, taken, capacity):
    if not asked:
        return True
    first, *rest = asked
    tried = set()
    for i, there in enumerate(taken):
        if (there, capacity[i]) in tried or not first.fits(there, capacity[i]):
            continue
        tried.add((there, capacity[i]))
        if _placed(rest, [*taken[:i], there + first, *taken[i + 1 :]], capacity):
            return True
    return False


def _one(task):
    return replace(task, replicas=1, least=1)


def counts(job):
    return {t.name: (sum(r.task == t.name for r in job.replicas.values()), t.least, t.most)
            for t in job.arrival.spec.tasks}  # fmt: skip


@often
@given(gangs(), whole)
def test_never_a_partial_gang_and_bounds_are_kept(scenario, policy):
    def watch(world):
        for job in world.jobs.values():
            if job.phase is not Phase.PENDING:
                for count, least, most in counts(job).values():
                    assert least <= count <= most

    run(scenario, policy, watch=watch)


@often
@given(gangs(), whole)
def test_no_node_holds_more_than_it_has(scenario, policy):
    def watch(world):
        for state in world.nodes.values():
            asked = Resources()
            for r in state.replicas.values():
                asked = asked + r.job.arrival.spec.task(r.task).request
            assert asked.fits(Resources(), state.node.capacity)

    run(scenario, policy, watch=watch)


class Watched:
    """A policy whose every plan is looked at."""

    def __init__(self, inner, look):
        self.inner, self.name, self.listens, self.look = inner, inner.name, inner.listens, look

    def begin(self):
        return self.inner.begin()

    def decide(self, snapshot, memory):
        plan, memory = self.inner.decide(snapshot, memory)
        self.look(snapshot, plan)
        return plan, memory


@often
@given(gangs(), whole)
def test_chief_and_parameter_servers_are_never_taken(scenario, policy):
    def look(_, plan):
        for d in plan.decisions:
            if isinstance(d, Scale):
                assert d.task == "worker"
                assert f"{d.job}/worker-0" not in d.remove

    run(scenario, policy, wrap=lambda p: Watched(p, look))


@often
@given(gangs(broken=False), corrected)
def test_if_some_waiting_job_has_room_one_starts(scenario, policy):
    """Those who can neither be suspended nor be known to end wait for the first in line."""
    fewest = not policy.startswith("gang")

    def look(snapshot, plan):
        phases = {snapshot.jobs[r.job].phase for r in snapshot.replicas.values() if r.node}
        if plan.decisions or not phases <= {Phase.RUNNING}:
            return
        waiting = sorted(snapshot.waiting, key=lambda j: j.submitted_at)
        for i, job in enumerate(waiting):
            if i == 0 or job.spec.checkpoint is not Mode.NONE:
                assert not fits(job.spec, list(snapshot.nodes.values()), fewest=fewest)

    run(scenario, policy, wrap=lambda p: Watched(p, look))


def _ring(name, at, workers, work):
    worker = Task(
        name="worker", replicas=workers, least=workers, most=workers, request=Resources(cpu=1.0)
    )
    spec = JobSpec(
        tasks=(worker,),
        speed=Speed(kind="ring"),
        total_steps=work,
        checkpoint=Mode.SDK,
        expected=Expected(work=Estimate(value=work), demand=1.0),
    )
    return Arrival(id=name, at=at, spec=spec, work=work, demand=1.0, steps=work)


OVERTAKEN = Scenario(
    nodes=(Node(id="a", capacity=Resources(cpu=4.0)),),
    jobs=(_ring("x", 0.0, 3, 90.0), _ring("all", 1.0, 4, 40.0), _ring("long", 2.0, 1, 900.0)),
)
"""The last would delay the second by far, if it were let in for good."""


@often
@example(OVERTAKEN, "gang")
@example(OVERTAKEN, "dragon")
@given(gangs(known=True, broken=False), corrected)
def test_no_job_waits_longer_than_the_jobs_before_it_take(scenario, policy):
    """Each at its slowest, one after the other; and what stopping and starting costs."""
    acts = [0]

    def look(_, plan):
        acts[0] += sum(isinstance(d, Scale | Suspend) for d in plan.decisions)

    world = run(scenario, policy, wrap=lambda p: Watched(p, look))
    costs = scenario.costs
    each = costs.save + costs.restore + costs.rescale + 2.0
    ended = {j.arrival.id: j for j in world.finished}
    for i, job in enumerate(scenario.jobs):
        ahead = [j for j in scenario.jobs[:i] if ended[j.id].finished_at > job.at]
        bound = sum(slowest(j, scenario) for j in ahead) + each * (acts[0] + len(ahead))
        assert ended[job.id].started_at - job.at <= bound + 1e-6


def slowest(job, scenario):
    """Seconds that a job takes with the worst number of workers, as far apart as can be."""
    speed = min(n.speed for n in scenario.nodes)
    tasks = {t.name: t for t in job.spec.tasks}
    cores = min(1.0, *(t.limit or 1.0 for t in job.spec.tasks), 1.0)
    worst = 0.0
    for count in range(tasks["worker"].least, tasks["worker"].most + 1):
        workers = count + ("chief" in tasks)
        rate = workers * cores * speed
        if job.spec.speed is not None:
            steps = predict(job.spec.speed, workers, 1, cores * speed, FAR)
            rate = steps * job.work / job.steps
        worst = max(worst, job.work / rate)
    return worst


@often
@given(gangs(), whole)
def test_same_input_same_plan_and_input_untouched(scenario, policy):
    run(scenario, policy, wrap=TwiceAndUntouched)


@often
@given(scenario=gangs(), policy=whole)
def test_the_truth_is_not_read_and_same_seed_same_journal(tmp_path_factory, scenario, policy):
    path = tmp_path_factory.mktemp("j") / "journal.jsonl"

    class Mute(World):
        def observe(self, look=()):
            seen = super().observe(look)
            return replace(seen, jobs=tuple(replace(j, truth=None) for j in seen.jobs))

    def plans(world_class):
        path.unlink(missing_ok=True)
        run(scenario, policy, journal=path, world_class=world_class)
        return [json.loads(line)["plan"] for line in path.read_text().splitlines()]

    assert plans(World) == plans(Mute)


@often
@given(gangs(broken=False), st.sampled_from(["gang", "dragon:starve_after=5,grow_after=5"]))
def test_workers_of_a_synchronous_job_have_equal_speed(scenario, policy):
    equal_speed(scenario, policy)


@often
@given(gangs(broken=False))
def test_so_they_have_under_kips(scenario):
    equal_speed(scenario, "kips")


def equal_speed(scenario, policy):
    """Ceiling times speed of the node, once all acts of an instant are done."""

    class Settled(World):
        def next_at(self):
            at = super().next_at()
            for job in self.jobs.values() if at > self.now else ():
                speed = job.arrival.spec.speed
                workers = [r for r in job.replicas.values() if r.task != "ps"]
                if speed is None or not speed.waits or job.phase is not Phase.RUNNING:
                    continue
                paces = {
                    round((job.arrival.demand if r.limit is None else r.limit)
                          * r.node.node.speed, 9)
                    for r in workers
                }  # fmt: skip
                assert len(paces) == 1
            return at

    run(scenario, policy, world_class=Settled)


@pytest.mark.parametrize("policy", [*WHOLE, *ALONE])
def test_every_arm_ends_every_job(policy):
    """Once for each, so that none is left to luck."""
    nodes = tuple(Node(id=f"n{i}", capacity=Resources(cpu=4.0, gpu=2.0)) for i in range(2))
    worker = Task(name="worker", replicas=2, least=1, most=4, request=Resources(cpu=1.0, gpu=1.0))
    spec = JobSpec(
        tasks=(Task(name="ps", request=Resources(cpu=0.5)), worker),
        checkpoint=Mode.SDK,
        speed=Speed(compute=1.0, transfer=0.01, penalty=4.0),
        total_steps=100,
        expected=Expected(work=Estimate(value=100.0), demand=1.0),
    )
    jobs = tuple(
        Arrival(id=f"j{i}", at=7.0 * i, spec=spec, work=100.0, demand=1.0, steps=100)
        for i in range(8)
    )
    world = run(Scenario(nodes=nodes, jobs=jobs), policy)
    assert all(j.phase is Phase.SUCCEEDED for j in world.finished)


def test_room_that_comes_free_in_two_parts_is_kept():
    """Of two cores one is free at 10 s and one at 60 s; the pair is due then, and waits for
    whoever took the first of them.
    """
    pair = _ring("pair", 0.0, 2, 10.0)
    jobs = (_ring("x", 0.0, 1, 10.0), _ring("y", 0.0, 1, 60.0), pair, _ring("z", 0.0, 1, 400.0))
    world = run(Scenario(nodes=(Node(id="a", capacity=Resources(cpu=2.0)),), jobs=jobs), "gang")
    assert {j.arrival.id: j.started_at for j in world.finished}["pair"] < 80
