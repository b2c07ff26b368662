"""`headway bench`."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.terminal import print_json


def bench(
    name: Annotated[str, typer.Argument(help="A benchmark, or `all`.")] = "all",
    traces: Annotated[
        Path | None,
        typer.Argument(
            help="For `traces`: the directory of the trace files.",
            envvar="HEADWAY_TRACES",
            show_default=False,
        ),
    ] = None,
    draw: Annotated[
        str,
        typer.Option(
            help="For `promises` and `gangs`: draw 40 seeds from this text, such as a commit.",
            show_default=False,
        ),
    ] = "",
    minutes: Annotated[
        float, typer.Option(min=1.0, help="For `soak`: its length; the bars are for 90 minutes.")
    ] = 90.0,
    pairs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="For `distributed` and `submissions`: rounds of all policies, some minutes each.",
            show_default="1 and 3",
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with charts.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per benchmark.")] = False,
) -> None:
    """Run benchmarks of this program on this machine and judge them by their bars.

    CPU times are scaled to a reference machine with 1.5 million heap operations a second; the
    rate of this machine (`score`) is measured in the same run. The exit code is 1 if a bar is
    missed.

        headway bench sim
        headway bench promises --draw "$(git rev-parse HEAD)"
        headway bench traces FOLDER
        headway bench soak --minutes 3
        headway bench submissions --pairs 5
    """
    from headway.bench.suite import BENCHES, ROUNDS, SIMULATED, SOAK, TRACES, run
    from headway.cli.measurement_tables import show_bench
    from headway.cli.output import progress_bar
    from headway.errors import UnknownName

    known = [*BENCHES, *SIMULATED, *([TRACES] if traces or name == TRACES else [])]
    known += [name] if name in (SOAK, *ROUNDS) else []
    if name != "all" and name not in known:
        rest = [TRACES, SOAK, *ROUNDS, "all"]
        raise UnknownName("benchmark", name, [*BENCHES, *SIMULATED, *rest])
    chosen = known if name == "all" else [name]
    results, charts = [], []
    with progress_bar("measuring", quiet=as_json) as progress:
        for done, each in enumerate(chosen):
            progress(done, len(chosen))
            found, chart = run(each, traces, draw, minutes, pairs)
            results.append(found)
            charts.append(chart)
    if html:
        from headway.bench.results_page import write_bench

        write_bench(html, results, charts)
    if as_json:
        print_json(results if name == "all" else results[0])
    else:
        for result in results:
            show_bench(result)
    if not all(figure["pass"] for result in results for figure in result["figures"]):
        raise typer.Exit(1)
