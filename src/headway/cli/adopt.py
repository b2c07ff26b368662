"""`headway adopt`."""

from typing import Annotated

import typer

from headway.cli.run import Data, Engine


def adopt(
    what: Annotated[
        list[str] | None,
        typer.Argument(help="Process numbers, or names of containers.", show_default=False),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="All containers with this label, also those that come later."),
    ] = None,
    policy: Annotated[str, typer.Option("--policy", "-p", help="See `headway policies`.")] = (
        "headway"
    ),
    observe_only: Annotated[
        bool, typer.Option("--observe-only", help="Decide and record everything, change nothing.")
    ] = False,
    engine: Engine = None,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Look after what somebody else started, until it ends or Ctrl-C lets it go.

    Processes by their number: their loss is read from the file that their output goes into, if it
    goes into one. Docker containers by name or label: theirs from their log. Nothing is ever
    stopped, and whoever is let go runs on as before.

        headway adopt 4711 4712
        headway adopt trainer-1 --policy flowcon
        headway adopt --label headway.dev/job
    """
    from headway.backend.docker import adopt as containers
    from headway.backend.local.adopt import to_jobs
    from headway.cli.run import follow
    from headway.errors import ConfigError
    from headway.runtime.run import adopt as look_after
    from headway.runtime.run_directory import data_folder
    from headway.runtime.targets import Docker, Engines

    names = what or []
    if bool(names) == (label is not None):
        raise ConfigError("name processes or containers, or --label KEY", hint="adopt --help")
    engines = None
    if names and all(name.isdigit() for name in names):
        jobs = to_jobs([int(name) for name in names])
    elif any(name.isdigit() for name in names):
        raise ConfigError(
            "processes and containers are not adopted by one run", hint="one command for each"
        )
    else:
        engines = Engines.of(Docker(tuple(engine or ())), None, label or "")
        found = engines.engines
        jobs = containers.by_label(found, label) if label else containers.by_name(found, names)
    live = look_after(
        jobs, policy, data=data_folder(data), observe_only=observe_only, engines=engines
    )
    follow(live, as_json=as_json)
