"""`headway adopt`."""

from typing import Annotated

import typer

from headway.cli.run import Data


def adopt(
    pids: Annotated[
        list[int], typer.Argument(help="Processes that are running.", show_default=False)
    ],
    policy: Annotated[str, typer.Option("--policy", "-p", help="See `headway policies`.")] = (
        "headway"
    ),
    observe_only: Annotated[
        bool, typer.Option("--observe-only", help="Decide and record everything, change nothing.")
    ] = False,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Look after processes that somebody else started, until they end or Ctrl-C lets them go.

    Their loss is read from the file that their output goes into, if it goes into one. Nothing is
    ever stopped, and whoever is let go runs on as before.

        headway adopt 4711 4712
    """
    from headway.backend.local.adopted import to_jobs
    from headway.cli.run import follow
    from headway.runtime.folder import data_folder
    from headway.runtime.run import adopt as look_after

    jobs = to_jobs(pids)
    live = look_after(jobs, policy, data=data_folder(data), observe_only=observe_only)
    follow(live, as_json=as_json)
