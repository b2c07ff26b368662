"""The backends that need no platform."""

import pytest

from contract import EVERYTHING, BackendContract
from headway.backend.memory import MemoryBackend
from headway.core.model.job import Job, JobSpec, Mode, Phase, Task
from headway.sim.scenario import Arrival, Costs, Scenario
from headway.sim.world import World
from making import node


def long_job(workers, limit):
    task = Task(name="worker", replicas=workers, least=1, most=3, limit=limit)
    return JobSpec(tasks=(task,), checkpoint=Mode.SDK)


class MemoryPlatform:
    must = EVERYTHING

    def __init__(self):
        self.backend = MemoryBackend([node("a", cpu=2.0), node("b", cpu=2.0)])

    def submit(self, name, *, workers=1, limit=None):
        job = Job(id=name, spec=long_job(workers, limit), submitted_at=0.0, phase=Phase.PENDING)
        self.backend.submit(job)
        return job

    def settle(self):
        self.backend.settle()

    def end(self, name):
        self.backend.end(name)

    def share(self, replica):
        r = self.backend.replicas[replica]
        return r.limit, r.weight

    def step(self, name):
        del name
        return 0.0  # nothing trains here

    def leftovers(self):
        return [*self.backend.jobs, *self.backend.replicas]


class SimPlatform:
    """The world of the simulator. A submitted job arrives at once; time passes by `settle`."""

    must = EVERYTHING

    def __init__(self):
        scenario = Scenario(nodes=(node("a", cpu=2.0), node("b", cpu=2.0)), jobs=(), costs=Costs())
        self.backend = World(scenario, heard=True)

    def submit(self, name, *, workers=1, limit=None):
        world = self.backend
        arrival = Arrival(id=name, at=world.now, spec=long_job(workers, limit), work=1e6, steps=1e6)
        world.scenario = Scenario(nodes=world.scenario.nodes, jobs=(*world.scenario.jobs, arrival))
        world._next_arrival()
        world.next_at()
        world.jump()

    def settle(self):
        """Everything that is soon to happen; the jobs themselves take far longer."""
        while self.backend.next_at() < self.backend.now + 1000:
            self.backend.jump()
        self.backend.now += 1.0
        for job in self.backend.jobs.values():
            job.advance(self.backend.now)

    def end(self, name):
        self.backend.now = self.backend.jobs[name].ends_at
        self.backend.jobs[name].advance(self.backend.now)
        self.backend.next_at()
        for state in list(self.backend.nodes.values()):
            self.backend._finish(state)

    def share(self, replica):
        r = self.backend.replicas[replica]
        return r.limit, r.weight

    def step(self, name):
        return self.backend.jobs[name].done

    def leftovers(self):
        hosted = [r for n in self.backend.nodes.values() for r in n.replicas]
        return [*self.backend.jobs, *self.backend.replicas, *hosted]


class TestMemory(BackendContract):
    @pytest.fixture
    def platform(self):
        return MemoryPlatform()

    def test_a_restart_finds_everything(self, platform, seen):
        platform.submit("x")
        seen.start("x", "a")
        platform.backend.forget()
        seen.history = type(seen.history)()
        assert [r.node for r in seen.look().running] == ["a"]

    def test_a_failed_node_sends_its_jobs_back_into_the_queue(self, platform, seen):
        platform.submit("x")
        seen.start("x", "a")
        platform.backend.fail_node("a")
        s = seen.look()
        assert [j.id for j in s.waiting] == ["x"]
        assert not s.nodes["a"].up


class TestSim(BackendContract):
    @pytest.fixture
    def platform(self):
        return SimPlatform()
