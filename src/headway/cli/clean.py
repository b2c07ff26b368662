"""`headway clean`."""

from typing import Annotated

import typer

from headway.cli.options import AsJson, Data
from headway.cli.terminal import echo, print_json


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
    as_json: AsJson = False,
) -> None:
    """List the directories of ended runs and jobs; with --yes, remove them.

    Everything is kept unless an option selects it. A run that has not ended can be resumed and is
    never removed; of a server, which never ends, the selected jobs are removed.

        headway clean --older-than 30d
        headway clean --older-than 30d --keep 10 --yes
    """
    from headway.errors import ConfigError
    from headway.runtime.clean import Ended, EndedJob, ended_jobs, ended_runs, select
    from headway.runtime.run_directory import data_folder
    from headway.spec.quantity import parse_time

    try:
        age = parse_time(older_than) if older_than else 0.0
    except ValueError as error:
        raise ConfigError(f"--older-than: {error}", hint="use a unit, as in 30d or 12h") from None
    runs, jobs = ended_runs(data_folder(data)), ended_jobs(data_folder(data))
    found: list[Ended] = []
    if older_than or keep is not None:
        found += select(runs, older_than=age, keep=keep or 0)
        found += select(jobs, older_than=age, keep=keep or 0)
    sizes = {each.id: each.size for each in found}
    removed = {each.id for each in found if yes and each.remove()}
    if as_json:
        about = [(each.id, round(each.age), sizes[each.id], each.id in removed) for each in found]
        fields = ("run", "age_s", "size_bytes", "removed")
        print_json([dict(zip(fields, each, strict=True)) for each in about])
        return
    width = max((len(run.id) for run in found), default=0)
    for run in found:
        done = "removed" if run.id in removed else "in use" if yes else "selected"
        ago = f"ended {_age(run.age)} ago"
        echo(f"{run.id:<{width}}  {ago:<18}  {_size(sizes[run.id]):>10}  {done}")
    of_server = sum(isinstance(each, EndedJob) for each in found)
    told = f"{len(found) - of_server} of {len(runs)} ended runs"
    told += f" and {of_server} of {len(jobs)} ended jobs" if jobs else ""
    echo(f"{told}, {_size(sum(sizes.values()))}")
    if not older_than and keep is None:
        echo("select runs with --older-than or --keep")
    elif found and not yes:
        echo("nothing was removed; add --yes")


def _age(seconds: float) -> str:
    """Return how long ago, in one unit.

    >>> _age(40.0), _age(300.0), _age(7200.0), _age(40.4 * 86400)
    ('40 s', '5 min', '2.0 h', '40 d')
    """
    if seconds < 3600:
        return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 86400 else f"{seconds / 86400:.0f} d"


def _size(count: int) -> str:
    """Return a number of bytes, with a unit.

    >>> _size(0), _size(643), _size(3 * 2**20)
    ('0.0 KiB', '0.6 KiB', '3.0 MiB')
    """
    size = count / 2**10
    for unit in ("KiB", "MiB"):
        if size < 1024:
            return f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
