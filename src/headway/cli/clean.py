"""`headway clean`."""

from typing import Annotated

import typer

from headway.cli.options import Data
from headway.cli.terminal import echo


def clean(
    older_than: Annotated[
        str, typer.Option(help="Runs and jobs that ended at least this long ago: 30d, 12h.")
    ] = "",
    keep: Annotated[
        int | None,
        typer.Option(min=0, help="All but this many runs, and this many jobs, the last to end."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove them; otherwise only list them.")
    ] = False,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs as JSON.")] = False,
) -> None:
    """List the directories of ended runs and jobs; with --yes, remove them.

    Everything is kept unless an option selects it. A run that has not ended can be resumed and is
    never removed; of a server, which never ends, the selected jobs are removed.

        headway clean --older-than 30d
        headway clean --older-than 30d --keep 10 --yes
    """
    from headway.cli.output import print_json
    from headway.errors import ConfigError
    from headway.runtime.clean import (
        EndedJob,
        EndedRun,
        ended_jobs,
        ended_runs,
        remove,
        remove_job,
        select,
    )
    from headway.runtime.run_directory import data_folder
    from headway.spec.quantity import parse_time

    try:
        age = parse_time(older_than) if older_than else 0.0
    except ValueError as error:
        raise ConfigError(f"--older-than: {error}", hint="for example 30d or 12h") from None
    runs, jobs = ended_runs(data_folder(data)), ended_jobs(data_folder(data))
    found: list[EndedRun | EndedJob] = []
    if older_than or keep is not None:
        found += select(runs, older_than=age, keep=keep or 0)
        found += select(jobs, older_than=age, keep=keep or 0)
    sizes = {each.id: each.size for each in found}
    removed = [
        each.id
        for each in found
        if yes and (remove_job(each) if isinstance(each, EndedJob) else remove(each))
    ]
    if as_json:
        print_json(
            [
                {
                    "run": r.id,
                    "age_s": round(r.age),
                    "size_bytes": sizes[r.id],
                    "removed": r.id in removed,
                }
                for r in found
            ]
        )
        return
    for run in found:
        done = "removed" if run.id in removed else "in use" if yes else "selected"
        echo(f"{run.id}  {run.age / 86400:6.1f} d  {sizes[run.id] / 2**20:8.1f} MiB  {done}")
    total = sum(sizes.values()) / 2**20
    of_server = sum(isinstance(each, EndedJob) for each in found)
    told = f"{len(found) - of_server} of {len(runs)} ended runs"
    told += f" and {of_server} of {len(jobs)} ended jobs" if jobs else ""
    echo(f"{told}, {total:.1f} MiB")
    if not older_than and keep is None:
        echo("select runs with --older-than or --keep")
    elif found and not yes:
        echo("nothing was removed; add --yes")
