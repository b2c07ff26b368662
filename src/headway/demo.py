"""The same real jobs under fair sharing and under another policy, in turn."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.resources import as_file, files
from pathlib import Path
from statistics import median
from typing import Any

from headway import __version__
from headway.report.comparison import completions, explained, figures, pictures
from headway.report.cpu_timeline import of_run
from headway.report.page import Section, page
from headway.runtime.result import Result, against
from headway.runtime.run import Run, begin
from headway.runtime.run_directory import RunDirectory
from headway.spec.load import read_workload

Watch = Callable[[Run], AbstractContextManager[Any]]
"""Shows a run while it lasts; what it gives has a method `show`."""


def demo_workload() -> Path:
    with as_file(files("headway") / "data" / "demo.yaml") as path:
        return path


def one(workload: Path, policy: str, data: Path, watch: Watch | None = None) -> tuple[Result, Run]:
    run = begin(read_workload(workload), workload, policy, data=data)
    with watch(run) if watch else nullcontext() as display:
        result = run.go(display.show) if display else run.go()
    if run.interrupted:
        raise KeyboardInterrupt
    return result, run


def alternate(
    workload: Path, policies: Sequence[str], pairs: int, data: Path, watch: Watch | None = None
) -> tuple[list[list[Result]], list[list[RunDirectory]]]:
    """A B A B …: results by policy, each compared with the first policy's run of its turn; and the
    folders of these runs.
    """
    results: list[list[Result]] = [[] for _ in policies]
    folders: list[list[RunDirectory]] = [[] for _ in policies]
    for _ in range(pairs):
        for i, policy in enumerate(policies):
            result, run = one(workload, policy, data, watch)
            folders[i].append(run.folder)
            results[i].append(against(result, results[0][-1]) if i else result)
    return results, folders


def medians(results: Sequence[Result]) -> dict[str, float]:
    """Completion time of each job, the median over runs."""
    names = [j.name for j in results[0].per_job]
    times = [[j.completion_s for j in r.per_job] for r in results]
    return dict(zip(names, map(median, zip(*times, strict=True)), strict=True))


def sentences(results: Sequence[Sequence[Result]]) -> str:
    """How much earlier on average and whether anybody was later, and who gained most, by the middle
    run of each policy; and whether that was disturbed.
    """
    first, last = (
        {j.name: j.completion_s for j in r[middle(r)].per_job} for r in (results[0], results[-1])
    )
    mean = sum(last.values()) / sum(first.values())
    word = "earlier" if mean <= 1 else "later"
    late = [n for n in first if last[n] > 1.01 * first[n] + 1]
    losers = f"{', '.join(late)} finished later" if late else "nobody finished later"
    best = min(first, key=lambda n: last[n] / first[n])
    return (
        f"Under {results[-1][0].policy} the {len(first)} jobs finished {abs(1 - mean):.0%} {word} "
        f"on average than under {results[0][0].policy}, and {losers}. {best} gained most: "
        f"{last[best]:.0f} s instead of {first[best]:.0f} s.{_disturbed(results)}"
    )


DISTURBED = 0.15
"""The part of the core that others may take before a comparison means little."""


def _disturbed(results: Sequence[Sequence[Result]]) -> str:
    """The jobs could use all of the core, and these policies leave nothing of it idle."""
    whole = [x.utilization for r in results for x in r if x.policy in ("fair", "headway")]
    taken = 1 - min(whole, default=1.0)
    if taken < DISTURBED:
        return ""
    return f" Other programs took {taken:.0%} of the core in a run: this comparison means little."


def write_demo(
    to: Path,
    results: Sequence[Sequence[Result]],
    folders: Sequence[Sequence[RunDirectory]],
    workload: Path,
) -> None:
    shown = [middle(r) for r in results]
    chosen = [r[i] for r, i in zip(results, shown, strict=True)]
    sections = [
        Section(title="Figures", body=figures(results), text=explained(results, "runs")),
        Section(title="Completion time of each job", body=completions(chosen)),
    ]
    for result, i, kept in zip(chosen, shown, folders, strict=True):
        body = pictures(of_run(kept[i]))
        sections.append(Section(title=f"Under {result.policy}", body=body))
    runs = len(results[0])
    which = (
        f"{runs} runs of each; bars and pictures show the middle one"
        if runs > 1
        else "a run of each"
    )
    made = f"Made by headway {__version__}: {workload.stem}, {which}."
    to.parent.mkdir(parents=True, exist_ok=True)
    text = page("Headway, measured on this machine", sentences(results), sections, footer=made)
    to.write_text(text, encoding="utf-8")


def middle(results: Sequence[Result]) -> int:
    """Which run has the median of all means."""
    order = sorted(range(len(results)), key=lambda i: results[i].mean_completion_s)
    return order[(len(order) - 1) // 2]
