"""One self-contained page about a comparison: who finished when, what each job got, and where."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway import __version__
from headway.core.model.units import Cores, JobId
from headway.policy.registry import build
from headway.report.charts.plots import Series, Span, bars, gantt, lines, stack
from headway.report.cpu_timeline import Recorded, of_world
from headway.report.page import Section, page, table
from headway.runtime.result import JobResult, Result, over_seeds
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.sim.timeline import Line, Stay
from headway.spec.workload import Workload

MOST_CURVES = 12
"""More loss curves than this in one picture say nothing."""


def write_report(
    to: Path,
    workload: Workload,
    policies: Sequence[str],
    results: Sequence[Sequence[Result]],
    *,
    path: Path | None = None,
) -> None:
    """Run the first seed once more, recorded, and draw it; figures are over all seeds."""
    seed = results[0][0].seed
    scenario = to_scenario(workload, seed=seed, path=path)
    worlds = [simulate(scenario, build(p), record=True) for p in policies]
    sections = [
        Section(title="Figures", body=figures(results), text=explained(results)),
        Section(title="Completion time of each job", body=completions([r[0] for r in results])),
    ]
    for policy, world in zip(policies, worlds, strict=True):
        sections.append(Section(title=f"Under {policy}", body=pictures(of_world(world))))
    title = workload.name or (path.stem if path else "A workload")
    made = f"Made by headway {__version__} simulate; pictures show seed {seed}."
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(page(title, lead(results), sections, footer=made), encoding="utf-8")


def write_bench(to: Path, results: Sequence[dict[str, Any]], plots: Sequence[str]) -> None:
    """Benchmarks as a page: their figures, and a plot where cost grows with something."""
    sections = []
    for result, plot in zip(results, plots, strict=True):
        rows = [
            [
                f["name"],
                f"{f['value']:.4g} {f['unit']}",
                "" if f["bar"] is None else f"{f['bar']:g}",
            ]
            for f in result["figures"]
        ]
        figures = table(["figure", "value", "bar"], rows, numeric=(1, 2))
        about = f"{result['cores']} cores, score {result['score']:.2f} M/s."
        sections.append(Section(title=result["bench"], body=plot + figures, text=about))
    missed = [f["name"] for r in results for f in r["figures"] if not f["pass"]]
    verdict = f"Missed: {', '.join(missed)}." if missed else "Every bar is met."
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(page("Benchmarks", verdict, sections), encoding="utf-8")


def lead(results: Sequence[Sequence[Result]]) -> str:
    """Two sentences that say who finished how much earlier."""
    first, last = results[0], results[-1]
    jobs = f"{first[0].jobs} job{'s' * (first[0].jobs != 1)}"
    if first is last:
        mean = sum(r.mean_completion_s for r in first) / len(first)
        return f"{jobs} under {first[0].policy} took {mean:.0f} s on average."
    gain = 1 - _mean(last, "mean_completion_s") / _mean(first, "mean_completion_s")
    word = "earlier" if gain >= 0 else "later"
    slower = sum(r.slower for r in last)
    total = sum(r.jobs for r in last)
    losers = "no job finished later" if not slower else f"{slower} of {total} jobs finished later"
    worst = max(r.worst_ratio for r in last)
    tail = f" (at worst {worst:.2f} times as long)" if slower else ""
    return (
        f"Under {last[0].policy}, {jobs} finished {abs(gain):.0%} {word} on average than "
        f"under {first[0].policy}. By more than 1 % and a second, {losers}{tail}."
    )


def _mean(results: Sequence[Result], name: str) -> float:
    found = over_seeds([getattr(r, name) for r in results])
    return found["mean"] if found else 0.0


def explained(results: Sequence[Sequence[Result]], what: str = "seeds") -> str:
    many = len(results[0])
    spread = f" Means over {many} {what}." if many > 1 else ""
    first = results[0][0].policy
    times = (
        "Mean, median and 95th percentile of the jobs' completion times (finish minus "
        "submission), in seconds; to quality: the mean time until 95 % of a job's improvement is "
        "reached"
    )
    if len(results) == 1:
        return f"{times}.{spread}"
    return (
        f"{times}; faster and slower: jobs, by more than 1 % and a second, against {first}.{spread}"
    )


def figures(results: Sequence[Sequence[Result]]) -> str:
    header = ["policy", "mean", "median", "p95", "makespan", "to quality", "faster", "slower",
              "worst", "moves", "CPU used"]  # fmt: skip
    rows = []
    for r in results:
        quality = over_seeds([x.mean_time_to_quality_s for x in r])
        rows.append(
            [
                r[0].policy,
                *(f"{_mean(r, n):.1f}" for n in _TIMES),
                f"{quality['mean']:.1f}" if quality else "-",
                f"{_mean(r, 'faster'):g}",
                f"{_mean(r, 'slower'):g}",
                f"{max(x.worst_ratio for x in r):.2f}",
                f"{_mean(r, 'moves'):g}",
                f"{_mean(r, 'utilization'):.0%}",
            ]
        )
    if len(results) == 1:  # there is nobody to be faster or slower than
        header, rows = header[:6] + header[9:], [row[:6] + row[9:] for row in rows]
    best = min(range(len(results)), key=lambda i: _mean(results[i], "mean_completion_s"))
    return table(header, rows, numeric=range(1, len(header)), highlight=[(best, 1)])


_TIMES = ("mean_completion_s", "median_completion_s", "p95_completion_s", "makespan_s")


def completions(results: Sequence[Result]) -> str:
    names = [_named(j) for j in results[0].per_job]
    series = {r.policy: [j.completion_s for j in r.per_job] for r in results}
    return bars(names, series, y="completion time (s)", baseline=results[0].policy)


def _named(job: JobResult) -> str:
    return job.name if job.outcome == "succeeded" else f"{job.name} ({job.outcome})"


def pictures(seen: Recorded) -> str:
    """CPU by job, jobs on nodes, and loss, in the form of Figures 6.5 and 6.6 of the thesis."""
    stays = [(stay, "M" if stay.moved_in else "") for stay in seen.stays]
    drawn = [
        cpu_chart(seen.jobs, seen.shares, seen.cores),
        gantt(spans(seen.jobs, stays), x="time (s)", rows=seen.nodes, title="Jobs on nodes"),
    ]
    losses = [
        Series(name=name, points=seen.values[name], colour=i)
        for i, name in enumerate(seen.jobs)
        if seen.values.get(name)
    ]
    if losses and len(seen.jobs) <= MOST_CURVES:
        drawn.append(lines(losses, x="time (s)", y="loss", title="Loss"))
    return "".join(drawn)


def cpu_chart(
    jobs: Sequence[JobId],
    shares: Mapping[JobId, Line],
    cores: Cores,
    *,
    title: str = "CPU by job",
    height: int = 300,
) -> str:
    """Stacked areas; the colour of a job is its index in `jobs`."""
    series = [
        Series(name=name, points=shares[name], colour=i)
        for i, name in enumerate(jobs)
        if name in shares
    ]
    return stack(series, x="time (s)", y="cores", title=title, capacity=cores, height=height)


def spans(jobs: Sequence[JobId], stays: Iterable[tuple[Stay, str]]) -> list[Span]:
    """Stays with their marks as bars of a Gantt chart; colours as in `cpu_chart`."""
    colour = {name: i for i, name in enumerate(jobs)}
    return [
        Span(
            row=stay.node,
            since=stay.since,
            until=stay.until,
            label=stay.job,
            colour=colour[stay.job],
            mark=mark,
        )
        for stay, mark in stays
    ]
