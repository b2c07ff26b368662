"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperArgument, TyperCommand


class Command(TyperCommand):
    """Shows the names of arguments as the text of its help does: JOB."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for argument in self.params:
            if isinstance(argument, TyperArgument) and argument.metavar is None and argument.name:
                argument.metavar = argument.name.upper() + "..." * (argument.nargs == -1)


Data = Annotated[
    Path | None,
    typer.Option(
        help="Data directory.", envvar="HEADWAY_DATA", show_default="~/.local/share/headway"
    ),
]
Engine = Annotated[
    list[str] | None,
    typer.Option(
        help="Docker: an engine to use as a node, NAME=URL; may be repeated.",
        show_default="DOCKER_HOST, else unix:///var/run/docker.sock",
    ),
]
ObserveOnly = Annotated[
    bool,
    typer.Option("--observe-only", help="Start jobs, but only record all other decisions."),
]
Policy = Annotated[str, typer.Option("--policy", "-p", help="A policy; see `headway policies`.")]
ActiveRun = Annotated[
    str,
    typer.Option("--run", help="The run: its name, or `latest`.", show_default="the active runs"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Steps = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Total steps of the command, if it prints its step without the total.",
        show_default=False,
    ),
]
WorkloadFile = Annotated[
    Path, typer.Argument(help="YAML file, kind: Workload.", show_default=False)
]
Backend = Annotated[
    Literal["", "kubernetes"],
    typer.Option(
        help="`kubernetes`: jobs that an operator manages.", show_default="a run on this machine"
    ),
]
JobsNamespace = Annotated[
    str,
    typer.Option(help="Kubernetes: namespace of the job.", show_default="the kubeconfig's"),
]
Kubeconfig = Annotated[
    str, typer.Option(help="Kubernetes: path of the kubeconfig.", show_default="as kubectl")
]
Home = Annotated[
    str,
    typer.Option(
        help="Kubernetes: namespace of the operator.", envvar="HEADWAY_OPERATOR_NAMESPACE"
    ),
]
