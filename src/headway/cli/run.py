"""`headway run`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headway.runtime.run import Run

Data = Annotated[
    Path | None,
    typer.Option(help="Data folder.", envvar="HEADWAY_DATA", show_default="~/.local/share/headway"),
]


def run(
    workload: Annotated[
        Path | None, typer.Argument(help="YAML file, kind: Workload.", show_default=False)
    ] = None,
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="See `headway policies`.")
    ] = "headway",
    observe_only: Annotated[
        bool, typer.Option("--observe-only", help="Decide and record everything, change nothing.")
    ] = False,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Cut the machine into so many equal nodes."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(help="Go on with this run (`latest`): its jobs outlive a crash of Headway."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report here too.")] = None,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Run WORKLOAD for real on this machine: processes, shares, reports, and a page at the end.

    Needs nothing but Python: shares are enforced by cgroups where they are ours to use, else by
    nice and pacing. Ctrl-C ends the jobs; if Headway itself is killed they go on.

        headway run workloads/five-jobs.yaml --policy headway
        headway run --resume latest
    """
    from headway.errors import ConfigError
    from headway.runtime.folder import data_folder
    from headway.runtime.run import begin
    from headway.runtime.run import resume as take_up
    from headway.spec.reading import read_workload

    where = data_folder(data)
    if (workload is None) == (resume is None):
        raise ConfigError("give a workload, or --resume RUN", hint="headway run --help")
    if resume is not None:
        follow(take_up(where, resume), html=html, as_json=as_json)
    elif workload is not None:
        read = read_workload(workload)
        live = begin(read, workload, policy, data=where, observe_only=observe_only, nodes=nodes)
        follow(live, html=html, as_json=as_json)


def follow(live: "Run", *, html: Path | None = None, as_json: bool = False) -> None:
    """See a run to its end, and say how it went."""
    from headway.cli.display import Display
    from headway.cli.render import as_json as to_text
    from headway.cli.render import show_outcomes, show_results
    from headway.study.runs import would_have, write_run

    with Display(live, quiet=as_json) as display:
        result = live.go(display.show)
    page = write_run(live.folder)
    if html:
        html.write_bytes(page.read_bytes())
    if as_json:
        typer.echo(to_text([live.plain(result)]))
    else:
        show_results([[result]])
        show_outcomes(live)
        if live.observed:
            typer.echo(would_have(live.folder))
        typer.echo(f"pictures: {html or page}")
    if live.interrupted:
        raise typer.Exit(130)
    if any(job.outcome != "succeeded" for job in result.per_job):
        raise typer.Exit(1)
