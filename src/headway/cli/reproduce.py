"""`headway reproduce`."""

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Such as E-F1 or E-S6.", show_default="all"),
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
    """
    from headway.cli.progress import shown
    from headway.cli.render import as_json as to_text
    from headway.study.experiments import chosen
    from headway.study.reproduce import plain
    from headway.study.reproduce import reproduce as run

    wanted = chosen(names or [])
    with shown("reproducing", quiet=as_json) as progress:
        found = run(wanted, range(seeds), progress)
    if html:
        from headway.study.reproduced_page import write_page

        write_page(html, found)
    if markdown:
        from headway.study.reproduced_text import write_markdown

        write_markdown(markdown, found)
    if as_json:
        typer.echo(to_text([plain(one) for one in found]))
        return
    from headway.cli.reproduced import show_reproduced

    show_reproduced(found)
    for path in filter(None, (html, markdown)):
        typer.echo(f"written: {path}")
