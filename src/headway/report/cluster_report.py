"""The jobs of a namespace on a cluster, by their status: a table, figures, and a page."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway import __version__
from headway.backend.kubernetes.client.api import Api, Plain, jobs_path
from headway.backend.kubernetes.platform.job_status import seconds
from headway.core.model.units import NodeId, Seconds
from headway.errors import ConfigError
from headway.report.charts.gantt import Span, gantt
from headway.report.cluster_job import reported
from headway.report.comparison import lead, summary_sections
from headway.report.page import Section, table, write_page
from headway.runtime.job_status import JobStatus
from headway.runtime.result import JobResult, Result, summarise, to_json

POLICY = "Headway"
"""The status of a job does not say which policy placed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    namespace: str
    jobs: list[JobStatus]
    """In the order of their creation; times since the first of them was created."""
    restarts: dict[str, int]
    """Number of restarts of each job: after a failure, an interruption, a move, or in another size.
    """

    @property
    def result(self) -> Result | None:
        """Return the result of the ended jobs; None: none has ended."""
        ended = tuple(
            JobResult(
                name=job.job,
                submitted_s=job.submitted_s,
                started_s=job.started_s,
                finished_s=job.finished_s,
                steps=job.step or 0.0,
                moves=0,
                outcome=job.phase,
            )
            for job in self.jobs
            if job.finished_s is not None
        )
        if not ended:
            return None
        return summarise(ended, policy=POLICY, backend="kubernetes", seed=0, used=0.0, capacity=1.0)

    def plain(self) -> dict[str, Any]:
        figures = to_json([self.result]) if self.result else None
        keys = ("mean_completion_s", "median_completion_s", "p95_completion_s", "makespan_s",
                "mean_waiting_s", "mean_running_s")  # fmt: skip
        return {
            "namespace": self.namespace,
            "ended": {key: figures[key] for key in keys} if figures else None,
            "jobs": [{**j.plain(), "restarts": self.restarts[j.job]} for j in self.jobs],
        }


def read(api: Api, namespace: str) -> ClusterReport:
    listed, _ = api.list(jobs_path(namespace))
    if not listed:
        raise ConfigError(f"namespace {namespace} has no training jobs", where=api.url)
    listed.sort(key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))
    began = seconds(listed[0]["metadata"]["creationTimestamp"])
    return ClusterReport(
        namespace=namespace,
        jobs=[_job(each, began) for each in listed],
        restarts={
            each["metadata"]["name"]: max(0, _status(each).get("attempt", 0) - 1) for each in listed
        },
    )


def _status(job: Plain) -> Plain:
    found: Plain = job.get("status") or {}
    return found


def _job(job: Plain, began: float) -> JobStatus:
    about, status = job["metadata"], _status(job)
    known = reported(job, began)
    nodes = tuple(NodeId(name) for name in status.get("nodes", "").split(",") if name)

    def at(field: str) -> Seconds | None:
        return seconds(status[field]) - began if status.get(field) else None

    return JobStatus(
        run=about["namespace"],
        job=about["name"],
        phase=known.phase,
        nodes=nodes,
        step=known.step,
        total_steps=known.total_steps,
        value=known.value,
        submitted_s=seconds(about["creationTimestamp"]) - began,
        started_s=at("startTime"),
        finished_s=at("finishTime"),
        reason=known.reason,
        at_s=known.at_s,
        began=began,
    )


def write(report: ClusterReport, to: Path) -> None:
    """The page."""
    now = time.time() - report.jobs[0].began
    rows = [
        [j.job, j.phase, _time(j.started_s, j.submitted_s), _time(j.finished_s, j.submitted_s),
         "" if j.step is None else f"{j.step:g}", "" if j.value is None else f"{j.value:.4g}",
         str(report.restarts[j.job]), j.reason]
        for j in report.jobs
    ]  # fmt: skip
    header = ["job", "phase", "waited (s)", "took (s)", "step", "value", "restarts", "reason"]
    spans = [
        Span(row=j.job, since=j.started_s, until=now if j.finished_s is None else j.finished_s,
             label=", ".join(j.nodes) or j.phase, colour=i)
        for i, j in enumerate(report.jobs)
        if j.started_s is not None
    ]  # fmt: skip
    drawn = gantt(spans, x="time (s)", rows=[j.job for j in report.jobs], title="Jobs")
    result = report.result
    sections = summary_sections([[result]], [result]) if result else []
    sections += [
        Section(title="From start to end", body=drawn),
        Section(title="Jobs", body=table(header, rows, numeric=range(2, 7))),
    ]
    text = lead([[result]]) if result else f"{len(report.jobs)} jobs, none of which has ended."
    made = f"Made by headway {__version__} from the status of the jobs."
    write_page(to, f"Namespace {report.namespace}", text, sections, footer=made)


def _time(end: Seconds | None, begin: Seconds) -> str:
    return "" if end is None else f"{end - begin:.0f}"
