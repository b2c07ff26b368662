"""Growth efficiency of the jobs of a run, by resource (equation 4.2 of FlowCon)."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean
from typing import Any

from headway.core.estimate.progress import efficiencies
from headway.core.model.report import EMPTY, MetricHistory, extend
from headway.core.model.units import JobId, ReplicaId
from headway.report.page import table

RESOURCES = {
    "cpu": "per core",
    "memory": "per GiB",
    "block_io": "per MiB/s of disk I/O",
    "network_io": "per MiB/s of network I/O",
}


def mean_efficiencies(cycles: Iterable[dict[str, Any]]) -> dict[JobId, dict[str, float]]:
    """The mean over the reports of each job, from the lines of a journal."""
    signs: dict[JobId, float] = {}
    histories: dict[ReplicaId, MetricHistory] = {}
    found: dict[JobId, dict[str, list[float]]] = {}
    for cycle in cycles:
        seen = cycle["seen"]
        signs |= {job.id: job.spec.direction.sign for job in seen.jobs}
        for report in seen.reports:
            name = report.replica
            history = histories[name] = extend(histories.get(name, EMPTY), report)
            by_resource = found.setdefault(name.job, defaultdict(list))
            sign = signs.get(name.job, -1.0)
            for resource, value in efficiencies(history, report.usage, sign=sign).items():
                by_resource[resource].append(value)
    means = {job: {r: fmean(v) for r, v in values.items()} for job, values in found.items()}
    return {job: values for job, values in means.items() if values}


def growth_table(by_job: dict[JobId, dict[str, float]]) -> str:
    """Resources that no job is known to use are left out."""
    shown = [r for r in RESOURCES if any(r in values for values in by_job.values())]
    rows = [
        [job, *(f"{values[r]:.3g}" if r in values else "" for r in shown)]
        for job, values in by_job.items()
    ]
    return table(["job", *(RESOURCES[r] for r in shown)], rows, numeric=range(1, len(shown) + 1))
