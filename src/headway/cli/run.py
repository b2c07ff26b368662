"""`headway run`."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headway.runtime.run import Run

Data = Annotated[
    Path | None,
    typer.Option(help="Data folder.", envvar="HEADWAY_DATA", show_default="~/.local/share/headway"),
]

Image = Annotated[
    str,
    typer.Option(help="Docker, Kubernetes: the image of tasks that name none.", show_default=True),
]
Engine = Annotated[
    list[str] | None,
    typer.Option(
        help="Docker: NAME=URL, an engine that is a node; may be repeated.",
        show_default="DOCKER_HOST, else unix:///var/run/docker.sock",
    ),
]


class Platform(StrEnum):
    LOCAL = "local"
    DOCKER = "docker"
    KUBERNETES = "kubernetes"


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
    backend: Annotated[
        Platform,
        typer.Option(help="What jobs run as: processes here, Docker containers, or pods."),
    ] = Platform.LOCAL,
    engine: Engine = None,
    image: Image = "headway-workloads",
    namespace: Annotated[
        str, typer.Option(help="Kubernetes: where the jobs are.", show_default="the kubeconfig's")
    ] = "",
    resume: Annotated[
        str | None,
        typer.Option(help="Go on with this run (`latest`): its jobs outlive a crash of Headway."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report here too.")] = None,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Run WORKLOAD for real: processes or containers, shares, reports, and a page at the end.

    On this machine it needs nothing but Python: shares are enforced by cgroups where they are ours
    to use, else by nice and pacing. With Docker each engine is a node; on Kubernetes each job is a
    TrainingJob of the cluster. Ctrl-C ends the jobs; if Headway itself is killed they go on.

        headway run workloads/five-jobs.yaml --policy headway
        headway run workloads/five-jobs.yaml --backend docker --image my-image
        headway run workloads/five-jobs.yaml --backend kubernetes --image my-image
        headway run --resume latest
    """
    from headway.errors import ConfigError
    from headway.runtime.run import begin
    from headway.runtime.run import resume as take_up
    from headway.runtime.run_directory import data_folder
    from headway.runtime.targets import Docker, OnCluster
    from headway.spec.load import read_workload

    where = data_folder(data)
    if (workload is None) == (resume is None):
        raise ConfigError("give a workload, or --resume RUN", hint="headway run --help")
    if nodes is not None and backend is not Platform.LOCAL:
        raise ConfigError("--nodes cuts this machine", hint="for Docker list `nodes:` in the file")
    if namespace and backend is not Platform.KUBERNETES:
        raise ConfigError("--namespace is for Kubernetes", hint="add --backend kubernetes")
    if engine and backend is not Platform.DOCKER:
        raise ConfigError("--engine is for Docker", hint="add --backend docker")
    if html:
        _make_room(html)
    if resume is not None:
        follow(take_up(where, resume), html=html, as_json=as_json)
    elif workload is not None:
        docker = Docker(tuple(engine or ()), image) if backend is Platform.DOCKER else None
        live = begin(
            read_workload(workload),
            workload,
            policy,
            data=where,
            observe_only=observe_only,
            nodes=nodes,
            docker=docker,
            cluster=OnCluster(image, namespace) if backend is Platform.KUBERNETES else None,
        )
        follow(live, html=html, as_json=as_json)


def _make_room(html: Path) -> None:
    """Rather now than after hours: the page can be written there."""
    from headway.errors import ConfigError

    try:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.open("ab").close()
    except OSError as error:
        raise ConfigError(
            f"the report cannot be written: {error.strerror}", where=str(html), hint="--html FILE"
        ) from None


def follow(live: "Run", *, html: Path | None = None, as_json: bool = False) -> None:
    """See a run to its end, and say how it went."""
    from headway.cli.display import Display
    from headway.cli.output import as_json as to_text
    from headway.cli.output import show_outcomes, show_results
    from headway.report.run_page import outcomes, would_have, write_run

    with Display(live, quiet=as_json) as display:
        result = live.go(display.show)
    page = write_run(live.folder)
    if html:
        html.write_bytes(page.read_bytes())
    if as_json:
        typer.echo(to_text([live.plain(result)]))
    else:
        show_results([[result]])
        show_outcomes(outcomes(live.folder))
        if live.observed:
            typer.echo(would_have(live.folder))
        typer.echo(f"pictures: {html or page}")
    if live.interrupted:
        raise typer.Exit(130)
    if any(job.outcome != "succeeded" for job in result.per_job):
        raise typer.Exit(1)
