"""`headway clean`."""

from typing import Annotated

import typer

from headway.cli.options import Data


def clean(
    older_than: Annotated[
        str, typer.Option(help="Runs that ended at least this long ago: 30d, 12h.")
    ] = "",
    keep: Annotated[
        int | None, typer.Option(min=0, help="All but this many runs, the last to end.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove them; otherwise only list them.")
    ] = False,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs as JSON.")] = False,
) -> None:
    """List, and with --yes remove, the directories of runs that have ended.

    Everything is kept unless an option selects it. A run that has not ended can be resumed and is
    never removed.

        headway clean --older-than 30d
        headway clean --older-than 30d --keep 10 --yes
    """
    from headway.cli.output import print_json
    from headway.errors import ConfigError
    from headway.runtime.clean import ended_runs, remove, select
    from headway.runtime.run_directory import data_folder
    from headway.spec.quantity import parse_time

    try:
        age = parse_time(older_than) if older_than else 0.0
    except ValueError as error:
        raise ConfigError(f"--older-than: {error}", hint="for example 30d or 12h") from None
    runs = ended_runs(data_folder(data))
    found = select(runs, older_than=age, keep=keep or 0) if older_than or keep is not None else []
    removed = [run.id for run in found if yes and remove(run)]
    if as_json:
        print_json(
            [
                {
                    "run": r.id,
                    "age_s": round(r.age),
                    "size_bytes": r.size,
                    "removed": r.id in removed,
                }
                for r in found
            ]
        )
        return
    for run in found:
        done = "removed" if run.id in removed else "in use" if yes else "selected"
        typer.echo(f"{run.id}  {run.age / 86400:6.1f} d  {run.size / 2**20:8.1f} MiB  {done}")
    total = sum(run.size for run in found) / 2**20
    typer.echo(f"{len(found)} of {len(runs)} ended runs, {total:.1f} MiB")
    if not older_than and keep is None:
        typer.echo("select runs with --older-than or --keep")
    elif found and not yes:
        typer.echo("nothing was removed; add --yes")
