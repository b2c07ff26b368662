"""The table of results: one row per policy, compared with the first."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from headway.cli.output import SafeConsole, plain_table
from headway.cli.terminal import brief, many

if TYPE_CHECKING:
    from headway.runtime.result import Result

LITTLE = 0.05
"""Cores; a smaller foreign load is not mentioned."""


def show_results(by_policy: "Sequence[Sequence[Result]]", band: str = "1 % + 1 s") -> None:
    """Print one row per policy; with several seeds each figure is mean ± standard deviation.
    `band`: by how much a faster job is faster.
    """
    seeds, jobs = len(by_policy[0]), by_policy[0][0].jobs
    columns = ["mean", "", "p95", "makespan", "", "faster", "slower", "worst", "moves"]
    shown = list(range(len(columns) - 1))
    if len(by_policy) == 1:  # no baseline to compare with
        shown = [0, 2, 3]
    if any(r.moves for results in by_policy for r in results):
        shown.append(len(columns) - 1)
    rows = [_row(results, by_policy[0]) for results in by_policy]
    console = SafeConsole()
    kept, full = _fitting(["policy", *columns], rows, shown, console.width), [r[0] for r in rows]
    if kept != shown:
        rows = [[brief(policy, full), *row] for policy, *row in rows]
        kept = _fitting(["policy", *columns], rows, shown, console.width)
    table = plain_table("policy", overflow="fold", min_width=12)
    for i in kept:
        table.add_column(columns[i], justify="right", no_wrap=True)
    for policy, *row in rows:
        table.add_row(policy, *(row[i] for i in kept))
    seeded = f", {many(seeds, 'seed')}" if by_policy[0][0].backend == "sim" else ""
    console.print(f"{many(jobs, 'job')}{seeded}; times in seconds", highlight=False)
    console.print(table)
    for policy, (shown_as, *_) in zip(full, rows, strict=True):
        if shown_as != policy:
            console.print(f"{shown_as} is {policy}", style="dim", highlight=False)
    foreign = fmean(r.foreign_cores for results in by_policy for r in results)
    if foreign > LITTLE:
        console.print(f"other processes used {foreign:.1f} cores on average", highlight=False)
    for line in _gpu_lines(by_policy):
        console.print(line, highlight=False)
    console.print(_legend(by_policy, band), style="dim", highlight=False)
    lost = [columns[i] for i in shown if i not in kept and columns[i]]
    if lost:
        hidden = f"Columns that do not fit: {', '.join(lost)}. Use a wider terminal or --json."
        console.print(hidden, style="dim", highlight=False)


_DROP_ORDER = ((2,), (5,), (8,), (3, 4))
"""Columns to drop in a narrow terminal, in this order: p95, faster, moves, makespan."""


def _fitting(
    header: Sequence[str], rows: Sequence[Sequence[str]], shown: Sequence[int], width: int
) -> list[int]:
    """Return the columns that fit into one line beside the name of the policy."""
    widths = [max(map(len, column)) + 2 for column in zip(header, *rows, strict=True)]
    kept = list(shown)
    for dropped in _DROP_ORDER:
        if widths[0] + sum(widths[i + 1] for i in kept) - 2 > width:
            kept = [i for i in kept if i not in dropped]
    return kept


def _change(part: float) -> str:
    """Format a relative change.

    >>> _change(0.123), _change(-0.0001)
    ('+12.3%', '0.0%')
    """
    text = f"{part:+.1%}"
    return "0.0%" if text[1:] == "0.0%" else text


def _gpu_lines(by_policy: "Sequence[Sequence[Result]]") -> list[str]:
    """Return lines on the use of GPUs and on deadlocks, if there were any."""
    rows = [("gpu_useful", "share of GPU time that made progress", ".0%"),
            ("deadlocks", "deadlocks per run", ".1f")]  # fmt: skip
    lines = []
    for name, words, form in rows:
        found = [(r[0].policy, _spread(r, name)) for r in by_policy]
        if any(figure and figure["max"] for _, figure in found):
            each = (f"{policy} {figure['mean']:{form}}" for policy, figure in found if figure)
            lines.append(f"{words}: {', '.join(each)}")
    return lines


def _spread(results: "Sequence[Result]", name: str) -> dict[str, float] | None:
    from headway.runtime.result import over_seeds

    return over_seeds([getattr(r, name) for r in results])


def _row(results: "Sequence[Result]", baseline: "Sequence[Result]") -> list[str]:
    def figure(name: str) -> str:
        found = _spread(results, name)
        if found is None:
            return "-"
        whole = found["mean"] >= 1000 or len(results) > 1
        spread = f"±{found['sd']:.0f}" if found["sd"] >= 0.5 else ""
        return f"{found['mean']:.{0 if whole else 1}f}{spread}"

    def change(name: str) -> str:
        before, found = _spread(baseline, name), _spread(results, name)
        if results is baseline or not before or not before["mean"] or not found:
            return ""
        return _change(found["mean"] / before["mean"] - 1)

    total = sum(r.jobs for r in results)
    return [
        results[0].policy,
        figure("mean_completion_s"),
        change("mean_completion_s"),
        figure("p95_completion_s"),
        figure("makespan_s"),
        change("makespan_s"),
        f"{sum(r.faster for r in results) / total:.0%}",
        f"{sum(r.slower for r in results) / total:.1%}",
        f"{max(r.worst_ratio for r in results):.2f}x",
        f"{fmean(r.moves for r in results):.0f}",
    ]


def _legend(by_policy: "Sequence[Sequence[Result]]", band: str) -> str:
    first = by_policy[0][0].policy
    mean = "mean, p95: completion times (finish - submission)"
    if len(by_policy) == 1:
        return mean
    return (
        f"{mean}. faster, slower: jobs that finish more than {band} earlier or later than "
        f"under {first}. worst: worst slowdown of any job against {first}."
    )
