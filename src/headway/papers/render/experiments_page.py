"""The HTML page of reproduced experiments: tables, and the figures as the papers draw them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from headway import __version__
from headway.core.model.units import JobId
from headway.papers.claims import figures
from headway.papers.experiments import OURS
from headway.papers.observed import ObservedRun
from headway.papers.readings import Outcome
from headway.papers.render import tables
from headway.papers.render.figures import arm_figures
from headway.papers.render.tables import Table, short
from headway.papers.runner import Reproduction
from headway.report.charts.bars import bars
from headway.report.charts.gantt import gantt
from headway.report.charts.plots import Series, lines
from headway.report.comparison import cpu_chart, spans
from headway.report.page import Section, table, write_page
from headway.runtime.result import Result
from headway.sim.build import to_curve
from headway.spec.catalogue import pool

MOST_SERIES = 4
"""A chart with more bars for each job is unreadable."""
BY_LOAD = ("waiting_s", "running_s", "elapsed_s", "makespan_s", "allocated", "useful")


def write_reproductions(
    to: Path, found: Sequence[Reproduction], outcomes: Sequence[Outcome]
) -> None:
    kinds = dict.fromkeys(one.experiment.distributed for one in found)
    title = (
        "The papers' experiments, reproduced" if False in kinds else "Distributed jobs, reproduced"
    )
    sections = [_section(one) for one in found]
    if False in kinds:
        sections.append(_training())
        listed = _plain(tables.figure_table(figures()))
        sections.append(Section(title="Figures of the papers", body=listed))
    if outcomes:
        sections.append(Section(title="Open readings", body=_plain(tables.reading_table(outcomes))))
    for distributed in kinds:
        name = "Columns, distributed jobs" if distributed else "Columns"
        sections.append(Section(title=name, body="", text=tables.NOTES[distributed]))
    lead = f"{tables.count_agreement(found)} {len(found[0].runs.seeds)} seeds."
    made = f"Made by headway {__version__} reproduce; charts of one run show the first seed."
    write_page(to, title, lead, sections, footer=made)


def _section(one: Reproduction) -> Section:
    parts = []
    if one.judged:
        claims = tables.claim_table(one)
        last = len(claims.columns) - 1
        missed = [(r, last) for r, row in enumerate(claims.rows) if row[last] == "misses"]
        parts.append(_table(claims, missed))
    arms = tables.arm_table(one)
    if one.observed:  # these columns are in the table of the first seed
        arms = Table(arms.columns[:-2], [row[:-2] for row in arms.rows])
    parts.append(_table(arms))
    if one.observed:
        parts.append(_table(tables.observed_table(one)))
    title = f"{one.experiment.id}: {one.publication.about}"
    return Section(title=title, body="".join([*parts, *charts(one)]), text=tables.verdict(one))


def _table(content: Table, highlight: Sequence[tuple[int, int]] = ()) -> str:
    """Names of arms are kept on one line."""
    arm = next(i for i, c in enumerate(content.columns) if c.title.startswith("arm"))
    rows = [
        [*row[:arm], row[arm].replace(" ", "\N{NO-BREAK SPACE}"), *row[arm + 1 :]]
        for row in content.rows
    ]
    return table(content.header, rows, numeric=content.numeric, highlight=highlight)


def _plain(content: Table) -> str:
    return table(content.header, content.rows, numeric=content.numeric)


def charts(one: Reproduction) -> Iterator[str]:
    e = one.experiment
    if e.distributed:
        yield from _by_load(one)
        return
    alphas, intervals = ({s[i] for s in e.settings} for i in (0, 1))
    if min(len(alphas), len(intervals)) > 1 and len(e.settings) > MOST_SERIES:
        yield from _by_setting(one)
    if len(one.observed[one.shown].nodes) == 1:
        yield from _on_one_node(one)
    else:
        yield from _on_several_nodes(one)


def _on_one_node(one: Reproduction) -> Iterator[str]:
    if one.experiment.workloads[None].arrivals is not None:
        yield _completion(one)
    for arm, figure in _both(one, "cpu"):
        yield _cpu(one.observed[arm], f"{figure}CPU by job under {short(arm)}")
    yield _cpu(one.observed[OURS], f"For comparison: CPU by job under {OURS}")
    for number, job in one.publication.growth.items():
        yield _growth(one, f"Figure {number}: growth efficiency of {job}", job)
    yield _growth(one, "Growth efficiency, sum over the jobs")


def _on_several_nodes(one: Reproduction) -> Iterator[str]:
    yield _completion(one)
    for arm, figure in _both(one, "jobs"):
        run, title = one.observed[arm], f"{figure}jobs on nodes under {short(arm)}"
        yield gantt(spans(run.jobs, run.stays), x="time (s)", rows=run.nodes, title=title)
    for arm, figure in _both(one, "nodes"):
        cpu, title = one.observed[arm].cpu, f"{figure}CPU by node under {short(arm)}"
        series = [Series(name=node, points=line) for node, line in cpu.items()]
        yield lines(series, x="time (s)", y="fraction used", title=title, step=True, height=240)
    yield _growth(one, "Growth efficiency, sum over the jobs")


def _both(one: Reproduction, chart: str) -> Iterator[tuple[str, str]]:
    """The baseline and the paper's policy, each with the number of its figure."""
    numbers = one.publication.figures.get(chart, ("", ""))
    for arm, number in zip((one.experiment.baseline, one.shown), numbers, strict=True):
        yield arm, f"Figure {number}: " if number else ""


def _training() -> Section:
    """The loss of the models in figure 3.1."""
    x = np.linspace(0.0, 1.0, 101)
    series = []
    for model in ("vae", "birnn", "gru"):
        profile = pool("specon")[model]
        values = to_curve(profile.curve, profile.steps, Path()).values(x)
        series.append(
            Series(name=model, points=list(zip(x.tolist(), values.tolist(), strict=True)))
        )
    title = "Figure 3.1: training progress of three models"
    chart = lines(series, x="fraction of the time", y="loss", title=title, height=240)
    return Section(title="Loss curves", body=chart, text="The curves are fitted to this figure.")


# -- over all seeds ----------------------------------------------------------------------------


def _by_load(one: Reproduction) -> Iterator[str]:
    """Each figure against the load, one line for each arm."""
    e = one.experiment
    figures = {(load, arm): arm_figures(one, load, arm) for load in e.workloads for arm in e.arms}
    for name in BY_LOAD:
        series = []
        for arm in e.arms:
            points = [(load or 0.0, figures[load, arm][name]["mean"]) for load in e.workloads]
            series.append(Series(name=arm, points=points))
        title = f"{name.removesuffix('_s').capitalize()} against load"
        unit = "seconds" if name.endswith("_s") else "fraction of the cluster"
        yield lines(series, x="load", y=unit, title=title, height=260)


def _by_setting(one: Reproduction) -> Iterator[str]:
    """Completion of each job and makespan, by interval at one α and by α at one interval."""
    e, results = one.experiment, one.runs.results[None]
    alphas = list(dict.fromkeys(a for a, _ in e.settings))
    intervals = list(dict.fromkeys(i for _, i in e.settings))
    drawn = [(f"α {100 * a:g} %", [(a, i) for i in intervals]) for a in (0.05, 0.1)]
    drawn += [(f"interval {i:g} s", [(a, i) for a in alphas]) for i in (20, 30)]
    for number, (title, settings) in enumerate(drawn, 1):
        arms = [e.baseline, *(e.paper_arm(s) for s in settings)]
        yield bars(
            [*(j.name for j in results[e.baseline][0].per_job), "makespan"],
            {short(arm): _means(results[arm]) for arm in arms},
            y="seconds, mean over the seeds",
            baseline=e.baseline,
            title=f"Figure 6.{number}: completion and makespan, {title}",
        )


def _means(results: Sequence[Result]) -> list[float]:
    """Completion of each job and makespan, over the seeds."""
    jobs = zip(*(r.per_job for r in results), strict=True)
    completions = [fmean(j.completion_s for j in same) for same in jobs]
    return [*completions, fmean(r.makespan_s for r in results)]


# -- the first seed ----------------------------------------------------------------------------


def _completion(one: Reproduction) -> str:
    (number,) = one.publication.figures.get("completion", ("",))
    title = f"Figure {number}: completion of each job" if number else "Completion of each job"
    e, results = one.experiment, one.runs.results[None]
    paper = [arm for arm in e.arms if ":paper" in arm]
    arms = [e.baseline, *(paper if len(paper) <= MOST_SERIES else [one.shown]), OURS]
    firsts = {short(arm): sorted(results[arm][0].per_job, key=lambda job: job.name) for arm in arms}
    return bars(
        [job.name for job in firsts[e.baseline]],
        {arm: [job.completion_s for job in jobs] for arm, jobs in firsts.items()},
        y="completion (s)",
        baseline=e.baseline,
        title=title,
    )


def _cpu(run: ObservedRun, title: str) -> str:
    return cpu_chart(run.jobs, run.shares, run.cores, title=title, height=240)


def _growth(one: Reproduction, title: str, job: str = "") -> str:
    """Growth efficiency of a job, or of all."""
    arms = (one.experiment.baseline, one.shown)
    runs = {short(arm): one.observed[arm] for arm in arms}
    series = [
        Series(name=arm, points=run.growth_by_job[JobId(job)] if job else run.growth)
        for arm, run in runs.items()
    ]
    return lines(series, x="time (s)", y="growth efficiency (1/s)", title=title, height=240)
