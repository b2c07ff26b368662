"""The simulated world: the papers' arithmetic, costs, failures, reports."""

from dataclasses import replace

import numpy as np
import pytest

from headway.core.cycle.policy import Chain
from headway.core.model.decision import Move, Plan, Suspend
from headway.core.model.job import JobSpec, Mode, Phase, Task
from headway.core.model.snapshot import Trigger
from headway.core.model.units import ReplicaId, Resources
from headway.errors import ConfigError
from headway.policy.placement.even import Even
from headway.policy.registry import build
from headway.runtime.journal import Journal
from headway.runtime.loop import Loop
from headway.sim.build import to_scenario
from headway.sim.curve import Curve, Log, bent, settled_after
from headway.sim.driver import simulate
from headway.sim.scenario import Arrival, Costs, Failure, Scenario
from headway.sim.timeline import shares, stays, values
from headway.sim.world import World
from headway.spec.arrivals import expand
from headway.spec.catalogue import catalogue
from headway.spec.load import parse
from headway.spec.workload import Workload
from making import node

SAVES = JobSpec(checkpoint=Mode.SDK)


def job(name="x", at=0.0, work=100.0, spec=SAVES, **more):
    return Arrival(id=name, at=at, spec=spec, work=work, **more)


def ended(world):
    return {j.arrival.id: j.finished_at for j in world.finished}


def e_f1(noise=0.0):
    """E-F1 from the catalogue, by its own job list."""
    found = catalogue()["experiments"]["E-F1"]
    jobs = [{"name": j["model"], **j} for j in found["jobs"]]
    workload = Workload.model_validate(
        {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload", "pool": found["pool"],
         "nodes": found["nodes"], "jobs": jobs}
    )  # fmt: skip
    scenario = to_scenario(workload)
    quiet = tuple(replace(j, curve=replace(j.curve, noise=noise)) for j in scenario.jobs)
    return replace(scenario, jobs=quiet)


def test_the_baseline_of_e_f1_follows_by_arithmetic():
    """Published: makespan 394.0 s, MNIST-T 84.7 s."""
    found = ended(simulate(e_f1(), build("fair")))
    assert max(found.values()) == pytest.approx(394.2, abs=1e-6)
    assert found["mnist-tf"] - 80 == pytest.approx(84.6, abs=1e-6)


def test_flowcon_gives_e_f1_its_published_limits():
    """Thesis 6.1.3, α 5 % and itval 20: at 40 s VAE is limited to 0.25 and MNIST-P to 1."""
    world = simulate(e_f1(), build("flowcon:paper"), record=True)
    cpu = shares(world)
    at_40 = {n: dict(line)[40.0] for n, line in cpu.items() if 40.0 in dict(line)}
    assert at_40 == {"vae-torch": 0.25, "mnist-torch": 0.75}


def test_flowcon_makes_mnist_finish_sooner_as_published():
    """Published for α 5 %, itval 20: 21.4 and, from the overlap, 29.9 % earlier."""
    fair, flowcon = (
        ended(simulate(e_f1(), build("fair"))),
        ended(simulate(e_f1(), build("flowcon:paper"))),
    )
    gain = 1 - (flowcon["mnist-tf"] - 80) / (fair["mnist-tf"] - 80)
    assert 0.15 < gain < 0.35


def test_a_node_of_double_speed_halves_the_time():
    world = simulate(Scenario(nodes=(node(speed=2.0),), jobs=(job(),)), build("fair"))
    assert ended(world) == {"x": pytest.approx(50.0)}


def test_contention_costs_what_the_workload_says():
    both = (job("x", work=50), job("y", work=50))
    world = simulate(Scenario(nodes=(node(),), jobs=both, contention=0.1), build("fair"))
    assert ended(world)["x"] == pytest.approx(110.0)


def test_sharing_costs_the_same_for_any_number_beyond_one():
    def ends(count):
        jobs = tuple(job(f"j{i}", work=100 / count) for i in range(count))
        scenario = Scenario(nodes=(node(),), jobs=jobs, sharing=0.1)
        return max(ended(simulate(scenario, build("fair"))).values())

    assert [ends(1), ends(2), ends(5)] == pytest.approx([100.0, 110.0, 110.0])


def test_oversubscription_costs_less_under_ceilings():
    """Two that could each use the whole node lose a tenth; with half of it each they lose nothing,
    and with three quarters half as much.
    """

    def ends(limit):
        both = tuple(
            replace(j, spec=replace(j.spec, tasks=(Task(limit=limit),)))
            for j in (job("x", work=50), job("y", work=50))
        )
        scenario = Scenario(nodes=(node(),), jobs=both, oversubscription=0.1)
        return ended(simulate(scenario, build("fair")))["x"]

    assert [ends(None), ends(0.5), ends(0.75)] == pytest.approx([110.0, 100.0, 105.0])


class Once:
    """For tests: makes one decision at a given time."""

    name, listens = "once", True

    def __init__(self, at, decision):
        self.at, self.decision = at, decision

    def begin(self):
        return {"done": False}

    def decide(self, snapshot, memory):
        if memory["done"] or snapshot.at < self.at - 1e-9:
            wake = None if memory["done"] else self.at - snapshot.at
            return Plan(wake_after=wake), memory
        return Plan(decisions=(self.decision,)), {"done": True}


def after(decision, at=30.0, *, jobs=None, costs=None, **more):
    scenario = Scenario(
        nodes=(node("a"), node("b")), jobs=jobs or (job(),), costs=costs or Costs(), **more
    )
    return simulate(scenario, Chain(Even(), Once(at, decision)), record=True)


def test_a_move_costs_a_save_and_a_restore():
    world = after(Move(replica=ReplicaId("x/main-0"), to="b"))
    assert ended(world) == {"x": pytest.approx(105.0)}
    assert world.finished[0].moves == 1
    assert [(s.node, s.since, s.moved_in) for s in stays(world)] == [
        ("a", 0.0, False), ("b", 35.0, True),
    ]  # fmt: skip


def test_the_cost_of_a_move_varies_by_seed_and_not_otherwise():
    costs = Costs(sd=1.0)
    runs = [
        ended(after(Move(replica=ReplicaId("x/main-0"), to="b"), costs=costs, seed=s))["x"]
        for s in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]
    assert 100 < runs[0] < 110


def test_a_suspended_job_waits_and_goes_on_where_it_was():
    world = after(Suspend(job="x"))
    assert ended(world) == {"x": pytest.approx(105.0)}  # placed again at once: save and restore
    assert world.finished[0].wasted == 0


def test_a_job_that_cannot_save_itself_stays():
    spec = JobSpec(checkpoint=Mode.NONE)
    world = after(Move(replica=ReplicaId("x/main-0"), to="b"), jobs=(job(spec=spec),))
    assert ended(world) == {"x": pytest.approx(100.0)}


def test_a_node_that_fails_costs_what_was_not_saved():
    world = simulate(
        Scenario(
            nodes=(node("a"), node("b")), jobs=(job(),), failures=(Failure(at=40.0, node="a"),)
        ),
        build("fair"),
    )
    assert ended(world) == {"x": pytest.approx(140.0)}
    assert world.finished[0].wasted == pytest.approx(40.0)


def test_work_waits_until_its_only_node_is_back():
    scenario = Scenario(
        nodes=(node(),), jobs=(job(),), failures=(Failure(at=40.0, node="a", lasts=25.0),)
    )
    assert ended(simulate(scenario, build("fair"))) == {"x": pytest.approx(165.0)}


def test_a_replica_that_keeps_dying_fails_its_job():
    spec = JobSpec(backoff_limit=1)
    scenario = Scenario(
        nodes=(node(),),
        jobs=(job(spec=spec), job("y")),
        failures=(Failure(at=10.0, job="x"), Failure(at=20.0, job="x"), Failure(at=21.0, job="x")),
    )
    world = simulate(scenario, build("fair"))
    found = {j.arrival.id: (j.phase, j.reason) for j in world.finished}
    assert found["x"] == (Phase.FAILED, "a replica failed 2 times")
    assert found["y"][0] is Phase.SUCCEEDED


def test_a_gang_that_never_fits_is_reported_as_stuck():
    tasks = (replace(SAVES.tasks[0], request=Resources(cpu=0.7)),)
    two = replace(SAVES, tasks=(replace(tasks[0], replicas=2, least=2, most=2),))
    with pytest.raises(ConfigError, match="never fit"):
        simulate(Scenario(nodes=(node(),), jobs=(job(spec=two),)), build("fair"), most_idle=500)


def test_a_policy_that_ticks_for_ever_is_given_up():
    class Ticking(Once):
        def decide(self, snapshot, memory):
            del snapshot
            return Plan(wake_after=1.0), memory

    with pytest.raises(ConfigError, match="never fit"):
        simulate(Scenario(nodes=(node(),), jobs=(job(),)), Ticking(0, None), most_idle=500)


def test_reports_are_one_mean_per_replica_and_interval():
    curve = Curve(bend=bent("inverse", 0.65), noise=0.0)
    world = World(Scenario(nodes=(node(),), jobs=(job(curve=curve, steps=100),)), reports=True)
    heard = []
    policy = Chain(Even(), build("flowcon").members[1])
    loop = Loop(world, policy, Journal())
    real = world.observe
    world.observe = lambda look=(): heard.append(real(look)) or heard[-1]
    world.next_at()
    loop.step(world.jump())
    world.next_at()
    loop.step(world.jump())
    world.next_at()
    world.now = 20.0
    loop.step(Trigger.TICK)
    (report,) = heard[-1].reports
    expected = curve.values((1 + np.arange(20)) / 100).mean()
    assert (report.since, report.at, report.step) == (0.0, 20.0, pytest.approx(20.0))
    assert report.value == pytest.approx(expected)
    assert report.usage.cpu == pytest.approx(1.0)


def test_noise_depends_on_seed_job_and_step_alone():
    curve = Curve(bend=5.0, noise=0.1)
    a, b = Log(curve, 100, (1, 2)), Log(curve, 100, (1, 2))
    assert a.between(10, 20) == b.between(10, 20)
    first, second = a.between(10, 15), a.between(15, 20)
    assert (first[0] + second[0]) / 2 == pytest.approx(a.between(10, 20)[0])
    assert a.between(10, 20) != Log(curve, 100, (1, 3)).between(10, 20)
    assert a.between(10.2, 10.4) is None


@pytest.mark.parametrize(
    ("shape", "at20", "power"),
    [("inverse", 0.65, 1.0), ("exponential", 0.9, 1.0), ("exponential", 0.65, 2.31)],
)
def test_a_curve_reaches_its_share_in_the_first_fifth(shape, at20, power):
    curve = Curve(shape=shape, bend=bent(shape, at20, power), power=power)
    reached = curve.improvement(np.array([0.0, 0.2, 1.0]))
    assert reached == pytest.approx([0.0, at20, 1.0])
    assert 0.2 < settled_after(curve) < 1.0


def test_an_impossible_curve_is_refused():
    with pytest.raises(ConfigError, match="at20"):
        bent("inverse", 1.5)


def test_a_long_job_logs_only_every_so_many_steps():
    log = Log(Curve(bend=5.0), 1e6, (0, 0))
    assert log.between(0, 100) is None
    assert log.between(0, 1e5) is not None


def test_quality_is_reached_before_the_end():
    world = simulate(Scenario(nodes=(node(),), jobs=(job(curve=Curve(bend=6.4)),)), build("fair"))
    state = world.finished[0]
    assert state.quality_at == pytest.approx(100 * settled_after(state.arrival.curve))


def test_the_loss_over_time_follows_the_share():
    world = simulate(e_f1(), build("fair"), record=True)
    line = values(world)["mnist-tf"]
    assert 80 < line[0][0] < line[-1][0] <= 164.6 + 1e-6
    assert line[0][1] > line[-1][1]


def test_generated_arrivals_depend_on_the_seed_alone():
    text = "apiVersion: headway.dev/v1alpha1\nkind: Workload\narrivals: {}"
    drawn = []
    for way in ("uniform: [0, 200], jobs: 6", "poisson_s: 10, jobs: 6", "every_s: 5, jobs: 6"):
        workload = parse(text.format("{" + way + ", models: any}"), Workload, where="test")
        one, same, other = (expand(workload, s).jobs for s in (1, 1, 2))
        assert one == same
        assert one != other
        assert [j.at for j in one] == sorted(j.at for j in one)
        drawn.append([j.at for j in one])
    assert drawn[2] == [0, 5, 10, 15, 20, 25]


def test_each_model_once_where_no_number_is_given():
    text = (
        "apiVersion: headway.dev/v1alpha1\nkind: Workload\n"
        "arrivals: {uniform: [0, 200], models: [gru, vae-tf]}"
    )
    jobs = expand(parse(text, Workload, where="test"), 3).jobs
    assert sorted(j.model for j in jobs) == ["gru", "vae-tf"]
