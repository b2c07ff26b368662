"""Finished runs: their report, and a simulation of them under another policy."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from headway import __version__
from headway.core.estimate.job_size import ONE_RUN
from headway.core.model.job import JobSpec
from headway.core.model.node import Node
from headway.core.model.units import Cores, JobId, NodeId, Resources
from headway.errors import ConfigError
from headway.report.comparison import describe_change, lead, run_charts, summary_sections
from headway.report.growth import growth_table, mean_efficiencies
from headway.report.page import Section, page, table
from headway.report.run_timeline import RunTimeline, read_timeline
from headway.runtime.foreign_use import describe_foreign
from headway.runtime.journal import read
from headway.runtime.result import JobResult, Result, from_json
from headway.runtime.run_directory import RunDirectory
from headway.runtime.run_history import describe_run
from headway.sim.compare import run_all
from headway.sim.scenario import Arrival, ForeignLoad, Scenario
from headway.sim.timeline import Line


def read_json(folder: RunDirectory) -> dict[str, Any]:
    """The result as written, with the reasons of jobs that did not succeed."""
    if not folder.ended:
        if "server" in folder.about:
            state, hint = "is a server, which has no report", "headway history --jobs"
        elif folder.locked:
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
    included = "it" if len(found) == 1 else "them"
    output = describe_output(folder, [job.name for job, _ in found])
    return [f"{text}; the times above include {included}", *each, *output]


def describe_output(folder: RunDirectory, jobs: Sequence[str]) -> list[str]:
    """One line on how to read what these jobs printed; empty if Headway has no log of them."""
    kept = [name for name in jobs if any(folder.path.glob(f"jobs/{name}/*/out.log"))]
    named = "JOB" if len(kept) > 1 else "".join(kept)
    return [f"output: headway logs {named} --run {folder.id}"] if kept else []


def write_run(folder: RunDirectory, *, copy_to: Path | None = None) -> Path:
    """Write the run's page, `report.html` in its directory, and a copy of it."""
    result, bad, seen = read_result(folder), unsuccessful(folder), read_timeline(folder)
    title = describe_run(folder, folder.about)
    sections = [
        *summary_sections([[result]], [result]),
        Section(title=f"Under {result.policy}", body=run_charts(seen)),
    ]
    if growth := mean_efficiencies(read(folder.journal)):
        about = "Mean improvement a second, as a fraction of the range of its metric so far."
        sections.append(Section(title="Growth efficiency", body=growth_table(growth), text=about))
    if bad:
        rows = [[job.name, job.outcome, f"{job.completion_s:.1f}", why] for job, why in bad]
        shown = table(["job", "outcome", "after (s)", "reason"], rows, numeric=(2,))
        sections.insert(0, Section(title="Jobs that did not succeed", body=shown))
    made = f"Made by headway {__version__} from run {folder.id}, measured on this machine."
    to = folder.path / "report.html"
    text = _lead(result, len(bad))
    if seen.foreign:
        others = describe_foreign(result.foreign_cores, seen.cores)
        text += f" Mean foreign load: {others}. The jobs shared the rest."
    folder.write(to.name, page(title, text, sections, footer=made))
    if copy_to:
        copy_to.write_bytes(to.read_bytes())
    return to


def _lead(result: Result, bad: int) -> str:
    if not bad:
        return lead([[result]])
    took = [j.completion_s for j in result.per_job if j.outcome == "succeeded"]
    mean = f" The others took {fmean(took):.0f} s on average." if took else ""
    return f"{bad} of {result.jobs} jobs under {result.policy} did not succeed.{mean}"


FULL = 0.85
"""Fraction of the CPU above which a machine counts as fully used by the jobs."""
DRAWS = 10
"""Simulations of an observed run, each with other sizes."""


def estimate_gain(folder: RunDirectory) -> str:
    """One sentence on the effect of the policy of an observe-only run: the measured jobs are
    simulated under fair sharing and under the policy, which knows what it knew in the run. The
    sizes are drawn again several times, within the error of one measurement.
    """
    result, seen = read_result(folder), read_timeline(folder)
    done = [j for j in result.per_job if j.outcome == "succeeded" and j.name in seen.shares]
    if not done:
        return "No observed job finished, so there is nothing to compare."
    specs = {j.id: j.spec for cycle in read(folder.journal) for j in cycle["seen"].jobs}
    pairs = [
        run_all(measured_scenario(seen, done, specs, draw), ["fair", result.policy])
        for draw in range(DRAWS + 1)
    ]
    ratios = [ours.mean_completion_s / fair.mean_completion_s for fair, ours in pairs]
    change, (_, ours) = describe_change(ratios[0]), pairs[0]
    losers = f"{ours.slower} of {ours.jobs} jobs" if ours.slower else "no job"
    idle = (
        f" The jobs used {result.utilization:.0%} of the CPU: if other programs used the rest, the "
        "gain is underestimated."
    ) * (result.utilization < FULL)
    return (
        f"Under {result.policy}, these jobs would have finished {change} on average "
        f"({1 - max(ratios):.0%} to {1 - min(ratios):.0%} if their sizes vary by {ONE_RUN:.0%}), "
        f"{losers} later (simulated from measurements).{idle}"
    )


def measured_scenario(
    seen: RunTimeline, jobs: list[JobResult], specs: Mapping[JobId, JobSpec], draw: int = 0
) -> Scenario:
    """A scenario with the measured work and demand of each job, what was known of it (declared, or
    announced by its script), and the measured foreign load. In another `draw` than 0, sizes vary.
    """
    arrivals, random = [], Random(draw)
    busy: Counter[float] = Counter()
    for line in seen.shares.values():
        busy.update(dict(line))
    for job in sorted(jobs, key=lambda j: j.submitted_s):
        name, at, steps = JobId(job.name), job.submitted_s, max(job.steps, 1.0)
        line, known = seen.shares[name], specs[JobId(job.name)]
        work = max(0.01, sum(cores * (b - a) for (a, cores), (b, _) in pairwise(line)))
        work *= (1 + ONE_RUN) ** random.uniform(-1, 1) if draw else 1.0
        demand = min(seen.cores, max(0.01, _demand(line, busy, seen.cores)))
        spec = JobSpec(
            kind=known.kind,
            expected=known.expected,
            total_steps=known.total_steps,
            priority=known.priority,
        )
        arrivals.append(Arrival(id=name, at=at, spec=spec, work=work, demand=demand, steps=steps))
    node = Node(id=NodeId("machine"), capacity=Resources(cpu=seen.cores, memory=2.0**40))
    others = (ForeignLoad(node=node.id, given=tuple(seen.foreign)),) if seen.foreign else ()
    return Scenario(nodes=(node,), jobs=tuple(arrivals), foreign=others, seed=draw)


def _demand(line: Line, busy: Mapping[float, float], capacity: Cores) -> Cores:
    """The most cores that a job used. If the machine was full then, it may be able to use more: the
    next whole number of cores.
    """
    at, most = max(line, key=lambda point: point[1])
    return most if busy[at] < 0.95 * capacity else max(most, ceil(most - 0.1))
