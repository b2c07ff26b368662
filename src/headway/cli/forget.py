"""`headway forget`."""

from typing import Annotated

import typer

from headway.cli.options import Data
from headway.cli.terminal import echo


def forget(
    pattern: Annotated[
        str, typer.Argument(help="Part of the command; may contain * and ?.", show_default="all")
    ] = "",
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the commands as JSON.")] = False,
) -> None:
    """Forget what earlier runs showed of jobs: size, cost of a step, demand and peak memory.

    `headway run` uses it when the same command runs again. Forget it when the data of a script has
    changed: a change of the script itself is noticed.

        headway forget
        headway forget train.py
        headway forget 'train.py --epochs *'
    """
    from headway.cli.output import print_json
    from headway.runtime.earlier_runs import EarlierRuns
    from headway.runtime.run_directory import data_folder

    found = EarlierRuns(data_folder(data)).forget(pattern)
    if as_json:
        print_json(found)
        return
    for command in found:
        echo(command)
    echo(f"{len(found)} kind{'s' * (len(found) != 1)} of job forgotten")
