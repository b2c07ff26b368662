"""Tables, messages and progress bars that several commands print."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from textwrap import indent, wrap
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headway.cli.terminal import clean, echo, many

if TYPE_CHECKING:
    from headway.core.model.decision import Decision
    from headway.report.explain import Explanation
    from headway.runtime.replay import Difference

SHOWN = 20
"""Differences of a replay that are printed in full."""
DELAY = 2.0
"""Seconds after which a progress bar appears."""


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
