"""`headway adopt`."""

from typing import Annotated

import typer

from headway.cli.options import Data, Engine, ObserveOnly, Policy


def adopt(
    what: Annotated[
        list[str] | None,
        typer.Argument(help="Process IDs, or names of containers.", show_default=False),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="All containers with this label, including those started later."),
    ] = None,
    policy: Policy = "headway",
    observe_only: ObserveOnly = False,
    engine: Engine = None,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Manage processes or containers that already run, until they exit or you press Ctrl-C.

    Processes are named by process ID; Headway reads their loss from the file that their output is
    redirected to, if there is one. Docker containers are named by name or label; Headway reads
    their log. Headway never stops what it adopted: after Ctrl-C it continues without limits.

        headway adopt 4711 4712
        headway adopt trainer-1 --policy flowcon
        headway adopt --label headway.dev/job
    """
    from headway.cli.run import follow
    from headway.runtime.run_directory import data_folder
    from headway.runtime.start import adopt_named

    run = adopt_named(
        what or (),
        label,
        policy,
        data=data_folder(data),
        observe_only=observe_only,
        engines=tuple(engine or ()),
    )
    follow(run, as_json=as_json)
