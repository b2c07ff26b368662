"""`headway demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Data
from headway.cli.terminal import echo

if TYPE_CHECKING:
    from headway.runtime.run import Run


def demo(
    pairs: Annotated[int, typer.Option(min=1, help="Number of runs of each policy.")] = 2,
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="The policy to compare with fair.")
    ] = "headway",
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
    """
    from headway.cli.display import Display
    from headway.cli.output import print_json, show_results
    from headway.demo import (
        MOST,
        Progress,
        alternate,
        compare,
        describe,
        fit_workload,
        measure_speed,
        write_demo,
    )
    from headway.runtime.result import to_json
    from headway.runtime.run_directory import data_folder

    where = data_folder(data)
    workload = where / "demo.yaml"
    each = fit_workload(workload, measure_speed())
    progress = Progress(runs=2 * pairs, each=each)
    if not as_json:
        about = f"{2 * pairs} runs of five training jobs on one core, about {each:.0f} s each"
        echo(about, err=True)

    def watch(run: "Run") -> Display:
        progress.next()
        return Display(run, quiet=as_json, above=progress.show)

    results, folders = alternate(workload, ["fair", policy], pairs, where, watch, most=pairs * MOST)
    if len(results[0]) < pairs:
        slow = "the machine is slower than measured at the start"
        echo(f"ended after {len(results[0])} of {pairs} pairs of runs: {slow}", err=True)
    page = html or where / "demo.html"
    write_demo(page, results, folders, workload)
    found = compare(results)
    if as_json:
        about_noise = {"runs": len(results[0]), "noise": found.noise}
        print_json([{**to_json([r]), **about_noise} for r in found.typical])
        return
    show_results([[r] for r in found.typical], found.margin)
    echo(describe(found))
    echo(f"report: {page}")
