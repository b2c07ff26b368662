"""Reproduced experiments in the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from headway.cli.output import many
from headway.papers.render.tables import NOTES, Table, arm_table, claim_table, verdict
from headway.papers.runner import Reproduction

_COLOURS = {"agrees": "green", "given": "dim", "misses": "red"}
WIDE = 120
"""Columns of the terminal that complete tables need; a narrower one omits optional columns."""


def show_reproductions(found: Sequence[Reproduction]) -> None:
    console = Console()
    wide = console.width >= WIDE
    for one in found:
        head = f"{one.experiment.id}: {one.publication.about}; {many(len(one.runs.seeds), 'seed')}"
        console.print(head, style="bold", highlight=False)
        if one.judged:
            console.print(_table(claim_table(one), wide=wide))
            console.print()
        console.print(_table(arm_table(one), wide=wide))
        console.print(f"\n{verdict(one)}\n", highlight=False)
    for distributed in dict.fromkeys(one.experiment.distributed for one in found):
        console.print(NOTES[distributed], style="dim", highlight=False)


def _table(content: Table, *, wide: bool) -> RichTable:
    shown = content if wide else content.narrow()
    table = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for column in shown.columns:
        table.add_column(column.title, justify="right" if column.numeric else "left", no_wrap=True)
    for row in shown.rows:
        cells, colour = [escape(cell) for cell in row], _COLOURS.get(row[-1])
        table.add_row(*cells[:-1], f"[{colour}]{cells[-1]}[/]" if colour else cells[-1])
    return table
