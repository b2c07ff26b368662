"""Tables of measurements: benchmarks, profiles, machines and reproduced papers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from headway.cli.output import SafeConsole, plain_table
from headway.cli.terminal import many

if TYPE_CHECKING:
    from headway.calibrate import Measurement
    from headway.machine import Machine
    from headway.papers.readings import Outcome
    from headway.papers.render.tables import Table as Content
    from headway.papers.runner import Reproduction

WIDE = 120
"""Columns of the terminal that complete tables of reproductions need; a narrower one omits optional
columns."""


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
