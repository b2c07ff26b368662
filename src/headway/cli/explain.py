"""`headway explain` and `headway report`: a run, afterwards or while it goes on."""

from typing import Annotated

import typer

from headway.cli.run import Data

RunName = Annotated[str, typer.Option("--run", help="Which run: its name, or `latest`.")]


def explain(
    job: Annotated[str, typer.Argument(help="The job's name.", show_default=False)],
    run: RunName = "latest",
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object an event.")] = False,
) -> None:
    """Tell the story of JOB: what was seen of it, what was decided about it, and why.

    headway explain vae --run latest
    """
    from dataclasses import asdict

    from headway.cli.output import as_json as to_text
    from headway.cli.output import show_story
    from headway.report.explain import story
    from headway.runtime.run_directory import RunDirectory, data_folder

    told = story(RunDirectory.find(data_folder(data), run), job)
    if as_json:
        typer.echo(to_text([asdict(event) for event in told]))
    else:
        show_story(told)


def report(
    run: Annotated[str, typer.Argument(help="Its name, its folder, or `latest`.")] = "latest",
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="The run's result.")] = False,
) -> None:
    """Print how RUN went, and draw its page anew.

    headway report latest
    """
    from headway.cli.output import as_json as to_text
    from headway.cli.output import show_outcomes, show_results
    from headway.report.run_page import outcomes, read_plain, read_result, write_run
    from headway.runtime.run_directory import RunDirectory, data_folder

    folder = RunDirectory.find(data_folder(data), run)
    result = read_result(folder)
    page = write_run(folder)
    if as_json:
        typer.echo(to_text([read_plain(folder)]))
        return
    show_results([[result]])
    show_outcomes(outcomes(folder))
    typer.echo(f"pictures: {page}")
