"""Arguments that name jobs, with the names that a shell offers to complete them.

A shell waits for these names: nothing slow is imported, and an error offers no names.
"""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.core.model.units import Seconds
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.runtime.job_status import JobStatus

ENDED = 100
"""Ended jobs of a server that are offered at most; behind an API, none are."""
PATIENCE: Seconds = 2.0


def unfinished_jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    return [job.job for job in _jobs(ctx, 0) if job.job.startswith(incomplete) and not job.ended]


def known_jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return ended jobs too."""
    return [job.job for job in _jobs(ctx, ENDED) if job.job.startswith(incomplete)]


def _jobs(ctx: typer.Context, ended: int) -> "list[JobStatus]":
    with suppress(HeadwayError, OSError):
        if not ctx.params.get("backend"):
            return _listed(ctx, ended)
    return []


def _listed(ctx: typer.Context, ended: int) -> "list[JobStatus]":
    from headway.runtime.api_address import api_address
    from headway.runtime.run_directory import RunDirectory, data_folder
    from headway.runtime.run_status import known_runs, run_status

    given, run = ctx.params.get("data"), ctx.params.get("run") or ""
    data = Path(given) if given else None  # it is not converted yet
    if not run and (server := api_address(data)):
        from headway.client import Client

        with Client(server, PATIENCE) as client:
            return list(client.jobs(state="active"))
    folders = known_runs(data_folder(data), run)
    if ended and not folders:
        folders = [RunDirectory.find(data_folder(data), "latest")]
    return [job for folder in folders for job in run_status(folder, ended=ended)]


UnfinishedJob = Annotated[
    str,
    typer.Argument(help="The job's name.", show_default=False, autocompletion=unfinished_jobs),
]
KnownJob = Annotated[
    str, typer.Argument(help="The job's name.", show_default=False, autocompletion=known_jobs)
]
