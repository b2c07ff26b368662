"""Random small scenarios, and runs of them that are watched step by step."""

from dataclasses import replace
from pickle import dumps, loads

from hypothesis import strategies as st

from headway.core.estimate.step_rate import SERVER, Speed
from headway.core.model.job import Estimate, Expected, JobSpec, Mode, Phase, Task
from headway.core.model.units import Resources
from headway.policy.registry import build
from headway.runtime.journal import FileJournal
from headway.sim import driver
from headway.sim.curve import Curve, bent
from headway.sim.scenario import Arrival, Costs, Failure, ForeignLoad, Scenario
from headway.sim.world import World
from making import GIB, node

POLICIES = [
    "fair", "flowcon", "flowcon:paper", "flowcon:paper,threshold=0.01,interval=30",
    "headway", "headway:objective=quality", "las", "fsp",
    "specon", "specon:paper", "specon:interval=2,threshold=0.5,unconverged=0",
    "specon:paper,interval=2,threshold=0.5,unconverged=0", "flowcon2", "flowcon2:paper",
    "interrupted",
    "gang", "gang+locality", "elastic", "dragon", "dragon:paper", "dragon:converged=on,interval=3",
    "kips", "optimus:interval=20", "dragon+fair",
    "spread", "even", "fifo", "tiresias:quantum=20",
]  # fmt: skip


@st.composite
def arrivals(draw, name, at):
    shape, at20 = draw(st.sampled_from([("inverse", 0.65), ("exponential", 0.9)]))
    curve = Curve(shape=shape, bend=bent(shape, at20), noise=draw(st.sampled_from([0.0, 0.05])))
    task = Task(request=Resources(cpu=draw(st.sampled_from([0.0, 0.3, 1.0]))))
    work = draw(st.sampled_from([5.0, 40.0, 130.0]))
    demand = draw(st.sampled_from([0.2, 0.5, 1.0, 3.0]))
    steps = draw(st.sampled_from([1, 10, 500]))
    error = draw(st.sampled_from([None, 0.0, 0.1, 0.5]))
    known = None
    if error is not None:
        size = work * (1 + error) ** draw(st.sampled_from([-1, 0.5, 1]))
        known = Expected(work=Estimate(value=size, error=error), demand=demand)
    spec = JobSpec(
        tasks=(task,),
        checkpoint=Mode.SDK,
        expected=known,
        total_steps=draw(st.sampled_from([None, steps])),
        kind=draw(st.sampled_from(["", "vae"])),
        priority=draw(st.sampled_from([0, 0, 1])),
    )
    return Arrival(id=name, at=at, spec=spec, work=work, demand=demand, steps=steps, curve=curve)


@st.composite
def foreign_loads(draw, nodes):
    """Other processes on some nodes, at times more than a node has."""
    changes = st.tuples(st.sampled_from([0.0, 5.0, 30.0, 47.0]), st.sampled_from([0.0, 0.6, 5.0]))
    given = {n.id: draw(st.lists(changes, max_size=3)) for n in nodes}
    return tuple(
        ForeignLoad(node=name, given=tuple(sorted(some))) for name, some in given.items() if some
    )


@st.composite
def scenarios(draw, most_jobs=6, failures=True):
    nodes = tuple(
        node(
            f"QN{i}Q",
            cpu=draw(st.sampled_from([1.0, 2.0, 4.0])),
            speed=draw(st.sampled_from([0.5, 1.0, 2.0])),
        )
        for i in range(draw(st.integers(1, 3)))
    )
    jobs, at = [], 0.0
    for i in range(draw(st.integers(1, most_jobs))):
        at += draw(st.sampled_from([0.0, 0.0, 3.7, 21.0, 60.0]))
        jobs.append(draw(arrivals(f"QJ{i}Q", at)))
    broken = ()
    if failures and draw(st.booleans()):
        broken = (
            Failure(at=draw(st.floats(1, 60)), node=nodes[0].id, lasts=30.0),
            Failure(at=draw(st.floats(1, 60)), job=jobs[0].id),
        )
    return Scenario(
        nodes=nodes,
        jobs=tuple(jobs),
        costs=Costs(sd=draw(st.sampled_from([0.0, 1.0]))),
        contention=draw(st.sampled_from([0.0, 0.05])),
        failures=broken,
        foreign=draw(foreign_loads(nodes)),
        seed=draw(st.integers(0, 3)),
    )


@st.composite
def gangs(draw, name, at):
    kind = draw(st.sampled_from([None, "sync", "async", "ring"]))
    request = Resources(
        cpu=draw(st.sampled_from([0.5, 1.0])), gpu=draw(st.sampled_from([0, 0.5, 1]))
    )
    replicas = draw(st.integers(1, 3))
    worker = Task(
        name="worker",
        replicas=replicas,
        least=draw(st.integers(1, replicas)),
        most=replicas + draw(st.integers(0, 2)),
        request=request,
    )
    tasks = (worker,)
    if kind in ("sync", "async"):
        chief = (Task(name="chief", request=request),) if draw(st.booleans()) else ()
        tasks = (Task(name=SERVER, request=Resources(cpu=0.5)), *chief, worker)
    speed = kind and Speed(
        kind=kind,
        compute=draw(st.sampled_from([1.0, 4.0])),
        fixed=draw(st.sampled_from([0.0, 0.2])),
        transfer=draw(st.sampled_from([0.0, 0.3])),
        per_worker=0.01,
        latency=0.02,
        penalty=3.0,
        rack_penalty=2.0,
    )
    spec = JobSpec(tasks=tasks, speed=speed, checkpoint=Mode.SDK, total_steps=40.0)
    return Arrival(id=name, at=at, spec=spec, work=draw(st.sampled_from([20.0, 90.0])), steps=40.0)


@st.composite
def clusters(draw, most_jobs=5):
    """Every gang fits the cluster when it is empty; a node may fail."""
    nodes = tuple(
        node(f"QN{i}Q", cpu=6.0, speed=draw(st.sampled_from([0.5, 1.0, 2.0])), rack=f"r{i % 2}")
        for i in range(draw(st.integers(1, 3)))
    )
    room = Resources(cpu=6.0, memory=GIB, gpu=4.0)
    nodes = tuple(type(n)(id=n.id, capacity=room, speed=n.speed, rack=n.rack) for n in nodes)
    jobs, at = [], 0.0
    for i in range(draw(st.integers(1, most_jobs))):
        at += draw(st.sampled_from([0.0, 0.0, 3.7, 21.0]))
        jobs.append(draw(gangs(f"QJ{i}Q", at)))
    broken = ()
    if draw(st.booleans()):
        broken = (Failure(at=draw(st.floats(1, 60)), node=nodes[0].id, lasts=30.0),)
    return Scenario(nodes=nodes, jobs=tuple(jobs), costs=Costs(), failures=broken)


def run(scenario, policy, *, journal=None, world_class=World, watch=None, wrap=lambda p: p):
    """As `simulate` does it, with hooks."""
    made = wrap(build(policy) if isinstance(policy, str) else policy)
    book = FileJournal(journal, durable=False) if journal else None

    class Watching(world_class):
        def observe(self, look=()):
            if watch:
                watch(self)
            return super().observe(look)

    saved, driver.World = driver.World, Watching
    try:
        world = driver.simulate(scenario, made, journal=book, most_idle=1000)
    finally:
        driver.World = saved
        if book:
            book.close()
    return world


class TwiceAndUntouched:
    """A policy that decides twice, on copies, and finds the same plan and its input untouched."""

    def __init__(self, inner):
        self.inner, self.name, self.listens = inner, inner.name, inner.listens

    def begin(self):
        return self.inner.begin()

    def decide(self, snapshot, memory):
        copy, copied_memory = loads(dumps((snapshot, memory)))  # noqa: S301 - our own
        before = _content(snapshot)
        plan, after = self.inner.decide(snapshot, memory)
        again, after_again = self.inner.decide(copy, copied_memory)
        assert plan == again
        assert after == after_again
        assert _content(snapshot) == before, "a policy changed its input"
        return plan, after


def _content(s):
    return dumps((s.nodes, s.jobs, s.replicas, s.on_node, s.queue, s.alike, s.changed))


def renamed(scenario, names):
    """The same scenario with other names."""
    return replace(
        scenario,
        nodes=tuple(replace(n, id=names.get(n.id, n.id)) for n in scenario.nodes),
        jobs=tuple(replace(j, id=names.get(j.id, j.id)) for j in scenario.jobs),
        failures=tuple(
            replace(f, node=names.get(f.node, f.node), job=names.get(f.job, f.job))
            for f in scenario.failures
        ),
        foreign=tuple(replace(f, node=names.get(f.node, f.node)) for f in scenario.foreign),
    )


def active(world):
    return [r for r in world.replicas.values() if r.phase is Phase.RUNNING]
