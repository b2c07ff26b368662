"""`headway demo`."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.run import Data


def demo(
    pairs: Annotated[int, typer.Option(min=1, help="How often each policy runs.")] = 2,
    policy: Annotated[str, typer.Option("--policy", "-p", help="Against fair.")] = "headway",
    html: Annotated[
        Path | None, typer.Option(help="Where the report goes.", show_default="the data folder")
    ] = None,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object a policy.")] = False,
) -> None:
    """Train five small models on this machine, under fair sharing and under Headway in turn.

    Real processes, no container, no GPU, no rights needed; two to three minutes. Ends in two
    sentences and a page with loss curves, CPU shares over time and a Gantt chart.

        headway demo --html demo.html
    """
    from headway.cli.display import Display
    from headway.cli.output import as_json as to_text
    from headway.cli.output import show_results
    from headway.demo import alternate, demo_workload, sentences, write_demo
    from headway.runtime.result import to_json
    from headway.runtime.run_directory import data_folder

    where, workload = data_folder(data), demo_workload()
    if not as_json:
        typer.echo(f"{2 * pairs} runs of five trainings on one core, about 40 s each", err=True)
    policies = ["fair", policy]
    results, folders = alternate(
        workload, policies, pairs, where, lambda run: Display(run, quiet=as_json)
    )
    page = html or where / "demo.html"
    write_demo(page, results, folders, workload)
    if as_json:
        typer.echo(to_text([to_json(r) for r in results]))
        return
    show_results(results)
    typer.echo(sentences(results))
    typer.echo(f"pictures: {page}")
