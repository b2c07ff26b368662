"""What holds whatever happens."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headway.core.cycle.validate import LEAST_LIMIT, LEAST_WEIGHT
from headway.core.model.job import JobSpec, Mode, Phase
from headway.core.model.node import Node
from headway.core.model.units import Resources
from headway.sim.scenario import Arrival, Scenario
from headway.sim.world import World
from scenarios import POLICIES, TwiceAndUntouched, active, renamed, run, scenarios

pytestmark = pytest.mark.untraced

often = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
policies = st.sampled_from(POLICIES)


@often
@given(scenarios(), policies)
def test_what_other_processes_leave_is_never_exceeded(scenario, policy):
    class Watched(World):
        def next_at(self):  # CPU has been shared again
            at = super().next_at()
            for state in self.nodes.values():
                used = sum(r.cores for r in state.replicas.values() if r.node is state)
                assert used <= state.cores + 1e-9
                for r in state.replicas.values():
                    assert r.cores <= r.job.arrival.demand + 1e-9
                    assert r.limit is None or r.cores <= r.limit + 1e-9
            return at

    run(scenario, policy, world_class=Watched)


@often
@given(scenarios(), policies)
def test_requests_never_exceed_a_node(scenario, policy):
    def watch(world):
        for state in world.nodes.values():
            asked = Resources()
            for r in state.replicas.values():
                asked = asked + r.job.arrival.spec.task(r.task).request
            assert asked.cpu <= state.node.capacity.cpu + 1e-9

    run(scenario, policy, watch=watch)


@often
@given(scenarios(), policies)
def test_no_running_job_is_starved(scenario, policy):
    class Watched(World):
        def next_at(self):  # when all acts are done, and before time moves on
            at = super().next_at()
            for r in active(self) if at > self.now else ():
                here = [o.weight for o in r.node.replicas.values() if o.phase is Phase.RUNNING]
                assert r.weight >= LEAST_WEIGHT * sum(here) * (1 - 1e-6)
                least = LEAST_LIMIT * r.node.node.capacity.cpu * (1 - 1e-6)
                assert r.limit is None or r.limit >= least
            return at

    run(scenario, policy, world_class=Watched)


@often
@given(scenarios(), policies)
def test_same_input_same_plan_and_input_untouched(scenario, policy):
    run(scenario, policy, wrap=TwiceAndUntouched)


@often
@given(scenarios(), policies)
def test_work_is_conserved(scenario, policy):
    """CPU integrated from the shares by the test is the work read from the jobs."""
    spent = {"at": 0.0, "rate": 0.0, "work": 0.0}

    def watch(world):
        spent["work"] += spent["rate"] * (world.now - spent["at"])
        spent["at"] = world.now

    class Metered(World):
        def next_at(self):
            at = super().next_at()
            spent["rate"] = sum(
                r.cores * r.node.node.speed for r in self.replicas.values() if r.node is not None
            )
            return at

    world = run(scenario, policy, watch=watch, world_class=Metered)
    done = sum(j.done + j.wasted for j in world.finished)
    assert spent["work"] == pytest.approx(done, rel=1e-6, abs=1e-6)
    for job in world.finished:
        if job.phase is Phase.SUCCEEDED:
            assert job.done == pytest.approx(job.arrival.work, rel=1e-6)


@often
@given(scenarios(), policies)
def test_every_job_ends_once(scenario, policy):
    world = run(scenario, policy)
    assert sorted(j.arrival.id for j in world.finished) == sorted(j.id for j in scenario.jobs)
    assert all(j.finished_at >= j.arrival.at for j in world.finished)
    assert not any(n.replicas for n in world.nodes.values())


def _journal(tmp, scenario, policy, **how):
    path = tmp / "journal.jsonl"
    path.unlink(missing_ok=True)
    run(scenario, policy, journal=path, **how)
    return path.read_text(encoding="utf-8")


@often
@given(scenario=scenarios(), policy=policies)
def test_same_seed_same_journal_to_the_byte(tmp_path_factory, scenario, policy):
    tmp = tmp_path_factory.mktemp("j")
    assert _journal(tmp, scenario, policy) == _journal(tmp, scenario, policy)


TIE = Scenario(
    nodes=(Node(id="QN0Q", capacity=Resources(cpu=1.0, memory=2.0**36)),),
    jobs=tuple(
        Arrival(id=name, at=0.0, spec=JobSpec(checkpoint=Mode.SDK), work=30.0)
        for name in ("QJ0Q", "QJ1Q")
    ),
)
"""Both have had their quantum at the same instant."""


@often
@example(scenario=TIE, policy="tiresias:quantum=20")
@given(scenario=scenarios(), policy=policies)
def test_renaming_changes_names_in_the_journal_and_nothing_else(tmp_path_factory, scenario, policy):
    tmp = tmp_path_factory.mktemp("j")
    nodes = [n.id for n in scenario.nodes]
    jobs = [j.id for j in scenario.jobs]
    # Names that sort the other way round, and of another length.
    names = {n: f"zz{len(nodes) - i}N{n}" for i, n in enumerate(nodes)}
    names |= {j: f"y{len(jobs) - i}J{j}" for i, j in enumerate(jobs)}
    after = _journal(tmp, renamed(scenario, names), policy)
    for old, new in names.items():
        after = after.replace(new, old)

    def without_digests(text):
        lines = [json.loads(line) for line in text.splitlines()]
        return [{k: v for k, v in line.items() if k != "digest"} for line in lines]

    assert without_digests(after) == without_digests(_journal(tmp, scenario, policy))


def _reported_as(scale, offset):
    """A world whose scripts print another, affinely changed, metric."""

    class Changed(World):
        def observe(self, look=()):
            seen = super().observe(look)
            return replace(seen, reports=tuple(self.change(r) for r in seen.reports))

        @staticmethod
        def change(r):
            if r.value is None:
                return r

            def grid(v):  # values with few digits, so that the change itself is exact
                return round(v * 2**20) / 2**20 * scale + offset

            return replace(r, value=grid(r.value), high=grid(r.high))

    return Changed


@often
@given(
    scenario=scenarios(),
    policy=st.sampled_from(
        [
            "flowcon",
            "flowcon:threshold=0.2,interval=30",
            "headway",
            "headway:objective=quality",
            "specon",
            "specon:adaptive=on,interval=5",
            "flowcon2",
        ]
    ),
    scale=st.integers(-6, 6),
    offset=st.integers(-6, 6),
)
def test_an_affine_change_of_a_metric_changes_no_decision(
    tmp_path_factory, scenario, policy, scale, offset
):
    """Byte for byte, but for the values that were said (and the digest of nothing else)."""
    tmp = tmp_path_factory.mktemp("j")

    def silenced(text):
        lines = [json.loads(line) for line in text.splitlines()]
        for line in lines:
            for report in line["seen"].get("reports", ()):
                report.pop("value", None)
                report.pop("high", None)
        return json.dumps(lines)

    before = _journal(tmp, scenario, policy, world_class=_reported_as(1.0, 0.0))
    after = _journal(tmp, scenario, policy, world_class=_reported_as(2.0**scale, 2.0**offset))
    assert silenced(before) == silenced(after)


@often
@given(scenario=scenarios(), policy=policies)
def test_no_policy_but_the_oracle_reads_the_truth(tmp_path_factory, scenario, policy):
    tmp = tmp_path_factory.mktemp("j")

    class Mute(World):
        def observe(self, look=()):
            seen = super().observe(look)
            return replace(seen, jobs=tuple(replace(j, truth=None) for j in seen.jobs))

    def plans(text):
        return [json.loads(line)["plan"] for line in text.splitlines()]

    told = plans(_journal(tmp, scenario, policy))
    assert told == plans(_journal(tmp, scenario, policy, world_class=Mute))
