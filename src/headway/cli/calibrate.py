"""`headway calibrate`."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.terminal import echo, print_json
from headway.errors import ConfigError


def calibrate(
    workload: Annotated[
        Path | None, typer.Argument(help="YAML file, kind: Workload.", show_default=False)
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            help="Output file.", show_default="WORKLOAD.measured.yaml; --machine: machine.yaml"
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="Measure each job for at least this many seconds; --machine: length of a round.",
            show_default="30; --machine: 1",
        ),
    ] = None,
    most: Annotated[
        float,
        typer.Option(min=0.1, help="Stop a job after this many seconds and extrapolate its curve."),
    ] = 300.0,
    machine: Annotated[
        bool,
        typer.Option(
            "--machine", help="Measure what it costs this machine to run several trainings at once."
        ),
    ] = False,
    cores: Annotated[
        int | None,
        typer.Option(min=1, help="--machine: cores to use.", show_default="all of the machine"),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="--machine: threads of each training.")] = 1,
    repetitions: Annotated[int, typer.Option(min=1, help="--machine: rounds of each kind.")] = 5,
    torch: Annotated[
        str | None,
        typer.Option(
            metavar="PYTHON",
            help="--machine: measure PyTorch trainings, with this interpreter.",
            show_default="numpy trainings",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per kind of job.")] = False,
) -> None:
    """Run each job of WORKLOAD alone and write a workload with the measured profiles.

    A profile holds the job's work, the CPU it can use, its loss curve, its memory, and the cost of
    a checkpoint and of a restart. Of a distributed job it holds the speed, by workers, their CPU
    and their placement. The output can be simulated and run. Use an otherwise idle machine.

        headway calibrate workloads/five-jobs.yaml
        headway simulate workloads/five-jobs.measured.yaml
        headway calibrate --machine
    """
    if machine:
        output = to or Path("machine.yaml")
        _machine(output, seconds or 1.0, cores, threads, repetitions, torch, as_json=as_json)
    elif workload is None:
        raise ConfigError("no workload", hint="headway calibrate WORKLOAD, or --machine")
    else:
        output = to or workload.with_suffix(".measured.yaml")
        _jobs(workload, output, seconds or 30.0, most, as_json=as_json)


def _jobs(workload: Path, to: Path, seconds: float, most: float, *, as_json: bool) -> None:
    from headway.calibrate import Measurement
    from headway.calibrate import calibrate as measure
    from headway.calibrate.speed import SpeedMeasurement, describe
    from headway.cli.measurement_tables import show_measured
    from headway.cli.output import progress_bar
    from headway.spec.load import read_workload

    read = read_workload(workload)
    with progress_bar("measuring", quiet=as_json) as progress:
        found = measure(read, workload, to, seconds=seconds, most=most, progress=progress)
    if as_json:
        print_json([f.plain() for f in found])
    else:
        show_measured([one for one in found if isinstance(one, Measurement)])
        for one in found:
            if isinstance(one, SpeedMeasurement):
                echo(describe(one))
        echo(f"written: {to}; next: headway simulate {to}")


def _machine(
    to: Path,
    seconds: float,
    cores: int | None,
    threads: int,
    repetitions: int,
    torch: str | None,
    *,
    as_json: bool,
) -> None:
    import os
    import shutil

    import yaml

    from headway.cli.measurement_tables import show_machine
    from headway.cli.output import progress_bar
    from headway.machine import measure_machine

    there = len(os.sched_getaffinity(0))
    if cores is not None and cores > there:
        raise ConfigError(f"this machine has {there} cores, not {cores}", hint="--cores")
    if torch is not None and shutil.which(torch) is None:
        raise ConfigError(f"{torch} is not a program", hint="--torch /usr/bin/python3")
    with progress_bar("measuring", quiet=as_json) as progress:
        found = measure_machine(
            cores or there,
            threads=threads,
            seconds=seconds,
            repetitions=repetitions,
            progress=progress,
            torch=torch,
        )
    to.write_text(yaml.safe_dump(found.plain(), sort_keys=False), encoding="utf-8")
    if as_json:
        print_json(found.plain())
    else:
        show_machine(found)
        echo(f"written: {to}; to simulate with these costs, name them in a workload")
