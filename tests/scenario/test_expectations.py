"""Every workload of the repository gives what the file beside it expects."""

from pathlib import Path

import pytest
import yaml

from headway.sim.compare import run_seed
from headway.spec.load import read_workload

pytestmark = pytest.mark.untraced

FOLDER = Path(__file__).parents[2] / "workloads"
EXPECTED = sorted(FOLDER.glob("*.expect.yaml"))


def cases():
    for path in EXPECTED:
        for policy, ranges in yaml.safe_load(path.read_text(encoding="utf-8")).items():
            yield pytest.param(path, policy, ranges, id=f"{path.name.split('.')[0]}-{policy}")


@pytest.mark.parametrize(("path", "policy", "ranges"), list(cases()))
def test_a_workload_stays_in_its_ranges(path, policy, ranges):
    workload = path.with_name(path.name.replace(".expect", ""))
    _, results = run_seed(read_workload(workload), ["fair", policy], 0, workload, None)
    for name, (low, high) in ranges.items():
        assert low <= getattr(results[1], name) <= high, name


def test_every_workload_has_its_expectations():
    named = {p.name.replace(".expect", "") for p in EXPECTED}
    assert named == {p.name for p in FOLDER.glob("*.yaml") if ".expect" not in p.name}
