"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

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
Steps = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Total steps of the command, if it prints its step without the total.",
        show_default=False,
    ),
]
RunName = Annotated[str, typer.Option("--run", help="The run: its name, or `latest`.")]
WorkloadFile = Annotated[
    Path, typer.Argument(help="YAML file, kind: Workload.", show_default=False)
]
