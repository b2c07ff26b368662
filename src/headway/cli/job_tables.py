"""Tables of jobs and of runs."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.markup import escape
from rich.table import Table

from headway.cli.facts import steps, with_clock
from headway.cli.output import SafeConsole, plain_table
from headway.cli.terminal import clean
from headway.core.model.units import Seconds
from headway.runtime.job_status import JobStatus

if TYPE_CHECKING:
    from headway.runtime.run_history import PastRun


NAME, REASON = 20, 24
"""Lengths to which names and reasons are shortened before a column is omitted."""
DROPPED = ("time", "loss", "cores used", "share", "run", "step", "ETA", "reason")
"""Columns that a narrow terminal omits, the first one first."""
LIVE = ("loss", "share", "cores used", "ETA")
"""Columns that are omitted without notice if all jobs have ended and none has a value."""
GAP = 2
WIDEST = 100_000
"""Columns of a pipe."""


def show_jobs(jobs: Sequence[JobStatus], *, several: bool) -> None:
    """Print one line per job. `several`: name their runs too. A line is fitted to the terminal;
    a pipe gets all of it.
    """
    fitted = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = SafeConsole(width=None if fitted else WIDEST)
    table, omitted = jobs_table(jobs, console.width, several=several)
    console.print(table, highlight=False)
    if omitted:
        told = f"Columns that do not fit: {', '.join(omitted)}. Use a wider terminal or --json."
        console.print(told, style="dim", highlight=False, soft_wrap=True)


def jobs_table(
    jobs: Sequence[JobStatus], width: int, *, several: bool, selected: int | None = None
) -> tuple[Table, list[str]]:
    """Return a table with one line per job, and the columns for which there is no room; one of the
    jobs can be `selected`.
    """
    users = any(job.user for job in jobs)
    rows = [_cells(job, several=several, users=users) for job in jobs]
    if jobs and all(job.ended for job in jobs):  # what only a running job has
        empty = {name for name in LIVE if not any(row[name] for row in rows)}
        rows = [{n: cell for n, cell in row.items() if n not in empty} for row in rows]
    kept = _fitted(rows, width)
    table = plain_table(gap=GAP)
    for name in kept:
        numbers = name in ("step", "loss", "share", "cores used", "time", "ETA")
        table.add_column(name, justify="right" if numbers else "left", no_wrap=True)
    for i, row in enumerate(rows):
        table.add_row(*(escape(row[n]) for n in kept), style="reverse" if i == selected else None)
    every = rows[0] if rows else {}
    return table, [name for name in every if name not in kept]


def _cells(job: JobStatus, *, several: bool, users: bool) -> dict[str, str]:
    reason_at = job.at_s if job.decided_s is None else job.decided_s
    cells = {
        "job": job.job,
        "run": job.run,
        "user": job.user,
        "phase": job.phase,
        "step": steps(job.step, job.total_steps),
        "loss": "" if job.value is None else f"{job.value:.4g}",
        "share": "" if job.share is None else f"{job.share:.0%}",
        "cores used": "" if job.cores is None else f"{job.cores:.2f}",
        "time": duration(_since_submitted(job)),
        "ETA": _eta(job),
        "reason": clean(with_clock(job.reason, reason_at, job.began)).replace("\n", " "),
    }
    left_out = {"run": not several, "user": not users}
    return {name: cell for name, cell in cells.items() if not left_out.get(name)}


def _fitted(rows: Sequence[dict[str, str]], width: int) -> list[str]:
    """Return the columns that fit into one line, and shorten names and reasons in the rows."""
    if not rows:
        return ["job", "phase", "reason"]
    widths = {name: max(cell_len(name), *(cell_len(r[name]) for r in rows)) for name in rows[0]}
    wish = widths["reason"]
    widths["reason"] = min(wish, 2 * REASON)

    def over() -> int:
        return sum(widths.values()) + GAP * (len(widths) - 1) - width

    if over() > 0:
        widths["job"] = max(min(widths["job"], NAME), widths["job"] - over())
    widths["reason"] = min(wish, REASON)
    for name in DROPPED:
        if over() > 0:
            widths.pop(name, None)
    widths["job"] = max(1, widths["job"] - max(0, over()))
    if "reason" in widths:
        widths["reason"] = min(wish, widths["reason"] - over())
    for row in rows:
        row |= {name: _cut(row[name], widths[name]) for name in ("job", "reason") if name in widths}
    return list(widths)


def _cut(text: str, width: int) -> str:
    """Return a text that is not longer than this.

    >>> _cut("train-resnet", 8), _cut("train", 8)
    ('train-r…', 'train')
    """
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def show_history(runs: "Sequence[PastRun]") -> None:
    table = plain_table("run", "state", "policy", no_wrap=True)
    table.add_column("mean", justify="right", no_wrap=True)
    table.add_column("jobs", overflow="fold")
    table.add_column("what", overflow="fold", min_width=20)
    for run in runs:
        jobs = ", ".join(f"{count} {outcome}" for outcome, count in run.outcomes.items())
        row = (run.run, run.state, run.policy, duration(run.mean_completion_s), jobs, run.what)
        table.add_row(*map(escape, row))
    SafeConsole().print(table, highlight=False)


def _since_submitted(job: JobStatus) -> Seconds | None:
    """Return the time from submission to the end, or until now."""
    end = job.finished_s if job.ended else job.at_s or None
    return None if end is None or end < job.submitted_s else end - job.submitted_s


def _eta(job: JobStatus) -> str:
    if job.eta_s is None or job.ended:
        return ""
    bound = "≤" if job.eta_s == job.guarantee_s else ""
    return bound + duration(max(0.0, job.eta_s - job.at_s))


def duration(seconds: Seconds | None) -> str:
    """Return a duration in the two largest units.

    >>> duration(7.26), duration(200), duration(3 * 3600 + 125), duration(None)
    ('7.3 s', '3 min 20 s', '3 h 2 min', '')
    """
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
