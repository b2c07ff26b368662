"""`headway reproduce`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.papers.gang_runner import GangsReproduced
    from headway.papers.runner import Reproduced


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Such as E-F1, E-S6 or E-D1.", show_default="all"),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many draws of each workload.")] = 10,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the pictures of the thesis.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the tables, as docs/papers/reproduced.md has them.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object an experiment.")] = False,
) -> None:
    """Run the papers' experiments again, and print what was published beside what came out.

    Every policy runs on the same drawn jobs, with one table of models and costs for all
    experiments. A figure that does not agree is named; that is no failure of the command.

        headway reproduce E-F1 E-F3 --html reproduced.html
        headway reproduce E-D1 E-D2 E-K1 --html distributed.html
    """
    from headway.cli.output import as_json as to_text
    from headway.cli.progress_bar import shown
    from headway.papers.gang_experiments import named
    from headway.papers.gang_runner import plain_gangs, reproduce_gangs
    from headway.papers.runner import plain
    from headway.papers.runner import reproduce as run

    single, distributed = named(names or [])
    with shown("reproducing", quiet=as_json) as progress:
        found = run(single, range(seeds), progress)
    with shown("reproducing distributed jobs", quiet=as_json) as progress:
        gangs = reproduce_gangs(distributed, range(seeds), progress)
    for path, write in ((html, _write_page), (markdown, _write_markdown)):
        if path:
            write(path, found, gangs)
    if as_json:
        typer.echo(to_text([*map(plain, found), *map(plain_gangs, gangs)]))
        return
    from headway.cli.reproduced import show_gangs, show_reproduced

    if found:
        show_reproduced(found)
    if gangs:
        show_gangs(gangs)
    for path in filter(None, (html, markdown)):
        typer.echo(f"written: {path}")


def _write_page(
    to: Path, found: "Sequence[Reproduced]", gangs: "Sequence[GangsReproduced]"
) -> None:
    from headway.papers.gang_render import gang_sections, write_gang_page
    from headway.papers.html_page import write_page

    if found:
        write_page(to, found, gang_sections(gangs) if gangs else ())
    else:
        write_gang_page(to, gangs)


def _write_markdown(
    to: Path, found: "Sequence[Reproduced]", gangs: "Sequence[GangsReproduced]"
) -> None:
    from headway.papers.gang_render import gang_markdown, write_gang_markdown
    from headway.papers.markdown import write_markdown

    if found:
        write_markdown(to, found, gang_markdown(gangs) if gangs else ())
    else:
        write_gang_markdown(to, gangs)
