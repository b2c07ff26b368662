"""CPU that processes outside Headway use on simulated nodes."""

from itertools import islice

import pytest

from headway.core.model.decision import CALM
from headway.errors import ConfigError
from headway.policy.registry import build
from headway.sim.build import to_scenario
from headway.sim.compare import compare
from headway.sim.driver import simulate
from headway.sim.scenario import ForeignLoad
from headway.spec.workload import make_workload

DRAWN = {"between": [0.3, 0.6], "every_s": 30}


def alone(foreign, *, cpu=1.0, work=10.0, policy="fair"):
    """When a job that can use the whole node finishes there."""
    jobs = [{"name": "x", "profile": {"work": work, "demand": cpu}}]
    workload = make_workload(jobs=jobs, nodes=[{"cpu": cpu, "foreign": foreign}])
    return compare(workload, [policy], [0])[0][0]


def test_a_job_gets_what_other_processes_leave():
    assert alone([]).makespan_s == pytest.approx(10.0)
    assert alone([{"at": 0, "cpu": 0.5}]).makespan_s == pytest.approx(20.0)
    assert alone([{"at": 5, "cpu": 0.5}, {"at": 9, "cpu": 0}]).makespan_s == pytest.approx(12.0)


def test_a_job_is_not_starved_by_processes_that_use_the_whole_node():
    assert alone([{"at": 0, "cpu": 2}], cpu=2.0, work=1.0).makespan_s == pytest.approx(10.0)


def test_the_result_contains_the_mean_foreign_load():
    assert alone([]).foreign_cores == 0
    found = alone([{"at": 5, "cpu": 0.5}, {"at": 9, "cpu": 0}])
    assert found.foreign_cores == pytest.approx(0.5 * 4 / 12)


def test_a_drawn_load_is_a_part_of_the_node_and_the_same_under_every_policy():
    jobs = [{"name": "x", "profile": {"work": 200, "demand": 4}}]
    workload = make_workload(jobs=jobs, nodes=[{"cpu": 4, "foreign": DRAWN, "count": 2}])
    scenario = to_scenario(workload, seed=3)
    lines = [simulate(scenario, build(p)).hosts.foreign for p in ("fair", "headway")]
    assert lines[0] == lines[1]
    assert {node for _, node, _ in lines[0]} == {"node-0", "node-1"}
    assert all(1.2 <= cores <= 2.4 and at % 30 == 0 for at, _, cores in lines[0])
    other = list(islice(scenario.foreign[0].changes(4), 5))
    assert other != list(islice(scenario.foreign[0].changes(3), 5))


def test_a_policy_knows_the_load_at_once():
    """Otherwise the shorter of two jobs, which fills the node, would not be served first."""
    jobs = [{"name": n, "profile": {"work": w}} for n, w in (("long", 40), ("short", 10))]
    workload = make_workload(jobs=jobs, nodes=[{"foreign": [{"at": 4, "cpu": 0.5}]}])
    world = simulate(to_scenario(workload), build("headway"))
    ends = {j.arrival.id: j.finished_at for j in world.finished}
    assert ends["short"] == pytest.approx(4 + 6 / 0.5, rel=0.01)
    assert ends["long"] == pytest.approx(4 + 46 / 0.5, rel=0.01)


def test_a_run_in_which_only_the_foreign_load_changes_is_given_up():
    jobs = [{"name": "x", "profile": {"work": 9}}]
    scenario = to_scenario(make_workload(jobs=jobs, nodes=[{"foreign": DRAWN}]))

    class Never:
        name, listens = "never", False

        def begin(self):
            return None

        def decide(self, snapshot, memory):
            del snapshot
            return CALM, memory

    with pytest.raises(ConfigError, match="1 pending jobs never fit"):
        simulate(scenario, Never(), most_idle=20)


def test_bounds_in_the_wrong_order_are_refused():
    with pytest.raises(ValueError, match=r"between must be \[least, most\]"):
        make_workload(jobs=[], nodes=[{"foreign": {"between": [0.6, 0.3]}}])


def test_a_given_load_may_be_listed_in_any_order():
    steps = [{"at": 9, "cpu": 0}, {"at": 5, "cpu": "500m"}]
    workload = make_workload(
        jobs=[{"name": "x", "profile": {"work": 1}}], nodes=[{"name": "a", "foreign": steps}]
    )
    assert to_scenario(workload).foreign == (ForeignLoad(node="a", given=((5, 0.5), (9, 0))),)
