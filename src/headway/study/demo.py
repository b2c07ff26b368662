"""The same real jobs under fair sharing and under another policy, in turn."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.resources import as_file, files
from pathlib import Path
from statistics import median
from typing import Any

from headway import __version__
from headway.draw.page import Section, page
from headway.runtime.folder import RunFolder
from headway.runtime.result import Result, against
from headway.runtime.run import Run, begin
from headway.spec.reading import read_workload
from headway.study.recorded import of_run
from headway.study.report import completions, explained, figures, pictures

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
) -> tuple[list[list[Result]], list[RunFolder]]:
    """A B A B …: results by policy, each compared with the first policy's run of its turn; and the
    folders of the last turn.
    """
    results: list[list[Result]] = [[] for _ in policies]
    folders: list[RunFolder] = []
    for _ in range(pairs):
        folders = []
        for i, policy in enumerate(policies):
            result, run = one(workload, policy, data, watch)
            folders.append(run.folder)
            results[i].append(against(result, results[0][-1]) if i else result)
    return results, folders


def medians(results: Sequence[Result]) -> dict[str, float]:
    """Completion time of each job, the median over runs."""
    names = [j.name for j in results[0].per_job]
    times = [[j.completion_s for j in r.per_job] for r in results]
    return dict(zip(names, map(median, zip(*times, strict=True)), strict=True))


def sentences(results: Sequence[Sequence[Result]]) -> str:
    """Two: how much earlier on average and whether anybody was later, and who gained most."""
    first, last = medians(results[0]), medians(results[-1])
    mean = sum(last.values()) / sum(first.values())
    word = "earlier" if mean <= 1 else "later"
    late = [n for n in first if last[n] > 1.01 * first[n] + 1]
    losers = f"{', '.join(late)} finished later" if late else "nobody finished later"
    best = min(first, key=lambda n: last[n] / first[n])
    return (
        f"Under {results[-1][0].policy} the {len(first)} jobs finished {abs(1 - mean):.0%} {word} "
        f"on average than under {results[0][0].policy}, and {losers}. {best} gained most: "
        f"{last[best]:.0f} s instead of {first[best]:.0f} s."
    )


def write_demo(
    to: Path, results: Sequence[Sequence[Result]], folders: Sequence[RunFolder], workload: Path
) -> None:
    middle = [_middle(r) for r in results]
    sections = [
        Section(title="Figures", body=figures(results), text=explained(results)),
        Section(title="Completion time of each job", body=completions(middle)),
    ]
    for result, folder in zip(middle, folders, strict=True):
        body = pictures(of_run(folder))
        sections.append(Section(title=f"Under {result.policy}", body=body))
    made = f"Made by headway {__version__}: {workload.stem}, {len(results[0])} runs of each."
    to.parent.mkdir(parents=True, exist_ok=True)
    text = page("Headway, measured on this machine", sentences(results), sections, footer=made)
    to.write_text(text, encoding="utf-8")


def _middle(results: Sequence[Result]) -> Result:
    """The run whose mean is the median of all."""
    return sorted(results, key=lambda r: r.mean_completion_s)[(len(results) - 1) // 2]
