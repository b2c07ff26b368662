"""Mutated files, logs, journals and requests: refused with a place, never a traceback or a hang.

HEADWAY_FUZZ=200000,2000 sets the number of cases through functions and through the command;
HEADWAY_FUZZ_SEED draws others. With a file as HEADWAY_FUZZ_DONE, an interrupted run continues.
"""

import json
import os
from pathlib import Path
from random import Random

import pytest

from headway.bench.fuzz.campaign import Found, campaign, run_cases
from headway.bench.fuzz.mutate import yaml_of
from headway.bench.fuzz.seeds import CLUSTER_ONLY, MANIFEST, WORKLOADS
from headway.bench.fuzz.targets import targets
from headway.errors import ConfigError
from headway.sim.build import to_scenario
from headway.spec.load import read_manifest, read_workload

CASES, COMMANDS = map(int, os.environ.get("HEADWAY_FUZZ", "400,4").split(","))
SEED = os.environ.get("HEADWAY_FUZZ_SEED", "1")


def note(found, through):
    path = os.environ.get("HEADWAY_FIGURES")
    if path:
        figures = {
            "through": through, "seed": SEED, "cases": found.cases, "refused": found.refused,
            "slowest_s": round(found.slowest_s, 3), "memory_mb": round(found.memory_mb),
            "failures": found.failures[:5],
        }  # fmt: skip
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")


@pytest.mark.untraced
def test_mutated_input_is_refused_with_a_place_and_nothing_else_happens():
    done = os.environ.get("HEADWAY_FUZZ_DONE", "")
    functions, commands = campaign(SEED, CASES, COMMANDS, chunk=min(2500, CASES // 2), done=done)
    note(functions, "functions")
    note(commands, "command")
    assert (functions.cases, commands.cases) == (CASES, COMMANDS)
    for found in (functions, commands):
        assert found.passed, found
        assert 0 < found.refused < found.cases  # some mutations are harmless


def test_the_seeds_themselves_are_valid(tmp_path):
    targets(tmp_path)
    path = tmp_path / "w.yaml"
    for seed in WORKLOADS:
        path.write_text(json.dumps(seed))
        if seed is MANIFEST:
            with pytest.raises(ConfigError, match="has no profile"):
                to_scenario(read_workload(path), path=path)
        else:
            assert to_scenario(read_workload(path), path=path).jobs
    path.write_text(json.dumps(CLUSTER_ONLY))
    assert read_manifest(path).spec.tasks[0].pod_template


def test_the_same_seed_gives_the_same_input():
    drawn = [yaml_of(Random(f"1/{i}"), WORKLOADS) for i in range(50)]
    assert [yaml_of(Random(f"1/{i}"), WORKLOADS) for i in range(50)] == drawn
    assert len(set(drawn)) > 45


def test_an_interrupted_campaign_continues_with_what_is_missing(tmp_path):
    done = tmp_path / "done"
    first = campaign("1", 20, 0, chunk=20, done=str(done))
    line = done.read_text()
    assert (line.count("\n"), first[0].cases) == (1, 20)
    done.write_text(line.replace('"cases": 20', '"cases": 2000'))
    again = campaign("1", 30, 0, chunk=20, done=str(done))
    assert again[0].cases == 2010  # 20 of them as noted, 10 new ones
    assert done.read_text().count("\n") == 2


def test_an_exception_a_hang_and_a_missing_place_are_found(monkeypatch):
    """The fuzz itself can fail."""

    def broken(path, dice):
        del path
        if dice.random() < 0.5:
            raise ConfigError("no place")
        raise KeyError("x")

    monkeypatch.setattr("headway.bench.fuzz.targets.workload", broken)
    found = run_cases("1", 0, 60, through=False)
    assert any("KeyError: 'x'" in why for why in found.failures)
    assert any("where ''" in why for why in found.failures)
    assert not found.passed
    assert not Found(slowest_s=2.0).passed
    assert not Found(memory_mb=501.0).passed
