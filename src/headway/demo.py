"""Run the same real jobs alternately under fair sharing and under another policy."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.resources import as_file, files
from pathlib import Path
from statistics import median
from typing import Any

from headway import __version__
from headway.report.comparison import describe_change, run_charts, summary_sections
from headway.report.page import Section, write_page
from headway.report.run_timeline import read_timeline
from headway.runtime.result import Result, against
from headway.runtime.run import Run
from headway.runtime.run_directory import RunDirectory
from headway.runtime.start import begin
from headway.spec.load import read_workload

Watch = Callable[[Run], AbstractContextManager[Any]]
"""Displays a run; the context has a method `show`."""


def demo_workload() -> Path:
    with as_file(files("headway") / "data" / "demo.yaml") as path:
        return path


def run_once(
    workload: Path, policy: str, data: Path, watch: Watch | None = None
) -> tuple[Result, Run]:
    run = begin(read_workload(workload), workload, policy, data=data)
    with watch(run) if watch else nullcontext() as display:
        result = run.go(display.show) if display else run.go()
    if run.interrupted:
        raise KeyboardInterrupt
    return result, run


def alternate(
    workload: Path, policies: Sequence[str], pairs: int, data: Path, watch: Watch | None = None
) -> tuple[list[list[Result]], list[list[RunDirectory]]]:
    """Run A B A B …; return the results and the run directories by policy. Each result is compared
    with the preceding run of the first policy.
    """
    results: list[list[Result]] = [[] for _ in policies]
    folders: list[list[RunDirectory]] = [[] for _ in policies]
    for _ in range(pairs):
        for i, policy in enumerate(policies):
            result, run = run_once(workload, policy, data, watch)
            folders[i].append(run.folder)
            results[i].append(against(result, results[0][-1]) if i else result)
    return results, folders


def medians(results: Sequence[Result]) -> dict[str, float]:
    """Completion time of each job, median over the runs."""
    names = [j.name for j in results[0].per_job]
    times = [[j.completion_s for j in r.per_job] for r in results]
    return dict(zip(names, map(median, zip(*times, strict=True)), strict=True))


def describe(results: Sequence[Sequence[Result]]) -> str:
    """Compare the median runs of the first and the last policy: the change of the mean, the jobs
    that finish later, the job that gains most, and whether other programs disturbed the runs.
    """
    first, last = (
        {j.name: j.completion_s for j in r[median_run(r)].per_job}
        for r in (results[0], results[-1])
    )
    change = describe_change(sum(last.values()) / sum(first.values()))
    late = [n for n in first if last[n] > 1.01 * first[n] + 1]
    losers = f"{', '.join(late)} finished later" if late else "no job finished later"
    best = min(first, key=lambda n: last[n] / first[n])
    return (
        f"Under {results[-1][0].policy}, the {len(first)} jobs finished {change} on average than "
        f"under {results[0][0].policy}, and {losers}. {best} gained most: "
        f"{last[best]:.0f} s instead of {first[best]:.0f} s.{_disturbed(results)}"
    )


DISTURBED = 0.15
"""Fraction of the core that other programs may take without a warning."""


def _disturbed(results: Sequence[Sequence[Result]]) -> str:
    """A warning if the core was not fully used, although `fair` and `headway` leave none idle."""
    whole = [x.utilization for r in results for x in r if x.policy in ("fair", "headway")]
    taken = 1 - min(whole, default=1.0)
    if taken < DISTURBED:
        return ""
    return f" Other programs took {taken:.0%} of the core in a run: the comparison is unreliable."


def write_demo(
    to: Path,
    results: Sequence[Sequence[Result]],
    folders: Sequence[Sequence[RunDirectory]],
    workload: Path,
) -> None:
    shown = [median_run(r) for r in results]
    chosen = [r[i] for r, i in zip(results, shown, strict=True)]
    sections = summary_sections(results, chosen, repeats="runs")
    for result, i, kept in zip(chosen, shown, folders, strict=True):
        body = run_charts(read_timeline(kept[i]))
        sections.append(Section(title=f"Under {result.policy}", body=body))
    runs = len(results[0])
    which = f"{runs} runs of each; charts show the median run" if runs > 1 else "one run of each"
    made = f"Made by headway {__version__}: {workload.stem}, {which}."
    write_page(to, "Headway, measured on this machine", describe(results), sections, footer=made)


def median_run(results: Sequence[Result]) -> int:
    """The index of the run with the median mean completion."""
    order = sorted(range(len(results)), key=lambda i: results[i].mean_completion_s)
    return order[(len(order) - 1) // 2]
