"""`headway calibrate`."""

from pathlib import Path
from typing import Annotated

import typer


def calibrate(
    workload: Annotated[
        Path, typer.Argument(help="YAML file, kind: Workload.", show_default=False)
    ],
    to: Annotated[
        Path | None,
        typer.Option(help="Where to write it.", show_default="WORKLOAD.measured.yaml"),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Measure each job for at least so long.")
    ] = 30.0,
    most: Annotated[
        float, typer.Option(min=0.1, help="Cut a job short after so long, and extend its curve.")
    ] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="One object a kind of job.")] = False,
) -> None:
    """Run each job of WORKLOAD alone, and write down what the simulator needs to know of it.

    That is its work, the CPU that it can use, its loss curve, its memory, and what it costs to
    save it and to start it again. The file that is written can be simulated, and run. Best on a
    machine that has nothing else to do.

        headway calibrate workloads/five-jobs.yaml
        headway simulate workloads/five-jobs.measured.yaml
    """
    from headway.calibrate import calibrate as measure
    from headway.cli.output import as_json as to_text
    from headway.cli.output import show_measured
    from headway.cli.progress_bar import shown
    from headway.spec.load import read_workload

    where = to or workload.with_suffix(".measured.yaml")
    read = read_workload(workload)
    with shown("measuring", quiet=as_json) as progress:
        found = measure(read, workload, where, seconds=seconds, most=most, progress=progress)
    if as_json:
        typer.echo(to_text([f.plain() for f in found]))
    else:
        show_measured(found)
        typer.echo(f"written: {where}; now: headway simulate {where}")
