"""Tables, messages and progress bars that the commands print."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from statistics import fmean
from textwrap import indent, wrap
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headway.cli.terminal import brief, clean, echo, many

if TYPE_CHECKING:
    from headway.calibrate import Measurement
    from headway.core.model.decision import Decision
    from headway.machine import Machine
    from headway.papers.readings import Outcome
    from headway.papers.render.tables import Table as Content
    from headway.papers.runner import Reproduction
    from headway.report.explain import Explanation
    from headway.runtime.replay import Difference
    from headway.runtime.result import Result

SHOWN = 20
"""Differences of a replay that are printed in full."""
DELAY = 2.0
"""Seconds after which a progress bar appears."""
LITTLE = 0.05
"""Cores; a smaller foreign load is not mentioned."""
WIDE = 120
"""Columns of the terminal that complete tables of reproductions need; a narrower one omits optional
columns."""


class SafeConsole(Console):
    """Cleans every string that it prints, also in the cells of tables."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(clean(text), **options)


@contextmanager
def progress_bar(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.progress import Progress

    began = monotonic()
    with Progress(console=SafeConsole(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, visible=False)

        def update(done: int, total: int) -> None:
            late = monotonic() - began > DELAY
            bar.update(task, completed=done, total=total, visible=late)

        yield update


def plain_table(*columns: str, gap: int = 2, **options: Any) -> Table:
    """Return a table without borders; its first columns, and options for all of them."""
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, **options)
    return table


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


def show_outcomes(lines: Sequence[str]) -> None:
    """Print the jobs that did not succeed, one line each with the reason."""
    for line in lines:
        _line(line)


def _line(text: str) -> None:
    SafeConsole().print(text, highlight=False, markup=False, soft_wrap=True)


def show_story(found: "Explanation") -> None:
    """Print what is known of a job, then its events."""
    from headway.cli.facts import NOTHING_FOUND, PASSING, facts_lines, moment, with_clock
    from headway.report.explain import without_old_shares

    console, began = SafeConsole(), found.began
    facts, ended = found.facts, found.ended
    if facts:
        at, phase = (ended.at_s, ended.what) if ended else (facts.at_s, facts.phase)
        clock = f" ({moment(at, began)})" if began is not None else ""
        why = f": {ended.why}" if ended and ended.why else ""
        _line(f"{found.job}: {phase} at {at:.1f} s{clock}{why}")
        known_at = f"{facts.at_s:.1f}"
        if ended and known_at != f"{ended.at_s:.1f}":
            _line(f"last known, at {known_at} s:")
        known = plain_table("", no_wrap=True)
        known.add_column("", overflow="fold")
        known.show_header = False
        failed = ended and ended.what != "succeeded"
        for label, text in facts_lines(facts, began):
            if not (ended and label in PASSING) and not (failed and text == NOTHING_FOUND):
                known.add_row(f"  {label}", escape(text))
        console.print(known, highlight=False)
        console.print()
    table = plain_table("time", justify="right", no_wrap=True)
    table.add_column("event", no_wrap=True)
    table.add_column("reason", overflow="fold")
    events, omitted = without_old_shares(found.events)
    for event in events:
        why = with_clock(event.why, event.at_s, began)
        table.add_row(f"{event.at_s:.1f} s", escape(event.what), escape(why))
    console.print(table)
    if omitted:
        told = f"{many(omitted, 'earlier change')} of its share and of the load: --json lists all"
        console.print(told, style="dim", highlight=False)


def show_differences(cycles: int, found: Sequence["Difference"], policy: str) -> None:
    from headway.runtime.replay import TIMING

    listed = [d for d in found if d.what != TIMING]
    if not found:
        _line(f"{many(cycles, 'cycle')} replayed with {policy}: no difference")
        return
    for d in listed[:SHOWN]:
        _line(f"cycle {d.cycle} at {d.at_s:.1f} s: {d.what} differs")
        for label, decisions in (("journal", d.then), ("replay", d.now)):
            for decision in decisions:
                _line(f"  {label}: {_decided(decision)}")
    timing = len(found) - len(listed)
    if timing:
        _line(f"{many(timing, 'cycle')} differ{'s' * (timing == 1)} only in timing")
    more = f"; the first {SHOWN} are shown" if len(listed) > SHOWN else ""
    _line(f"{len(found)} of {many(cycles, 'cycle')} differ under {policy}{more}")


def _decided(decision: "Decision") -> str:
    from headway.report.explain import describe

    subject = getattr(decision, "replica", None) or getattr(decision, "job", "")
    return f"{subject}: {describe(decision)}" + (f" ({decision.reason})" if decision.reason else "")


def show_policies(found: Sequence[dict[str, Any]]) -> None:
    table = plain_table("policy", "decides", "description", overflow="fold")
    for policy in found:
        table.add_row(policy["name"], policy["level"], policy["about"])
    console = SafeConsole()
    console.print(table)
    console.print("settings of a policy: headway policies NAME", style="dim", highlight=False)


def show_policy(policy: dict[str, Any]) -> None:
    """Print a policy's settings, each with its meaning below it."""
    width = min(get_terminal_size().columns, 100) - 6
    echo(f"{policy['name']}: {policy['about']}")
    if policy["modes"]:
        echo("  paper: as published, without corrections")
    for key, value in policy["settings"].items():
        shown = ("off", "on")[value] if isinstance(value, bool) else value
        lines = [f"  {key}={shown}"]
        lines += [indent(line, " " * 6) for line in wrap(policy["meaning"].get(key, ""), width)]
        echo("\n".join(lines))


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
    SafeConsole().print(table)


def show_measured(found: "Sequence[Measurement]") -> None:
    """Print one row per kind of job."""
    if not found:
        return
    table = plain_table("job", overflow="fold")
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
    console = SafeConsole()
    console.print(table)
    console.print("work: core-seconds; demand: cores", style="dim", highlight=False)
    for remark in filter(None, (one.remark() for one in found)):
        console.print(remark, highlight=False)


def show_machine(found: "Machine") -> None:
    """Print one row per number of trainings and sum of ceilings, and the law."""
    from headway.machine import filling

    table = plain_table("trainings", justify="right")
    for name in ("ceilings", "per CPU second", "per second", "noise"):
        table.add_column(name, justify="right", no_wrap=True)
    for p in found.points:
        ceilings = "none" if p.ceilings is None else f"{p.ceilings:g} x"
        ratios = f"{p.efficiency:.3f}", f"{p.throughput:.3f}", f"{p.noise:.3f}"
        table.add_row(f"{p.count}", ceilings, *ratios)
    console = SafeConsole()
    console.print(table)
    for name in ("sharing", "contention", "oversubscription"):
        cost = getattr(found, name)
        console.print(f"{name}: {cost.value:.4f} ± {cost.error:.4f}", highlight=False)
    console.print(
        f"updates, relative to {many(filling(found.cores, found.threads), 'training')} "
        f"({many(found.threads, 'thread')} each, on {many(found.cores, 'core')}); "
        "ceilings: their sum over the cores",
        style="dim",
        highlight=False,
    )


def show_reproductions(found: Sequence["Reproduction"], outcomes: Sequence["Outcome"]) -> None:
    from headway.papers.claims import remarks
    from headway.papers.render import tables

    console = SafeConsole()
    for one in found:
        head = f"{one.experiment.id}: {one.publication.about}; {many(len(one.runs.seeds), 'seed')}"
        console.print(head, style="bold", highlight=False)
        if one.judged:
            console.print(_paper_table(tables.claim_table(one), console.width))
            console.print()
        console.print(_paper_table(tables.arm_table(one), console.width))
        console.print(f"\n{tables.verdict(one)}\n", highlight=False)
    if outcomes:
        console.print("Open readings: published figures that agree", style="bold", highlight=False)
        console.print(_paper_table(tables.reading_table(outcomes), console.width))
        console.print()
    if len(found) > 1:
        total = tables.count_agreement(found)
        console.print(f"All experiments: {total}\n", style="bold", highlight=False)
    for distributed in dict.fromkeys(one.experiment.distributed for one in found):
        for text in (*([] if distributed else remarks()), tables.NOTES[distributed]):
            console.print(tables.plain(text), style="dim", highlight=False)


def _paper_table(content: "Content", width: int) -> Table:
    shown = content if width >= WIDE else content.narrow()
    colours = {"agrees": "green", "given": "dim", "misses": "red"}
    table = plain_table(gap=1)
    for column in shown.columns:
        table.add_column(column.title, justify="right" if column.numeric else "left", no_wrap=True)
    for row in shown.rows:
        cells, colour = [escape(cell) for cell in row], colours.get(row[-1])
        table.add_row(*cells[:-1], f"[{colour}]{cells[-1]}[/]" if colour else cells[-1])
    return table
