"""Finished runs: their report, and a simulation of them under another policy."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from headway import __version__
from headway.core.model.job import Estimate, Expected, JobSpec
from headway.core.model.node import Node
from headway.core.model.units import JobId, NodeId, Resources
from headway.errors import ConfigError
from headway.report.comparison import describe_change, lead, run_charts, summary_sections
from headway.report.page import Section, table, write_page
from headway.report.run_timeline import RunTimeline, read_timeline
from headway.runtime.result import JobResult, Result, from_json
from headway.runtime.run_directory import RunDirectory
from headway.sim.compare import run_all
from headway.sim.scenario import Arrival, Scenario


def read_json(folder: RunDirectory) -> dict[str, Any]:
    """The result as written, with the reasons of jobs that did not succeed."""
    if not folder.ended:
        if folder.locked:
            state, hint = "is still running", "wait until it ends, or use: headway explain JOB"
        else:
            state, hint = "has not ended", f"headway run --resume {folder.id}"
        raise ConfigError(f"run {folder.id} {state}", where=str(folder.path), hint=hint)
    (found,) = json.loads((folder.path / "result.json").read_text())
    return dict(found)


def read_result(folder: RunDirectory) -> Result:
    return from_json(read_json(folder))


def unsuccessful(folder: RunDirectory) -> list[tuple[JobResult, str]]:
    """The jobs that did not succeed, each with its reason."""
    reasons = read_json(folder).get("reasons", {})
    jobs = [j for j in read_result(folder).per_job if j.outcome != "succeeded"]
    return [(j, reasons.get(j.name, "unknown reason")) for j in jobs]


def describe_failures(folder: RunDirectory) -> list[str]:
    """One line on how many jobs did not succeed, then one for each; empty if all succeeded."""
    found = unsuccessful(folder)
    if not found:
        return []
    total = len(read_result(folder).per_job)
    counts = Counter(job.outcome for job, _ in found)
    text = ", ".join(f"{n} of {total} {outcome}" for outcome, n in counts.items())
    each = [f"{job.name} {job.outcome}: {why}" for job, why in found]
    return [f"{text}; the times above include them", *each]


def write_run(folder: RunDirectory, *, copy_to: Path | None = None) -> Path:
    """Write the run's page, `report.html` in its directory, and a copy of it."""
    result, bad = read_result(folder), unsuccessful(folder)
    title = Path(folder.about.get("workload", "Adopted processes")).stem
    sections = [
        *summary_sections([[result]], [result]),
        Section(title=f"Under {result.policy}", body=run_charts(read_timeline(folder))),
    ]
    if bad:
        rows = [[job.name, job.outcome, f"{job.completion_s:.1f}", why] for job, why in bad]
        shown = table(["job", "outcome", "after (s)", "reason"], rows, numeric=(2,))
        sections.insert(0, Section(title="Jobs that did not succeed", body=shown))
    made = f"Made by headway {__version__} from run {folder.id}, measured on this machine."
    to = folder.path / "report.html"
    write_page(to, title, _lead(result, len(bad)), sections, footer=made)
    if copy_to:
        copy_to.write_bytes(to.read_bytes())
    return to


def _lead(result: Result, bad: int) -> str:
    if not bad:
        return lead([[result]])
    took = [j.completion_s for j in result.per_job if j.outcome == "succeeded"]
    mean = f" The others took {fmean(took):.0f} s on average." if took else ""
    return f"{bad} of {result.jobs} jobs under {result.policy} did not succeed.{mean}"


def estimate_gain(folder: RunDirectory) -> str:
    """One sentence on the effect of the policy of an observe-only run: the measured jobs are
    simulated under fair sharing and under the policy.
    """
    result, seen = read_result(folder), read_timeline(folder)
    done = [j for j in result.per_job if j.outcome == "succeeded" and j.name in seen.shares]
    if not done:
        return "No observed job finished, so there is nothing to compare."
    scenario = measured_scenario(seen, done)
    fair, ours = run_all(scenario, ["fair", result.policy])
    change = describe_change(ours.mean_completion_s / fair.mean_completion_s)
    losers = f"{ours.slower} of {ours.jobs} jobs" if ours.slower else "no job"
    return (
        f"Under {result.policy}, these jobs would have finished {change} on average, {losers} "
        "later (simulated from measurements)."
    )


def measured_scenario(seen: RunTimeline, jobs: list[JobResult]) -> Scenario:
    """A scenario with the measured work and demand of each job."""
    arrivals = []
    for job in sorted(jobs, key=lambda j: j.submitted_s):
        name, at, steps = JobId(job.name), job.submitted_s, max(job.steps, 1.0)
        line = seen.shares[name]
        work = max(0.01, sum(cores * (b - a) for (a, cores), (b, _) in pairwise(line)))
        demand = min(seen.cores, max(0.01, *(cores for _, cores in line)))
        known = Expected(work=Estimate(value=work), demand=demand)
        spec = JobSpec(expected=known, total_steps=steps)
        arrivals.append(Arrival(id=name, at=at, spec=spec, work=work, demand=demand, steps=steps))
    node = Node(id=NodeId("machine"), capacity=Resources(cpu=seen.cores, memory=2.0**40))
    return Scenario(nodes=(node,), jobs=tuple(arrivals))
