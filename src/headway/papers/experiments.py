"""The papers' experiments, read from the catalogue: workloads and the policies to run on them.

All experiments share one table of model profiles and costs. An arm has the settings that its paper
states for the experiment.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

import yaml

from headway.errors import UnknownName
from headway.spec.catalogue import catalogue
from headway.spec.workload import Workload, make_workload

OURS = "headway"
"""An arm of every single-replica experiment, beside those of its paper."""
REFERENCE = "even"
"""The placement that guarantees refer to: an arm where the baseline places as kube-scheduler."""
DISTRIBUTED_ARMS = (
    "spread", "gang", "gang+locality", "dragon:paper", "dragon", "dragon:converged=on", "kips",
    "optimus", "tiresias:quantum=900",
)  # fmt: skip
"""The quantum of `tiresias` is the median job of E-D1 and E-D2; its default, for traces of large
clusters, would never be used up here."""
TRANSFER_S, PENALTY = 0.01, 4.0
"""The bandwidth model that the catalogue leaves open: exchange with the parameter server takes
10 ms for each worker, and four times that from another node. A step with four workers takes 0.29 s
on one node and 0.41 s across nodes, which is the catalogue's factor of 0.7."""
SPECON_NODE: dict[str, Any] = {"cpu": 16, "memory": "64Gi"}
"""Workers of the SpeCon experiments (thesis 6.2.1), whose size kube-scheduler scores. The catalogue
counts CPU in parts of a node."""
CROWDED = 4.0
"""CPU that a worker without GPUs can use, as a multiple of its request."""
COSTS = ("oversubscription",)
"""Measured costs of several jobs on a node. `sharing` and `contention` are left out: the catalogue
derives the work of a job from published times, which contain them, and ceilings do not change them.
"""
Setting = tuple[float, float]
"""α, and the interval in seconds."""
Load = float | None
"""Offered load; None for experiments that do not vary it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    id: str
    workloads: dict[Load, Workload]
    arms: tuple[str, ...]
    """Policies, the baseline first."""
    policies: tuple[str, ...] = ()
    """The policies of the paper, where each runs in several settings."""
    settings: tuple[Setting, ...] = ()
    """The paper's settings; empty if it states none."""
    switch: str = ""
    """A setting that all arms in paper mode have besides: another reading of the text."""

    @property
    def baseline(self) -> str:
        return self.arms[0]

    @property
    def distributed(self) -> bool:
        """Whether its jobs have several replicas and its load varies."""
        return None not in self.workloads

    @property
    def resource(self) -> str:
        """The resource that its jobs compete for: `gpu` or `cpu`."""
        first = next(iter(self.workloads.values()))
        return "gpu" if any(n.capacity.gpu for n in first.to_nodes()) else "cpu"

    def paper_arm(self, setting: Setting | None) -> str:
        """The paper's policy with this setting, or with the first."""
        first = self.settings[0] if self.settings else None
        return self.switched(paper_arm(self.policies[0], setting or first))

    def switched(self, arm: str) -> str:
        """The arm, with the other reading if it is a paper mode."""
        return f"{arm},{self.switch}" if self.switch and ":paper" in arm else arm

    def under(self, *arms: str) -> "Experiment":
        """The same experiment with these arms only."""
        return replace(self, arms=arms)

    def reading(self, switch: str) -> "Experiment":
        """The baseline and the paper mode, with this setting."""
        other = replace(self, switch=switch)
        paper = (other.switched(arm) for arm in self.arms if ":paper" in arm)
        return other.under(self.baseline, *paper)


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
    """All experiments by id, in the order of the catalogue."""
    listed = catalogue()["experiments"]
    return {
        name: _distributed(name, given) if "job" in given else _single(name, given)
        for name, given in listed.items()
    }


def select(names: Iterable[str]) -> list[Experiment]:
    """The named experiments in the order of the catalogue; all if none is named."""
    known, wanted = experiments(), list(names)
    for name in wanted:
        if name not in known:
            raise UnknownName("experiment", name, known)
    return [e for name, e in known.items() if not wanted or name in wanted]


@cache
def _costs() -> dict[str, Any]:
    """Costs of checkpoints as published, and of running several jobs on a node as measured."""
    text = (files("headway") / "data" / "machine.yaml").read_text(encoding="utf-8")
    measured = yaml.safe_load(text)
    return {"costs": catalogue()["costs"], **{name: measured[name] for name in COSTS}}


# -- single-replica jobs that share CPU ----------------------------------------------------------


def _single(name: str, given: dict[str, Any]) -> Experiment:
    arrivals = {"arrivals": given["arrivals"]} if "arrivals" in given else {}
    policies, settings = tuple(given["policies"]), tuple(_settings(given))
    arms = [given["baseline"]]
    for policy in policies:
        arms += [*(paper_arm(policy, s) for s in settings or (None,)), policy]
    fields = {"name": name, "pool": given["pool"], "nodes": given["nodes"], "jobs": _jobs(given)}
    if given["pool"] == "specon":
        fields |= _on_specon_nodes(given["nodes"])
    return Experiment(
        id=name,
        workloads={None: make_workload(**fields, **_costs(), **arrivals)},
        arms=(*arms, *([REFERENCE] if given["baseline"] == "spread" else []), OURS),
        policies=policies,
        settings=settings,
    )


def _on_specon_nodes(given: int | list[dict[str, Any]]) -> dict[str, Any]:
    """The nodes in their published size, and the models with demands in cores."""
    cores = SPECON_NODE["cpu"]
    listed = [{"count": given}] if isinstance(given, int) else given
    nodes = [{**SPECON_NODE, **n, "speed": n.get("speed", 1.0) / cores} for n in listed]
    pool = catalogue()["pools"]["specon"]
    models = {name: {**m, "demand": m["demand"] * cores} for name, m in pool.items()}
    return {"nodes": nodes, "models": models}


def _settings(given: dict[str, Any]) -> Iterator[Setting]:
    for one in given.get("settings", ()):
        yield one["alpha"], one["interval_s"]
    if grid := given.get("grid"):
        yield from product(grid["alpha"], grid["interval_s"])


def _jobs(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Listed jobs, named after their models, or the numbered jobs of an arrival trace."""
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


# -- distributed jobs ----------------------------------------------------------------------------


def _distributed(name: str, given: dict[str, Any]) -> Experiment:
    arrivals = given["arrivals"]
    fields = {"name": name, **_costs(), "nodes": [{"name": "node", **given["nodes"]}]}
    drawn = {"jobs": arrivals["jobs"], "checkpoint": "sdk", "profile": _profile(given["job"])}
    return Experiment(
        id=name,
        workloads={
            load: make_workload(**fields, arrivals={"load": load, **drawn})
            for load in arrivals["poisson_load"]
        },
        arms=DISTRIBUTED_ARMS,
    )


def _profile(job: dict[str, Any]) -> dict[str, Any]:
    """A step is one second of a GPU, or a core-second where there are none."""
    worker, request = job["worker"], job["worker_request"]
    cores, gpus = request["cpu"], request.get("gpu", 0)
    most = worker["max"]
    bounds = {"max_times": float(most[:-1])} if isinstance(most, str) else {"max": [most]}
    drawn = {"replicas": worker["replicas"], "min": [worker["min"]], **bounds}
    if not gpus:
        drawn["limit"] = cores  # tf-operator's pods have a limit equal to their request
    return {
        "steps": job["gpu_work" if gpus else "cpu_work"],
        "demand": [cores if gpus else CROWDED * cores],
        "speed": {
            "kind": "sync",
            "compute": cores if gpus else 1.0,
            "transfer_s": TRANSFER_S,
            "penalty": PENALTY,
        },
        "tasks": [
            {"name": "ps", "replicas": [job["ps"]], "cpu": [job["ps_request"]["cpu"]]},
            {"name": "worker", "cpu": [cores], "gpu": [gpus], **drawn},
        ],
    }
