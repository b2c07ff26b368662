"""Results as people read them."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headway.runtime.result import Result, over_seeds

if TYPE_CHECKING:
    from headway.calibrate import Found
    from headway.core.model.decision import Decision
    from headway.report.explain import Event
    from headway.runtime.replay import Difference

SHOWN = 20
"""Differences that are printed in full."""


def as_json(thing: Any) -> str:
    return json.dumps(thing, indent=2, allow_nan=False)


def show_results(by_policy: Sequence[Sequence[Result]]) -> None:
    """One row a policy; with several seeds each figure is its mean ± standard deviation."""
    seeds, jobs = len(by_policy[0]), by_policy[0][0].jobs
    columns = ["mean", "", "p95", "makespan", "", "faster", "slower", "worst", "moves"]
    shown = list(range(len(columns) - 1))
    if len(by_policy) == 1:  # there is nobody to be faster or slower than
        shown = [0, 2, 3]
    if any(r.moves for results in by_policy for r in results):
        shown.append(len(columns) - 1)
    rows = [_row(results, by_policy[0]) for results in by_policy]
    console = Console()
    kept = _fitting(["policy", *columns], rows, shown, console.width)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("policy", overflow="fold", min_width=12)
    for i in kept:
        table.add_column(columns[i], justify="right", no_wrap=True)
    for policy, *row in rows:
        table.add_row(policy, *(row[i] for i in kept))
    seeded = f", {many(seeds, 'seed')}" if by_policy[0][0].backend == "sim" else ""
    console.print(f"{many(jobs, 'job')}{seeded}; times in seconds", highlight=False)
    console.print(table)
    for line in _held(by_policy):
        console.print(line, highlight=False)
    console.print(_legend(by_policy), style="dim", highlight=False)
    lost = [columns[i] for i in shown if i not in kept and columns[i]]
    if lost:
        said = f"No room for {', '.join(lost)}: make this wider, or use --json."
        console.print(said, style="dim", highlight=False)


_FIRST_TO_GO = ((2,), (5,), (8,), (3, 4))
"""Columns of the results that are left out where there is no room: p95, faster, moves, makespan."""


def _fitting(
    header: Sequence[str], rows: Sequence[Sequence[str]], shown: Sequence[int], width: int
) -> list[int]:
    """The columns that have room beside a policy's name in one line."""
    widths = [max(map(len, column)) + 2 for column in zip(header, *rows, strict=True)]
    kept = list(shown)
    for going in _FIRST_TO_GO:
        if widths[0] + sum(widths[i + 1] for i in kept) - 2 > width:
            kept = [i for i in kept if i not in going]
    return kept


def many(count: int, what: str) -> str:
    """So many of them.

    >>> many(1, "job"), many(2, "job")
    ('1 job', '2 jobs')
    """
    return f"{count} {what}{'s' * (count != 1)}"


def _change(part: float) -> str:
    """A part, as a change.

    >>> _change(0.123), _change(-0.0001)
    ('+12.3%', '0.0%')
    """
    text = f"{part:+.1%}"
    return "0.0%" if text[1:] == "0.0%" else text


def _held(by_policy: Sequence[Sequence[Result]]) -> list[str]:
    """What became of the GPUs, and deadlocks, where there were any."""
    rows = [("gpu_useful", "part of all GPUs that made progress", ".0%"),
            ("deadlocks", "deadlocks in a run", ".1f")]  # fmt: skip
    lines = []
    for name, words, form in rows:
        found = [(r[0].policy, over_seeds([getattr(x, name) for x in r])) for r in by_policy]
        if any(figure and figure["max"] for _, figure in found):
            each = (f"{policy} {figure['mean']:{form}}" for policy, figure in found if figure)
            lines.append(f"{words}: {', '.join(each)}")
    return lines


def _row(results: Sequence[Result], baseline: Sequence[Result]) -> list[str]:
    def mean(name: str) -> float:
        found = over_seeds([getattr(r, name) for r in results])
        return found["mean"] if found else 0.0

    def figure(name: str) -> str:
        found = over_seeds([getattr(r, name) for r in results])
        if found is None:
            return "-"
        whole = found["mean"] >= 1000 or len(results) > 1
        spread = f"±{found['sd']:.0f}" if found["sd"] >= 0.5 else ""
        return f"{found['mean']:.{0 if whole else 1}f}{spread}"

    def change(name: str) -> str:
        before = over_seeds([getattr(r, name) for r in baseline])
        if results is baseline or not before or not before["mean"]:
            return ""
        return _change(mean(name) / before["mean"] - 1)

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
        f"{mean('moves'):.0f}",
    ]


def _legend(by_policy: Sequence[Sequence[Result]]) -> str:
    first = by_policy[0][0].policy
    mean = "mean, p95: of completion times (finish - submission)"
    if len(by_policy) == 1:
        return mean
    return (
        f"{mean}. faster, slower: jobs that finish more than 1 % + 1 s earlier or later than "
        f"under {first}. worst: the largest ratio of a job's completion to that."
    )


def show_outcomes(told: Sequence[str]) -> None:
    """Who did not succeed, and why, a line each."""
    for line in told:
        Console().print(line, highlight=False, markup=False, soft_wrap=True)


def show_story(told: Sequence["Event"]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("at", justify="right", no_wrap=True)
    table.add_column("what", no_wrap=True)
    table.add_column("why", overflow="fold")
    for event in told:
        table.add_row(f"{event.at_s:.1f} s", escape(event.what), escape(event.why))
    Console().print(table)


def show_differences(cycles: int, found: Sequence["Difference"], policy: str) -> None:
    console = Console()
    if not found:
        said = f"{many(cycles, 'cycle')} decided again by {policy}: no difference"
        console.print(said, highlight=False, soft_wrap=True)
        return
    for d in found[:SHOWN]:
        console.print(f"cycle {d.cycle} at {d.at_s:.1f} s: {d.what} differs", highlight=False)
        for label, decisions in (("then", d.then), ("now", d.now)):
            for decision in decisions:
                text = f"  {label}: {_decided(decision)}"
                console.print(text, highlight=False, markup=False, soft_wrap=True)
    more = f", the first {SHOWN} shown" if len(found) > SHOWN else ""
    text = f"{len(found)} of {many(cycles, 'cycle')} differ under {policy}{more}"
    console.print(text, highlight=False, soft_wrap=True)


def _decided(decision: "Decision") -> str:
    from headway.report.explain import spell  # as `explain` words it

    who = getattr(decision, "replica", None) or getattr(decision, "job", "")
    return f"{who}: {spell(decision)}" + (f" ({decision.reason})" if decision.reason else "")


def show_bench(result: dict[str, Any]) -> None:
    table = Table(
        title=f"{result['bench']} · {result['cores']} cores · score {result['score']:.2f} M/s",
        title_justify="left",
    )
    for name in ("figure", "value", "bar", ""):
        table.add_column(name, justify="left" if name in ("figure", "") else "right")
    for figure in result["figures"]:
        bar = "" if figure["bar"] is None else f"{figure['bar']:g}"
        verdict = "[green]ok[/]" if figure["pass"] else "[red]missed[/]"
        value = f"{figure['value']:.4g} {figure['unit']}"
        table.add_row(figure["name"], value, bar, "" if figure["bar"] is None else verdict)
    Console().print(table)


def show_measured(found: "Sequence[Found]") -> None:
    """One row for each kind of job."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("job", overflow="fold")
    for name in ("work", "demand", "steps", "save", "restore", "memory", "runs"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        p = one.profile
        costs = ["-" if s is None else f"{s:.2f} s" for s in (p.save_s, p.restore_s)]
        table.add_row(
            escape(", ".join(one.jobs)),
            f"{p.work:.1f}",
            f"{p.demand:.2f}",
            f"{p.steps:.0f}",
            *costs,
            f"{(p.memory or 0) / 2**20:.0f} MiB",
            f"{len(one.runs)}",
        )
    console = Console()
    console.print(table)
    console.print("work: core-seconds; demand: cores", style="dim", highlight=False)
