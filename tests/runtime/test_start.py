"""The options of `headway run` and `headway adopt`: which go together."""

from pathlib import Path

import pytest

from headway.errors import ConfigError
from headway.runtime.start import RunOptions, adopt_named

FILE = Path("w.yaml")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "or a command after --"),
        ({"workload": FILE, "resume": "latest"}, "or a command after --"),
        ({"workload": FILE, "nodes": 2, "platform": "docker"}, "--nodes needs --backend local"),
        ({"workload": FILE, "namespace": "a"}, "--namespace needs --backend kubernetes"),
        ({"workload": FILE, "engines": ("a=b",)}, "--engine needs --backend docker"),
    ],
)
def test_options_of_a_run_that_contradict_each_other_are_refused(options, says):
    with pytest.raises(ConfigError, match=says):
        RunOptions(**options)


def test_options_of_the_chosen_platform_are_accepted():
    assert RunOptions(workload=FILE, nodes=2)
    assert RunOptions(workload=FILE, platform="docker", engines=("a=b",))
    assert RunOptions(workload=FILE, platform="kubernetes", namespace="a")
    assert RunOptions(resume="latest")


@pytest.mark.parametrize(
    ("names", "label", "says"),
    [
        ([], None, "either processes or containers, or --label"),
        (["1"], "app", "either processes or containers, or --label"),
        (["1", "trainer"], None, "both processes and containers"),
    ],
)
def test_a_run_adopts_processes_or_containers(tmp_path, names, label, says):
    with pytest.raises(ConfigError, match=says):
        adopt_named(names, label, "headway", data=tmp_path / "data")
    assert not (tmp_path / "data").exists()
