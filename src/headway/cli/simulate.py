"""`headway simulate`."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.terminal import echo, print_json


def simulate(
    workload: Annotated[
        Path | None,
        typer.Argument(help="YAML file, kind: Workload or TrainingJob.", show_default=False),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            help="A policy to compare; may be repeated, the first is the baseline. "
            "Settings follow a colon: flowcon:paper,threshold=0.1",
            show_default="fair, headway; with --trace: fifo, tiresias",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(min=1, max=10_000, help="Number of seeds; the same seed gives the same run."),
    ] = 1,
    no_backoff: Annotated[
        bool, typer.Option("--no-backoff", help="FlowCon keeps its interval after convergence.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a report with charts of the first seed.")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="Write every cycle as a JSON line (one seed only). With several policies, one "
            "file per policy: NAME-POLICY."
        ),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Simulate the jobs of this trace file, not a workload.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="Trace format: philly, itp or swf.", show_default="philly"),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Trace: number of nodes.", show_default="128"),
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option(min=1, help="Trace: GPUs (swf: cores) per node.", show_default="4"),
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=1, help="Trace: only this many jobs.", show_default="all")
    ] = None,
    shortest: Annotated[
        float | None,
        typer.Option(min=0, help="Trace: omit jobs shorter than this, in s.", show_default="0"),
    ] = None,
    largest: Annotated[
        int | None,
        typer.Option(
            min=1, help="Trace: omit jobs that need more devices.", show_default="no limit"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per policy.")] = False,
) -> None:
    """Simulate WORKLOAD under each policy and seed, and print completion times.

    Needs no container and no cluster. The policies and the loop are those of a real run; only the
    backend is simulated.

        headway simulate workloads/three-jobs.yaml --policy fair --policy headway --html out.html
        headway simulate --trace philly.csv --format philly --first 5000 --shortest 60 --largest 32
    """
    from headway.cli.output import progress_bar
    from headway.cli.result_table import show_results
    from headway.report.simulation import SimulationOptions, journals, run_simulation
    from headway.runtime.result import to_json

    options = SimulationOptions(
        workload=workload,
        trace=trace,
        trace_options={"format": form, "nodes": nodes, "devices": devices, "first": first,
                       "shortest": shortest, "largest": largest},
        policies=policy or (),
        seeds=seeds,
        backoff=not no_backoff,
        html=html,
        journal=journal,
    )  # fmt: skip
    with progress_bar("simulating", quiet=as_json) as progress:
        results = run_simulation(options, progress)
    if as_json:
        print_json([to_json(r) for r in results])
        return
    show_results(results)
    written = journals(options, results)
    if written:
        echo(f"journal{'s' * (len(written) > 1)}: {', '.join(map(str, written))}")
    if html:
        echo(f"report: {html}")
