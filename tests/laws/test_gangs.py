"""What holds for distributed jobs, whatever happens."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.core.estimate.step_rate import SERVER, distances, equal_limits, steps_per_second
from headway.core.model.decision import Move, Place, Plan, Scale, SetShare, Suspend
from headway.core.model.job import Phase
from headway.core.model.units import NOTHING, ReplicaId
from headway.sim.world import World
from scenarios import TwiceAndUntouched, clusters, run

pytestmark = pytest.mark.untraced

often = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
WHOLE = [
    "headway", "las", "fifo", "tiresias:quantum=60", "flowcon2", "gang", "dragon", "kips",
    "optimus:interval=20",
]  # fmt: skip
IN_PARTS = ["spread", "even", "fair", "spread:turns=no"]


class Restless:
    """Places gangs whole, and then scales, moves, suspends and limits them at random."""

    name, listens = "restless", False

    def __init__(self, dice):
        self.dice = dice

    def begin(self):
        return None

    def decide(self, snapshot, memory):
        found = [self._place(job, snapshot) for job in snapshot.waiting]
        running = [job for job in snapshot.jobs.values() if job.phase is Phase.RUNNING]
        found += [self._stir(job, snapshot) for job in running if self.dice.random() < 0.5]
        return Plan(decisions=tuple(d for d in found if d), wake_after=5.0), memory

    def _place(self, job, s):
        where = []
        for task in job.spec.tasks:
            count = self.dice.randint(task.least, task.most)
            where += [
                (ReplicaId.of(job.id, task.name, i), self.dice.choice(list(s.nodes)))
                for i in range(count)
            ]
        return Place(job=job.id, where=tuple(where))

    def _stir(self, job, s):
        there = s.placed(job.id)
        workers = [r.id for r in there if r.task == "worker"]
        any_node = self.dice.choice(list(s.nodes))
        return self.dice.choice(
            [
                Scale(
                    job=job.id,
                    task="worker",
                    add=((ReplicaId.of(job.id, "worker", 7 + len(workers)), any_node),),
                ),
                Scale(job=job.id, task="worker", remove=(workers[-1],)),
                Suspend(job=job.id),
                Move(replica=self.dice.choice(there).id, to=any_node),
                SetShare(replica=workers[0], limit=self.dice.choice([None, 0.3, 0.7])),
            ]
        )


class Counted(World):
    """Steps integrated by the test itself, from who runs where with how many cores."""

    def __init__(self, *what, **more):
        super().__init__(*what, **more)
        self.steps, self.rates, self.counted_at = {}, {}, 0.0

    def next_at(self):
        at = super().next_at()
        self.rates = {n: self.rate_of(j) for n, j in self.jobs.items() if j.replicas}
        return at

    def observe(self, look=()):
        for name, rate in self.rates.items():
            self.steps[name] = self.steps.get(name, 0.0) + rate * (self.now - self.counted_at)
        self.counted_at = self.now
        return super().observe(look)

    def rate_of(self, job):
        running = [r for r in job.replicas.values() if r.phase is Phase.RUNNING]
        if job.arrival.spec.speed is None:
            work = sum(r.cores * r.node.node.speed for r in running)
            return work * job.arrival.steps / job.arrival.work
        speed = job.arrival.spec.speed
        workers = [r for r in running if r.task != SERVER]
        servers = [r.node.node for r in running if r.task == SERVER]
        far = distances(speed, [r.node.node for r in workers], servers)
        crew = [(r.cores * r.node.node.speed, d) for r, d in zip(workers, far, strict=True)]
        return steps_per_second(speed, crew, len(servers))


@often
@given(clusters(), st.randoms(use_true_random=False))
def test_steps_are_conserved_whatever_the_scaling_history(scenario, dice):
    world = run(scenario, Restless(dice), world_class=Counted)
    for job in world.finished:
        lost = job.wasted * job.arrival.steps / job.arrival.work
        made = world.steps[job.arrival.id]
        assert made == pytest.approx(job.arrival.steps + lost, rel=1e-6, abs=1e-6)
        assert job.done == pytest.approx(job.arrival.work, rel=1e-9)


@often
@given(clusters(), st.sampled_from(WHOLE))
def test_a_gang_is_whole_or_not_there(scenario, policy):
    def watch(world):
        for job in world.jobs.values():
            counts = {t.name: 0 for t in job.arrival.spec.tasks}
            for r in job.replicas.values():
                counts[r.task] += 1
            whole = all(t.least <= counts[t.name] <= t.most for t in job.arrival.spec.tasks)
            assert whole or not any(counts.values())

    world = run(scenario, policy, watch=watch)
    assert world.deadlocks == 0


@often
@given(clusters(), st.sampled_from([*WHOLE, *IN_PARTS]))
def test_every_gang_ends_and_no_node_is_overfull(scenario, policy):
    def watch(world):
        for state in world.nodes.values():
            asked = NOTHING
            for r in state.replicas.values():
                asked = asked + r.request
            assert asked.fits(NOTHING, state.node.capacity)
            assert sum(r.cores for r in state.replicas.values()) <= state.node.capacity.cpu + 1e-9

    world = run(scenario, policy, watch=watch)
    assert sorted(j.arrival.id for j in world.finished) == sorted(j.id for j in scenario.jobs)
    assert not world.jobs
    assert not world.replicas
    for job in world.finished:
        assert 0 <= job.useful_gpu <= job.held_gpu + 1e-6


@often
@given(clusters(), st.sampled_from([*WHOLE, *IN_PARTS]))
def test_same_plan_for_the_same_gangs_and_input_untouched(scenario, policy):
    run(scenario, policy, wrap=TwiceAndUntouched)


@often
@given(clusters(), st.sampled_from(IN_PARTS))
def test_a_synchronous_gang_stands_still_until_it_is_whole(scenario, policy):
    def watch(world):
        for job in world.jobs.values():
            speed = job.arrival.spec.speed
            if job.partial and (speed is None or speed.waits):
                assert job.rate == 0
                assert job.phase in (Phase.PENDING, Phase.STARTING)

    run(scenario, policy, watch=watch)


@given(st.lists(st.tuples(st.floats(0.1, 64), st.sampled_from([0.25, 0.5, 1.0, 2.0])), min_size=1))
def test_equal_limits_give_workers_equal_speed(rooms):
    limits = equal_limits(rooms)
    pairs = list(zip(limits, rooms, strict=True))
    paces = [limit * speed for limit, (_, speed) in pairs]
    assert paces == pytest.approx([paces[0]] * len(paces))
    assert all(limit <= cores * (1 + 1e-9) for limit, (cores, _) in pairs)
    assert any(limit == pytest.approx(cores) for limit, (cores, _) in pairs)
