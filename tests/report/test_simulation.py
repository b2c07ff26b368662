"""The options of `headway simulate`: which go together, and what they default to."""

from pathlib import Path

import pytest

from headway.errors import ConfigError
from headway.report.simulation import SimulationOptions, journals, run_simulation

FILE = Path("x")


@pytest.mark.parametrize("option", ["nodes", "devices", "first", "shortest", "largest", "format"])
def test_an_option_of_a_trace_needs_a_trace(option):
    with pytest.raises(ConfigError, match=f"--{option} needs --trace"):
        SimulationOptions(workload=FILE, trace_options={"seed": None, option: 1})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "either a workload file or a trace"),
        ({"workload": FILE, "trace": FILE}, "either a workload file or a trace"),
        ({"workload": FILE, "journal": FILE, "seeds": 2}, "a journal records one run"),
        ({"trace": FILE, "seeds": 2}, "a trace is simulated once"),
        ({"trace": FILE, "html": FILE}, "a trace is simulated once"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, says):
    with pytest.raises(ConfigError, match=says):
        SimulationOptions(**options)


@pytest.mark.usefixtures("one_core")
def test_a_workload_is_compared_under_fair_and_headway_from_its_own_seed_on(workload, tmp_path):
    path = workload("seed: 5\njobs: [{name: x, profile: {work: 5}}]\n")
    results = run_simulation(SimulationOptions(workload=path, seeds=2))
    assert [[(r.policy, r.seed) for r in each] for each in results] == [
        [("fair", 5), ("fair", 6)],
        [("headway", 5), ("headway", 6)],
    ]
    options = SimulationOptions(workload=path, policies=["las"], journal=tmp_path / "j.jsonl")
    assert journals(options, run_simulation(options)) == [tmp_path / "j.jsonl"]
    assert (tmp_path / "j.jsonl").exists()
