"""Real runs, afterwards: their page, and what another policy would have made of them."""

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
from headway.policy.registry import build
from headway.report.comparison import completions, explained, figures, lead, pictures
from headway.report.cpu_timeline import Recorded, of_run
from headway.report.page import Section, page, table
from headway.runtime.result import JobResult, Result, from_json
from headway.runtime.run_directory import RunDirectory
from headway.sim.driver import simulate
from headway.sim.scenario import Arrival, Scenario
from headway.sim.summary import summary


def read_plain(folder: RunDirectory) -> dict[str, Any]:
    """The result as it was written, with the reasons of those who did not succeed."""
    if not folder.ended:
        if folder.locked:
            said, hint = "is still running", "wait for its end; of a job: headway explain JOB"
        else:
            said, hint = "has not ended", f"headway run --resume {folder.id}"
        raise ConfigError(f"run {folder.id} {said}", where=str(folder.path), hint=hint)
    (found,) = json.loads((folder.path / "result.json").read_text())
    return dict(found)


def read_result(folder: RunDirectory) -> Result:
    return from_json(read_plain(folder))


def others(folder: RunDirectory) -> list[tuple[JobResult, str]]:
    """Those who did not succeed, and why."""
    reasons = read_plain(folder).get("reasons", {})
    jobs = [j for j in read_result(folder).per_job if j.outcome != "succeeded"]
    return [(j, reasons.get(j.name, "no reason is known")) for j in jobs]


def outcomes(folder: RunDirectory) -> list[str]:
    """A line on how many did not succeed, then one for each of them; nothing if all did."""
    found = others(folder)
    if not found:
        return []
    total = len(read_result(folder).per_job)
    counts = Counter(job.outcome for job, _ in found)
    said = ", ".join(f"{n} of {total} {outcome}" for outcome, n in counts.items())
    each = [f"{job.name} {job.outcome}: {why}" for job, why in found]
    return [f"{said}; the times above count them too", *each]


def write_run(folder: RunDirectory, *, copy_to: Path | None = None) -> Path:
    """Write the run's page, `report.html` in its directory, and a copy of it."""
    result, bad = read_result(folder), others(folder)
    title = Path(folder.about.get("workload", "Adopted processes")).stem
    sections = [
        Section(title="Figures", body=figures([[result]]), text=explained([[result]])),
        Section(title="Completion time of each job", body=completions([result])),
        Section(title=f"Under {result.policy}", body=pictures(of_run(folder))),
    ]
    if bad:
        rows = [[job.name, job.outcome, f"{job.completion_s:.1f}", why] for job, why in bad]
        shown = table(["job", "outcome", "after (s)", "reason"], rows, numeric=(2,))
        sections.insert(0, Section(title="Jobs that did not succeed", body=shown))
    made = f"Made by headway {__version__} from run {folder.id}, measured on this machine."
    to = folder.path / "report.html"
    to.write_text(page(title, _lead(result, len(bad)), sections, footer=made), encoding="utf-8")
    if copy_to:
        copy_to.write_bytes(to.read_bytes())
    return to


def _lead(result: Result, bad: int) -> str:
    if not bad:
        return lead([[result]])
    took = [j.completion_s for j in result.per_job if j.outcome == "succeeded"]
    mean = f" Those that did took {fmean(took):.0f} s on average." if took else ""
    return f"{bad} of {result.jobs} jobs under {result.policy} did not succeed.{mean}"


def would_have(folder: RunDirectory) -> str:
    """One sentence on what the policy, which only observed, would have made of this run: the
    jobs as they were measured, simulated under fair sharing and under it.
    """
    result, seen = read_result(folder), of_run(folder)
    done = [j for j in result.per_job if j.outcome == "succeeded" and j.name in seen.shares]
    if not done:
        return "No job ended that was seen at work, so there is nothing to compare."
    scenario = measured(seen, done)
    fair = summary(simulate(scenario, build("fair")), "fair", None)
    ours = summary(simulate(scenario, build(result.policy)), result.policy, fair)
    gain = 1 - ours.mean_completion_s / fair.mean_completion_s
    word = "earlier" if gain >= 0 else "later"
    losers = "nobody later" if not ours.slower else f"{ours.slower} of {ours.jobs} later"
    return (
        f"Under {result.policy} these jobs would have finished {abs(gain):.0%} {word} on average, "
        f"{losers} (simulated from what was measured)."
    )


def measured(seen: Recorded, jobs: list[JobResult]) -> Scenario:
    """A scenario of the work and the demand that each job showed."""
    arrivals = []
    for job in sorted(jobs, key=lambda j: j.submitted_s):
        line = seen.shares[JobId(job.name)]
        work = max(0.01, sum(cores * (b - a) for (a, cores), (b, _) in pairwise(line)))
        demand = min(seen.cores, max(0.01, *(cores for _, cores in line)))
        known = Expected(work=Estimate(value=work), demand=demand)
        spec = JobSpec(expected=known, total_steps=max(job.steps, 1.0))
        arrivals.append(
            Arrival(
                id=JobId(job.name),
                at=job.submitted_s,
                spec=spec,
                work=work,
                demand=demand,
                steps=max(job.steps, 1.0),
            )
        )
    node = Node(id=NodeId("machine"), capacity=Resources(cpu=seen.cores, memory=2.0**40))
    return Scenario(nodes=(node,), jobs=tuple(arrivals))
