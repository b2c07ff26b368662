"""`headway calibrate`."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import WorkloadFile
from headway.cli.terminal import echo


def calibrate(
    workload: WorkloadFile,
    to: Annotated[
        Path | None, typer.Option(help="Output file.", show_default="WORKLOAD.measured.yaml")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Measure each job for at least this many seconds.")
    ] = 30.0,
    most: Annotated[
        float,
        typer.Option(min=0.1, help="Stop a job after this many seconds and extrapolate its curve."),
    ] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="One object per kind of job.")] = False,
) -> None:
    """Run each job of WORKLOAD alone and write a workload with the measured profiles.

    A profile holds the job's work, the CPU it can use, its loss curve, its memory, and the cost of
    a checkpoint and of a restart. The output can be simulated and run. Use an otherwise idle
    machine.

        headway calibrate workloads/five-jobs.yaml
        headway simulate workloads/five-jobs.measured.yaml
    """
    from headway.calibrate import calibrate as measure
    from headway.cli.output import print_json, progress_bar, show_measured
    from headway.spec.load import read_workload

    output = to or workload.with_suffix(".measured.yaml")
    read = read_workload(workload)
    with progress_bar("measuring", quiet=as_json) as progress:
        found = measure(read, workload, output, seconds=seconds, most=most, progress=progress)
    if as_json:
        print_json([f.plain() for f in found])
    else:
        show_measured(found)
        echo(f"written: {output}; next: headway simulate {output}")
