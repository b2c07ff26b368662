"""`headway reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.terminal import echo, print_json


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Such as E-F1, E-S6 or E-D1.", show_default="all"),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of draws of each workload.")] = 10,
    html: Annotated[Path | None, typer.Option(help="Write a page with the papers' charts.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the tables, as in docs/papers/reproduced.md.")
    ] = None,
    readings: Annotated[
        bool, typer.Option("--readings", help="Also read otherwise what the papers leave open.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One object per experiment.")] = False,
) -> None:
    """Run the papers' experiments and compare the results with the published figures.

    All policies run the same jobs, and all experiments share one table of models and costs. The
    output lists the claims that do not agree; the exit code is 0 either way.

        headway reproduce E-F1 E-F3 --html reproduced.html
        headway reproduce E-D1 E-D2 E-K1 --html distributed.html
    """
    from headway.cli.measurement_tables import show_reproductions
    from headway.cli.output import progress_bar
    from headway.papers.experiments import select
    from headway.papers.readings import read_otherwise
    from headway.papers.render.experiments_page import write_reproductions
    from headway.papers.render.figures import to_json
    from headway.papers.render.markdown import write_markdown
    from headway.papers.runner import reproduce as run

    with progress_bar("reproducing", quiet=as_json) as progress:
        found = run(select(names or []), range(seeds), progress)
    outcomes = read_otherwise(found) if readings else []
    if html:
        write_reproductions(html, found, outcomes)
    if markdown:
        write_markdown(markdown, found, outcomes)
    if as_json:
        print_json([to_json(one) for one in found])
        return
    show_reproductions(found, outcomes)
    for path in filter(None, (html, markdown)):
        echo(f"written: {path}")
