"""The experiments with distributed jobs, from the catalogue: nodes, jobs drawn at random, loads.

The catalogue gives work, replicas and requests. What it leaves to a bandwidth model is here, once
for all three: a step takes one worker as long as its work says; its exchange with the parameter
server 10 ms for each worker, and four times that from another node. With four workers a step so
takes 0.29 s on one node and 0.41 s apart: the catalogue's 0.7.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from headway.errors import UnknownName
from headway.papers.experiments import Experiment, experiments
from headway.spec.catalogue import catalogue
from headway.spec.workload import Workload

TRANSFER_S = 0.01
PENALTY = 4.0
ARMS = (
    "spread", "gang", "gang+locality", "dragon:paper", "dragon", "dragon:converged=on", "kips",
    "optimus", "tiresias:quantum=900",
)  # fmt: skip
"""Least attained service with a quantum of the median job of E-D1 and E-D2: that for the traces of
large clusters would never be used up here."""
CROWDED = 4.0
"""Times its request that a worker of a job without GPUs could use, were its ceiling raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangExperiment:
    id: str
    workloads: dict[float, Workload]
    """By load."""
    baseline: str = ARMS[0]
    arms: tuple[str, ...] = ARMS

    def under(self, *arms: str) -> "GangExperiment":
        """The same with these arms alone; the first is the baseline."""
        return replace(self, arms=arms, baseline=arms[0])

    @property
    def resource(self) -> str:
        """What its jobs compete for: `gpu` or `cpu`."""
        first = next(iter(self.workloads.values()))
        return "gpu" if any(n.capacity.gpu for n in first.to_nodes()) else "cpu"


@cache
def gang_experiments() -> dict[str, GangExperiment]:
    listed = catalogue()["experiments"]
    return {name: _read(name, given) for name, given in listed.items() if "job" in given}


def named(names: Iterable[str]) -> tuple[list[Experiment], list[GangExperiment]]:
    """Those named, of either kind, in the order of the catalogue; nothing named: all."""
    single, gangs, wanted = experiments(), gang_experiments(), list(names)
    known = (*single, *gangs)
    for name in wanted:
        if name not in known:
            raise UnknownName("experiment", name, known)
    return (
        [e for name, e in single.items() if not wanted or name in wanted],
        [e for name, e in gangs.items() if not wanted or name in wanted],
    )


def _read(name: str, given: dict[str, Any]) -> GangExperiment:
    arrivals = given["arrivals"]
    return GangExperiment(
        id=name,
        workloads={
            load: Workload.model_validate(
                {
                    "apiVersion": "headway.dev/v1alpha1",
                    "kind": "Workload",
                    "name": name,
                    "nodes": [{"name": "node", **given["nodes"]}],
                    "costs": catalogue()["costs"],
                    "arrivals": {
                        "load": load,
                        "jobs": arrivals["jobs"],
                        "checkpoint": "sdk",
                        "profile": _profile(given["job"]),
                    },
                }
            )
            for load in arrivals["poisson_load"]
        },
    )


def _profile(job: dict[str, Any]) -> dict[str, Any]:
    """A step is a second of one GPU, or a core-second where there are none."""
    worker, request = job["worker"], job["worker_request"]
    cores, gpus = request["cpu"], request.get("gpu", 0)
    most = worker["max"]
    bounds = {"max_times": float(most[:-1])} if isinstance(most, str) else {"max": [most]}
    drawn = {"replicas": worker["replicas"], "min": [worker["min"]], **bounds}
    if not gpus:
        drawn["limit"] = cores  # as tf-operator's pods have it: what they ask for
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
