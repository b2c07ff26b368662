"""The example of the guide is a policy that runs."""

import re
from pathlib import Path

from headway.policy.registry import POLICIES, Entry
from headway.sim.build import to_scenario
from headway.sim.compare import run_all
from headway.spec.load import read_workload

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guide/write-a-policy.md"


def test_the_example_decides_by_the_loss(monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    names = {"__name__": "steepest"}
    exec(code, names)  # noqa: S102 - our own page
    monkeypatch.setitem(POLICIES, "steepest", Entry(names["Steepest"], "shares"))
    path = ROOT / "workloads/ten-jobs.yaml"
    scenario = to_scenario(read_workload(path), path=path)
    fair, ours = run_all(scenario, ["fair", "steepest"])
    assert {job.outcome for job in ours.per_job} == {"succeeded"}
    assert ours.mean_completion_s < fair.mean_completion_s
