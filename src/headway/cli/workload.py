"""`headway workload expand`."""

from typing import Annotated

import typer

from headway.cli.options import WorkloadFile
from headway.cli.terminal import echo, print_json

app = typer.Typer(help="Work with workload files.", no_args_is_help=True)


@app.command()
def expand(
    workload: WorkloadFile,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the generated arrivals.", show_default="the file's")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of YAML.")] = False,
) -> None:
    """Print WORKLOAD with its generated arrivals as a list of jobs.

    headway workload expand workloads/ten-jobs.yaml --seed 3 > ten-3.yaml
    """
    from headway.sim.build import to_scenario
    from headway.spec.arrivals import expand as expand_arrivals
    from headway.spec.arrivals import to_plain, to_yaml
    from headway.spec.load import read_workload

    read = read_workload(workload)
    to_scenario(read, seed=seed, path=workload)  # refuse what could not be simulated
    whole = expand_arrivals(read, seed)
    print_json(to_plain(whole)) if as_json else echo(to_yaml(whole), nl=False)
