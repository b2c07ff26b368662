"""The papers' experiments, from the catalogue: a workload, and the policies to run it under.

Nothing is set for one experiment alone: the models' profiles and the costs are one table for all,
and an arm's settings are those that the paper states for the experiment.
"""

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

from headway.spec.catalogue import catalogue
from headway.spec.workload import Workload

OURS = "headway"
"""The arm that every experiment has beside those of its paper."""
Setting = tuple[float, float]
"""α, and the interval in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    id: str
    workload: Workload
    baseline: str
    policies: tuple[str, ...]
    """Those of the paper."""
    settings: tuple[Setting, ...]
    """What the paper ran them with; none: what it does not say."""

    @property
    def arms(self) -> tuple[str, ...]:
        """The baseline; each policy as in the paper, with each setting; corrected; and ours."""
        found = [self.baseline]
        for policy in self.policies:
            found += [paper_arm(policy, s) for s in self.settings or (None,)]
            found.append(policy)
        return (*found, OURS)

    def arm(self, setting: Setting | None) -> str:
        """The paper's own policy with this setting; without one, with the first."""
        first = self.settings[0] if self.settings else None
        return paper_arm(self.policies[0], setting or first)


def paper_arm(policy: str, setting: Setting | None) -> str:
    """A policy in its paper mode.

    >>> paper_arm("flowcon", (0.05, 20)), paper_arm("flowcon", None)
    ('flowcon:paper,threshold=0.05,interval=20', 'flowcon:paper')
    """
    if setting is None:
        return f"{policy}:paper"
    return f"{policy}:paper,threshold={setting[0]:g},interval={setting[1]:g}"


@cache
def experiments() -> dict[str, Experiment]:
    """By name: those whose jobs are single containers that share CPU."""
    listed = catalogue()["experiments"]
    return {name: _read(name, given) for name, given in listed.items() if "pool" in given}


def _read(name: str, given: dict[str, Any]) -> Experiment:
    plain: dict[str, Any] = {
        "apiVersion": "headway.dev/v1alpha1",
        "kind": "Workload",
        "name": name,
        "pool": given["pool"],
        "nodes": given["nodes"],
        "costs": catalogue()["costs"],
        "jobs": _jobs(given),
    }
    if "arrivals" in given:
        plain["arrivals"] = given["arrivals"]
    return Experiment(
        id=name,
        workload=Workload.model_validate(plain),
        baseline=given["baseline"],
        policies=tuple(given["policies"]),
        settings=tuple(_settings(given)),
    )


def _settings(given: dict[str, Any]) -> Iterator[Setting]:
    for one in given.get("settings", ()):
        yield one["alpha"], one["interval_s"]
    if grid := given.get("grid"):
        yield from product(grid["alpha"], grid["interval_s"])


def _jobs(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Listed jobs, named after their models; and those of a list of arrivals, numbered."""
    if "trace" in given:
        return _trace(given["trace"], given.get("models_map", {}))
    listed = given.get("jobs", [])
    count = Counter(job["model"] for job in listed)
    numbered = any(n > 1 for n in count.values())
    return [
        {**job, "name": f"{job['model']}-{i}" if numbered else job["model"]}
        for i, job in enumerate(listed, 1)
    ]


def _trace(name: str, renamed: dict[str, str]) -> list[dict[str, Any]]:
    text = (files("headway") / "data" / name).read_text(encoding="utf-8")
    rows = sorted(csv.DictReader(text.splitlines()), key=lambda row: float(row["arrival_seconds"]))
    return [
        {
            "name": f"job-{i:02d}",
            "at": float(row["arrival_seconds"]),
            "model": renamed.get(row["model"], row["model"]),
        }
        for i, row in enumerate(rows, 1)
    ]
