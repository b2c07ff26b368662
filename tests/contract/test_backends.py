"""The backends that need no platform."""

from dataclasses import replace

import pytest
from live_hands import LiveHands, long_job

from contract import BackendContract, Seen
from headway.backend.memory import MemoryPlatform
from headway.controller.events import NodeChanged, ReplicaExited
from headway.core.model.capabilities import ALL
from headway.core.model.job import Phase
from headway.sim.scenario import Arrival, Costs, Scenario
from headway.sim.world import World
from making import node


class MemoryHands(LiveHands):
    def __init__(self):
        super().__init__(MemoryPlatform.of([node("a", cpu=2.0), node("b", cpu=2.0)]))

    def share(self, replica):
        (found,) = [p for (name, _), p in self.platform.processes.items() if name == replica]
        return found.limit, found.weight

    def finish(self, replica):
        self.platform.exit(replica)

    def lose(self, node):
        """A node goes down with all that runs there."""
        machines, reason = self.platform.machines, f"node {node} was lost"
        machines[node] = replace(machines[node], up=False)
        lost = [NodeChanged(machines[node])]
        for (name, attempt), p in self.platform.processes.items():
            if p.node == node and p.running:
                p.running, p.code, end = False, 137, {"code": 137, "reason": reason}
                lost.append(ReplicaExited(replica=name, attempt=attempt, **end, disrupted=True))
        self.platform.events.put(lambda: lost)

    def step(self, name):
        del name
        return 0.0  # nothing trains here

    def left_on_platform(self):
        return list(self.platform.processes)


class SimPlatform:
    """The world of the simulator. A submitted job arrives at once; time passes by `settle`."""

    capabilities = ALL

    def __init__(self):
        scenario = Scenario(nodes=(node("a", cpu=2.0), node("b", cpu=2.0)), jobs=(), costs=Costs())
        self.backend = World(scenario, reports=True)

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
        return MemoryHands()

    def test_a_restart_finds_everything(self, platform, seen):
        platform.submit("x")
        seen.start("x", "a")
        again = Seen(platform.restarted())
        assert [r.node for r in again.look().running] == ["a"]

    def test_a_failed_node_sends_its_jobs_back_into_the_queue(self, platform, seen):
        platform.submit("x")
        seen.start("x", "a")
        platform.lose("a")
        platform.until(lambda: platform.phase("x") is Phase.BACKOFF)
        platform.clock.now += 1.0
        platform.until(lambda: platform.phase("x") is Phase.PENDING)
        s = seen.look()
        assert [j.id for j in s.waiting] == ["x"]
        assert not s.nodes["a"].up


class TestSim(BackendContract):
    @pytest.fixture
    def platform(self):
        return SimPlatform()
