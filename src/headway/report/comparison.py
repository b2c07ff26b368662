"""The HTML report of a comparison: completion times, CPU of each job, and jobs on nodes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from headway import __version__
from headway.core.model.units import Cores, JobId
from headway.policy.registry import build
from headway.report.charts.bars import bars
from headway.report.charts.gantt import Span, gantt
from headway.report.charts.plots import Series, lines, stack
from headway.report.page import Section, table, write_page
from headway.report.run_timeline import RunTimeline, world_timeline
from headway.runtime.result import Result, over_seeds
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.sim.timeline import Line, Stay
from headway.spec.workload import Workload

MOST_CURVES = 12
"""A chart with more loss curves is unreadable."""


def write_report(
    to: Path,
    workload: Workload,
    policies: Sequence[str],
    results: Sequence[Sequence[Result]],
    path: Path,
) -> None:
    """Figures cover all seeds; the first seed runs again, recorded, for the charts."""
    seed = results[0][0].seed
    scenario = to_scenario(workload, seed=seed, path=path)
    sections = summary_sections(results, [r[0] for r in results])
    for policy in policies:
        run = world_timeline(simulate(scenario, build(policy), record=True))
        sections.append(Section(title=f"Under {policy}", body=run_charts(run)))
    title = workload.name or path.stem
    made = f"Made by headway {__version__} simulate; charts show seed {seed}."
    write_page(to, title, lead(results), sections, footer=made)


def summary_sections(
    results: Sequence[Sequence[Result]], shown: Sequence[Result], notes: str = ""
) -> list[Section]:
    """Figures of all results, and completion times of one result for each policy. `notes`: on the
    figures, instead of the usual ones.
    """
    text = notes or figure_notes(results)
    return [
        Section(title="Figures", body=figure_table(results), text=text),
        Section(title="Completion time of each job", body=completion_chart(shown)),
    ]


def lead(results: Sequence[Sequence[Result]]) -> str:
    """The change of the mean completion time, and how many jobs finish later."""
    first, last = results[0], results[-1]
    jobs = f"{first[0].jobs} job{'s' * (first[0].jobs != 1)}"
    if first is last:
        mean = fmean(r.mean_completion_s for r in first)
        average = " on average" if first[0].jobs > 1 else ""
        return f"{jobs} under {first[0].policy} took {mean:.0f} s{average}."
    change = describe_change(_mean(last, "mean_completion_s") / _mean(first, "mean_completion_s"))
    slower, total = sum(r.slower for r in last), sum(r.jobs for r in last)
    worst = max(r.worst_ratio for r in last)
    losers = (
        f"{slower} of {total} jobs finished later by more than 1 % and one second (at worst "
        f"{worst:.2f} times as long)"
        if slower
        else "No job finished later by more than 1 % and one second"
    )
    return (
        f"Under {last[0].policy}, {jobs} finished {change} on average than under "
        f"{first[0].policy}. {losers}."
    )


def describe_change(ratio: float) -> str:
    """A ratio of completion times in words.

    >>> describe_change(0.75), describe_change(1.1)
    ('25% earlier', '10% later')
    """
    return f"{abs(1 - ratio):.0%} {'earlier' if ratio <= 1 else 'later'}"


def _mean(results: Sequence[Result], name: str) -> float:
    found = over_seeds([getattr(r, name) for r in results])
    return found["mean"] if found else 0.0


def figure_notes(results: Sequence[Sequence[Result]], band: str = "1 % and one second") -> str:
    """What the columns of `figure_table` mean. `band`: by how much a faster job is faster."""
    count = len(results[0])
    notes = (
        "Mean, median, p95: completion times of the jobs (finish minus submission), in seconds. "
        "To quality: mean time until 95 % of a job's improvement."
    )
    if len(results) > 1:
        first = results[0][0].policy
        notes += f" Faster, slower: jobs, by more than {band}, relative to {first}."
    return notes + (f" Means over {count} seeds." if count > 1 else "")


def figure_table(results: Sequence[Sequence[Result]]) -> str:
    """One row for each policy."""
    header = ["policy", "mean", "median", "p95", "makespan", "to quality", "faster", "slower",
              "worst", "moves", "CPU used"]  # fmt: skip
    rows = [_row(r) for r in results]
    if len(results) == 1:  # faster, slower and worst need another policy
        header, rows = header[:6] + header[9:], [row[:6] + row[9:] for row in rows]
    best = min(range(len(results)), key=lambda i: _mean(results[i], "mean_completion_s"))
    return table(header, rows, numeric=range(1, len(header)), highlight=[(best, 1)])


def _row(results: Sequence[Result]) -> list[str]:
    times = ("mean_completion_s", "median_completion_s", "p95_completion_s", "makespan_s")
    quality = over_seeds([r.mean_time_to_quality_s for r in results])
    return [
        results[0].policy,
        *(f"{_mean(results, name):.1f}" for name in times),
        f"{quality['mean']:.1f}" if quality else "-",
        f"{_mean(results, 'faster'):g}",
        f"{_mean(results, 'slower'):g}",
        f"{max(r.worst_ratio for r in results):.2f}",
        f"{_mean(results, 'moves'):g}",
        f"{_mean(results, 'utilization'):.0%}",
    ]


def completion_chart(results: Sequence[Result]) -> str:
    jobs = results[0].per_job
    names = [j.name + f" ({j.outcome})" * (j.outcome != "succeeded") for j in jobs]
    series = {r.policy: [j.completion_s for j in r.per_job] for r in results}
    return bars(names, series, y="completion time (s)", baseline=results[0].policy)


def run_charts(run: RunTimeline) -> str:
    """CPU by job, jobs on nodes, and loss, in the form of Figures 6.5 and 6.6 of the thesis."""
    stays = [(stay, "M" if stay.moved_in else "") for stay in run.stays]
    drawn = [
        cpu_chart(run.jobs, run.shares, run.cores, run.foreign),
        gantt(spans(run.jobs, stays), x="time (s)", rows=run.nodes, title="Jobs on nodes"),
    ]
    losses = _series(run.jobs, run.values)
    if losses and len(run.jobs) <= MOST_CURVES:
        drawn.append(lines(losses, x="time (s)", y="loss", title="Loss"))
    return "".join(drawn)


def cpu_chart(
    jobs: Sequence[JobId],
    shares: Mapping[JobId, Line],
    cores: Cores,
    foreign: Line | None = None,
    *,
    title: str = "CPU by job",
    height: int = 300,
) -> str:
    series = _series(jobs, shares)
    if foreign:
        series.append(Series(name="used by others", points=foreign, grey=True))
    return stack(series, x="time (s)", y="cores", title=title, capacity=cores, height=height)


def _series(jobs: Sequence[JobId], given: Mapping[JobId, Line]) -> list[Series]:
    """The lines of the jobs; the colour of a job is its index in `jobs` in every chart."""
    known = [(i, name) for i, name in enumerate(jobs) if given.get(name)]
    return [Series(name=name, points=given[name], colour=i) for i, name in known]


def spans(jobs: Sequence[JobId], stays: Iterable[tuple[Stay, str]]) -> list[Span]:
    """Stays with their marks as bars of a Gantt chart. Replicas are named if a job has several."""
    colour, stays = {name: i for i, name in enumerate(jobs)}, list(stays)
    count = Counter(replica.job for replica in {s.replica for s, _ in stays})
    return [
        Span(
            row=s.node, since=s.since, until=s.until, label=s.job, colour=colour[s.job], mark=mark,
            detail=s.replica.name if count[s.job] > 1 else "",
        )
        for s, mark in stays
    ]  # fmt: skip
