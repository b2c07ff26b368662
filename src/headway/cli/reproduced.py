"""What was reproduced, as people read it."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headway.papers.gang_render import ARMS as GANG_ARMS
from headway.papers.gang_render import CLAIMS, claim_rows, gangs_verdict
from headway.papers.gang_render import EXPLAINED as GANGS_EXPLAINED
from headway.papers.gang_render import arm_rows as gang_rows
from headway.papers.gang_runner import GangsReproduced
from headway.papers.markdown import ARMS, EXPLAINED, FIGURES, arm_rows, figure_rows, verdict
from headway.papers.runner import Reproduced

_COLOURS = {"agrees": "green", "given": "dim", "misses": "red"}
WIDE = 120
"""Columns that the whole tables take; a narrower terminal gets the columns below."""
NARROW_FIGURES = [0, 1, 2, 3, 5]
NARROW_ARMS = [0, 1, 2, 5, 6, 7, 8, 9, 11]
NARROW_CLAIMS = [0, 1, 3, 4, 5, 8]
NARROW_GANG_ARMS = [0, 1, 2, 3, 4, 5, 6, 9, 10]


def show_reproduced(found: Sequence[Reproduced]) -> None:
    console = Console()
    wide = console.width >= WIDE
    for one in found:
        seeds = len(one.baseline)
        head = f"{one.experiment.id}: {one.publication.about}; {seeds} seed{'s' * (seeds > 1)}"
        console.print(head, style="bold", highlight=False)
        if one.judged:
            columns = range(len(FIGURES)) if wide else NARROW_FIGURES
            console.print(_table(FIGURES, figure_rows(one), columns, left=(0, 1, 4, 5)))
            console.print()
        columns = range(len(ARMS)) if wide else NARROW_ARMS
        console.print(_table(ARMS, arm_rows(one), columns, left=(0,)))
        console.print(f"\n{verdict(one)}\n", highlight=False)
    console.print(EXPLAINED, style="dim", highlight=False)


def show_gangs(found: Sequence[GangsReproduced]) -> None:
    """The experiments with distributed jobs."""
    console = Console()
    wide = console.width >= WIDE
    for one in found:
        seeds = len(one.seeds)
        head = f"{one.experiment.id}: {one.publication.about}; {seeds} seed{'s' * (seeds > 1)}"
        console.print(head, style="bold", highlight=False)
        columns = range(len(CLAIMS)) if wide else NARROW_CLAIMS
        console.print(_table(CLAIMS, claim_rows(one), columns, left=(0, 1, 2, 7, 8)))
        console.print()
        columns = range(len(GANG_ARMS)) if wide else NARROW_GANG_ARMS
        console.print(_table(GANG_ARMS, gang_rows(one), columns, left=(1,)))
        console.print(f"\n{gangs_verdict(one)}\n", highlight=False)
    console.print(GANGS_EXPLAINED, style="dim", highlight=False)


def _table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    columns: Sequence[int],
    left: Sequence[int],
) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for i in columns:
        table.add_column(header[i], justify="left" if i in left else "right", no_wrap=True)
    for row in rows:
        shown = [escape(row[i]) for i in columns]
        colour = _COLOURS.get(row[-1])
        table.add_row(*shown[:-1], f"[{colour}]{shown[-1]}[/]" if colour else shown[-1])
    return table
