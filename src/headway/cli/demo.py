"""`headway demo`."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Data


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

    Runs real processes for two to three minutes; needs no container, no GPU and no privileges.
    Prints a summary and writes a page with loss curves, CPU shares over time and a Gantt chart.

        headway demo --html demo.html
    """
    from headway.cli.display import Display
    from headway.cli.output import print_json, show_results
    from headway.demo import alternate, demo_workload, describe, write_demo
    from headway.runtime.result import to_json
    from headway.runtime.run_directory import data_folder

    where, workload = data_folder(data), demo_workload()
    if not as_json:
        typer.echo(f"{2 * pairs} runs of five training jobs on one core, about 40 s each", err=True)
    results, folders = alternate(
        workload, ["fair", policy], pairs, where, lambda run: Display(run, quiet=as_json)
    )
    page = html or where / "demo.html"
    write_demo(page, results, folders, workload)
    if as_json:
        print_json([to_json(r) for r in results])
        return
    show_results(results)
    typer.echo(describe(results))
    typer.echo(f"report: {page}")
