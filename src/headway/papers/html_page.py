"""The page of what was reproduced: tables, and the pictures as the thesis draws them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headway import __version__
from headway.papers.experiments import OURS
from headway.papers.markdown import (
    ARMS,
    EXPLAINED,
    FIGURES,
    arm_rows,
    counted,
    figure_rows,
    seen_rows,
    short,
    verdict,
)
from headway.papers.observed import Watched
from headway.papers.runner import Reproduced
from headway.report.charts.plots import Series, Span, bars, gantt, lines, stack
from headway.report.page import Section, page, table

NARROW = "\N{NO-BREAK SPACE}"
MOST_SERIES = 4
"""More bars than this for each job say nothing."""


def write_page(to: Path, found: Sequence[Reproduced], more: Sequence[Section] = ()) -> None:
    lead = f"{counted(found)} Over {len(found[0].baseline)} seeds."
    made = f"Made by headway {__version__} reproduce; pictures of one run show seed 0."
    to.parent.mkdir(parents=True, exist_ok=True)
    sections = [_section(one) for one in found]
    sections.append(Section(title="What the columns mean", body="", text=EXPLAINED))
    text = page("The papers' experiments, again", lead, [*sections, *more], made)
    to.write_text(text, encoding="utf-8")


def _section(one: Reproduced) -> Section:
    parts = []
    if one.judged:
        rows = [[*row[:1], row[1].replace(" ", NARROW), *row[2:]] for row in figure_rows(one)]
        missed = [(r, 5) for r, row in enumerate(rows) if row[5] == "misses"]
        parts.append(table(FIGURES, rows, numeric=(2, 3), highlight=missed))
    parts.append(_figures(ARMS[:-2], [row[:-2] for row in arm_rows(one)]))
    parts.append(_figures(*seen_rows(one)))
    parts += pictures(one)
    title = f"{one.experiment.id}: {one.publication.about}"
    return Section(title=title, body="".join(parts), text=verdict(one))


def _figures(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column names an arm, on one line."""
    whole = [[row[0].replace(" ", NARROW), *row[1:]] for row in rows]
    return table(header, whole, numeric=range(1, len(header)))


def pictures(one: Reproduced) -> Iterator[str]:
    alphas, intervals = ({s[i] for s in one.experiment.settings} for i in (0, 1))
    if min(len(alphas), len(intervals)) > 1 and len(one.experiment.settings) > MOST_SERIES:
        yield from _by_setting(one)
    if len(one.watched[one.shown].nodes) == 1:
        yield from _on_one_node(one)
    else:
        yield from _on_many(one)


def _on_one_node(one: Reproduced) -> Iterator[str]:
    both = (one.experiment.baseline, one.shown)
    if one.experiment.workload.arrivals is None:
        for arm in both:
            yield _cpu(one.watched[arm], f"Figures 6.5 and 6.6: CPU by job under {short(arm)}")
        yield _cpu(one.watched[OURS], f"Beside them: CPU by job under {OURS}")
    else:
        yield _completion(one, "Completion of each job")
    yield _growth(one, "Figures 6.11 and 6.12: growth efficiency of all jobs together")


def _on_many(one: Reproduced) -> Iterator[str]:
    yield _completion(one, "Figures 6.16 to 6.20: completion of each job")
    both = (one.experiment.baseline, one.shown)
    for arm in both:
        yield _gantt(one.watched[arm], f"Figures 6.21 and 6.22: jobs on nodes under {short(arm)}")
    for arm in both:
        yield _nodes(one.watched[arm], f"Figures 6.23 and 6.24: CPU by node under {short(arm)}")
    yield _growth(one, "Growth efficiency of all jobs together")


# -- over all seeds ----------------------------------------------------------------------------


def _by_setting(one: Reproduced) -> Iterator[str]:
    """Completion of each job and makespan, by interval at one α and by α at one interval."""
    alphas = list(dict.fromkeys(a for a, _ in one.experiment.settings))
    intervals = list(dict.fromkeys(i for _, i in one.experiment.settings))
    drawn = [(f"α {100 * a:g} %", [(a, i) for i in intervals]) for a in (0.05, 0.1)]
    drawn += [(f"interval {i:g} s", [(a, i) for a in alphas]) for i in (20, 30)]
    for number, (title, settings) in enumerate(drawn, 1):
        arms = [one.experiment.baseline, *(one.experiment.arm(s) for s in settings)]
        yield bars(
            [*(j.name for j in one.baseline[0].per_job), "makespan"],
            {short(arm): _means(one, arm) for arm in arms},
            y="seconds, mean over the seeds",
            baseline=one.experiment.baseline,
            title=f"Figure 6.{number}: completion and makespan, {title}",
        )


def _means(one: Reproduced, arm: str) -> list[float]:
    results = one.runs[arm]
    jobs = zip(*(r.per_job for r in results), strict=True)
    took = [sum(j.completion_s for j in same) / len(same) for same in jobs]
    return [*took, sum(r.makespan_s for r in results) / len(results)]


# -- the first seed ----------------------------------------------------------------------------


def _completion(one: Reproduced, title: str) -> str:
    e = one.experiment
    paper = [arm for arm in one.runs if ":paper" in arm]
    arms = [e.baseline, *(paper if len(paper) <= MOST_SERIES else [one.shown]), OURS]
    firsts = {arm: one.runs[arm][0].per_job for arm in arms}
    order = sorted(range(len(firsts[e.baseline])), key=lambda i: firsts[e.baseline][i].name)
    return bars(
        [firsts[e.baseline][i].name for i in order],
        {short(arm): [jobs[i].completion_s for i in order] for arm, jobs in firsts.items()},
        y="completion (s)",
        baseline=e.baseline,
        title=title,
    )


def _cpu(seen: Watched, title: str) -> str:
    series = [
        Series(name=name, points=seen.shares[name], colour=i)
        for i, name in enumerate(seen.jobs)
        if name in seen.shares
    ]
    return stack(series, x="time (s)", y="cores", title=title, capacity=seen.cores, height=240)


def _growth(one: Reproduced, title: str) -> str:
    arms = (one.experiment.baseline, one.shown)
    series = [Series(name=short(arm), points=one.watched[arm].growth) for arm in arms]
    return lines(series, x="time (s)", y="growth efficiency (1/s)", title=title, height=240)


def _gantt(seen: Watched, title: str) -> str:
    colour = {name: i for i, name in enumerate(seen.jobs)}
    spans = [
        Span(
            row=s.node,
            since=s.since,
            until=s.until,
            label=s.job,
            colour=colour[s.job],
            mark=mark,
        )
        for s, mark in seen.stays
    ]
    return gantt(spans, x="time (s)", rows=seen.nodes, title=title)


def _nodes(seen: Watched, title: str) -> str:
    series = [Series(name=node, points=seen.cpu[node]) for node in seen.nodes]
    return lines(series, x="time (s)", y="part used", title=title, step=True, height=240)
