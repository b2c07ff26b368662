"""`headway bench`."""

from pathlib import Path
from typing import Annotated

import typer


def bench(
    name: Annotated[str, typer.Argument(help="Which one, or `all`.")] = "all",
    traces: Annotated[
        Path | None,
        typer.Argument(
            help="For `traces`: the folder that holds them.",
            envvar="HEADWAY_TRACES",
            show_default=False,
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with plots of growth.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object a benchmark.")] = False,
) -> None:
    """Measure this machine and this program, and judge the figures by their bars.

    Bars on CPU time are for a machine whose heap makes 1.5 million pops and pushes a second;
    this machine's rate is measured in the same run (`score`) and the times are scaled by it.
    Exit code 1 if a bar is missed.

        headway bench sim

        headway bench traces FOLDER
    """
    from headway.bench.suite import BENCHES, TRACES, run
    from headway.cli.output import as_json as to_text
    from headway.cli.progress_bar import shown
    from headway.errors import UnknownName

    known = [*BENCHES, TRACES] if traces or name == TRACES else list(BENCHES)
    if name != "all" and name not in known:
        raise UnknownName("benchmark", name, [*BENCHES, TRACES, "all"])
    chosen = known if name == "all" else [name]
    results, plots = [], []
    with shown("measuring", quiet=as_json) as progress:
        for done, each in enumerate(chosen):
            progress(done, len(chosen))
            found, plot = run(each, traces)
            results.append(found)
            plots.append(plot)
    if html:
        from headway.report.comparison import write_bench

        write_bench(html, results, plots)
    if as_json:
        typer.echo(to_text(results if name == "all" else results[0]))
    else:
        from headway.cli.output import show_bench

        for result in results:
            show_bench(result)
    if not all(figure["pass"] for result in results for figure in result["figures"]):
        raise typer.Exit(1)
