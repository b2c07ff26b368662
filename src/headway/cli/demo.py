"""`headway demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Data
from headway.cli.terminal import echo, print_json

if TYPE_CHECKING:
    from headway.runtime.run import Run


def demo(
    pairs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of runs of each policy.", show_default="2; distributed: 1"
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="The policy to compare with fair.")
    ] = "headway",
    distributed: Annotated[
        bool,
        typer.Option(
            "--distributed",
            help="Three elastic jobs on four virtual nodes: spread, dragon and headway.",
        ),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Report file.", show_default="demo.html in the data directory"),
    ] = None,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per policy.")] = False,
) -> None:
    """Train five small models on this machine, alternating between fair sharing and Headway.

    Measures for two seconds how fast this machine trains, and sizes the jobs so that a run takes
    about half a minute. Runs real processes; needs no container, no GPU and no privileges. Prints a
    summary and writes a page with loss curves, CPU shares over time and a Gantt chart.

        headway demo --html demo.html

    With --distributed, three jobs with a parameter server and elastic workers share four virtual
    nodes. The Gantt charts show workers that come and go.

        headway demo --distributed
    """
    from headway.cli.display import Display
    from headway.cli.result_table import show_results
    from headway.demo import (
        DISTRIBUTED_POLICIES,
        MOST,
        Progress,
        alternate,
        compare,
        describe,
        fit_distributed,
        fit_workload,
        measure_speed,
        write_demo,
    )
    from headway.runtime.result import to_json
    from headway.runtime.run_directory import data_folder

    where = data_folder(data)
    workload = where / ("distributed.yaml" if distributed else "demo.yaml")
    policies = DISTRIBUTED_POLICIES if distributed else ("fair", policy)
    fit, jobs = fit_workload, "five training jobs on one core"
    if distributed:
        fit, jobs = fit_distributed, "three distributed jobs on four virtual nodes"
    pairs = pairs or (1 if distributed else 2)
    each = fit(workload, measure_speed())
    progress = Progress(runs=len(policies) * pairs, each=each)
    if not as_json:
        echo(f"{progress.runs} runs of {jobs}, about {each:.0f} s each", err=True)

    def watch(run: "Run") -> Display:
        progress.next()
        return Display(run, quiet=as_json, above=progress.show)

    most = pairs * len(policies) * MOST / 2
    results, folders = alternate(workload, policies, pairs, where, watch, most=most)
    if len(results[0]) < pairs:
        slow = "the machine is slower than measured at the start"
        echo(f"ended after {len(results[0])} of {pairs} pairs of runs: {slow}", err=True)
    page = html or workload.with_suffix(".html")
    fills = not distributed
    write_demo(page, results, folders, workload, fills=fills)
    found = compare(results, fills=fills)
    if as_json:
        about_noise = {"runs": len(results[0]), "noise": found.noise}
        print_json([{**to_json([r]), **about_noise} for r in found.typical])
        return
    show_results([[r] for r in found.typical], found.margin)
    echo(describe(found))
    echo(f"report: {page}")
