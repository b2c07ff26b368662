"""`headway workload expand`."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Work with workload files.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Work with workload files."""


@app.command()
def expand(
    workload: Annotated[
        Path, typer.Argument(help="YAML file, kind: Workload.", show_default=False)
    ],
    seed: Annotated[
        int | None, typer.Option(help="Draw with this seed.", show_default="the file's")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of YAML.")] = False,
) -> None:
    """Write out every job of WORKLOAD, generated arrivals included, as a workload of its own.

    headway workload expand workloads/ten-jobs.yaml --seed 3 > ten-3.yaml
    """
    from headway.cli.output import as_json as to_text
    from headway.sim.build import to_scenario
    from headway.spec.arrivals import expand as written_out
    from headway.spec.arrivals import plain, written
    from headway.spec.load import read_workload

    read = read_workload(workload)
    to_scenario(read, seed=seed, path=workload)  # what is written out should also run
    whole = written_out(read, seed)
    typer.echo(to_text(plain(whole)) if as_json else written(whole), nl=as_json)
