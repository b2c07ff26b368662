"""`headway forget`."""

from typing import Annotated

import typer

from headway.cli.options import AsJson, Data
from headway.cli.terminal import echo, many, print_json
from headway.errors import ConfigError


def forget(
    pattern: Annotated[
        str, typer.Argument(help="Part of the command; may contain * and ?.", show_default=False)
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Forget it of all commands.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Forget what earlier runs showed of jobs: size, cost of a step, demand and peak memory.

    `headway run` uses it when the same command runs again. Forget it when the data of a script has
    changed: a change of the script itself is noticed.

        headway forget train.py
        headway forget 'train.py --epochs *'
        headway forget --all
    """
    from headway.runtime.earlier_runs import EarlierRuns
    from headway.runtime.run_directory import data_folder

    if bool(pattern) == everything:
        raise ConfigError(
            "which commands to forget is not clear",
            hint="give a part of the command, such as train.py, or --all",
        )
    found = EarlierRuns(data_folder(data)).forget(pattern)
    if as_json:
        print_json(found)
        return
    for command in found:
        echo(command)
    echo(f"{many(len(found), 'kind')} of job forgotten")
