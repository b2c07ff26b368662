"""`headway top`."""

from typing import Annotated

import typer

from headway.cli.options import ActiveRun, AsJson, Data


def top(
    run: ActiveRun = "",
    every: Annotated[
        float, typer.Option(min=0.2, max=60, help="Seconds between two updates.")
    ] = 1.0,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show the jobs of the active runs, live, with keys to pause, cancel and explain a job.

    With `--json`, print the jobs once, as `headway ps --json` does.

        headway top
        headway top --run latest --json
    """
    if as_json:
        from headway.cli.jobs import ps

        ps(run, data=data, as_json=True)
        return
    from headway.cli.top_screen import show
    from headway.errors import ConfigError
    from headway.runtime.api_address import api_address
    from headway.runtime.run_directory import data_folder

    if not run and (server := api_address(data)):
        raise ConfigError(
            "headway top is for your own runs and server", where=str(server), hint="use headway ps"
        )
    show(data_folder(data), run, every)
