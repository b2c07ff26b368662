"""Prints jobs as a table or as JSON."""

from typing import TYPE_CHECKING

from headway.cli.terminal import echo, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.runtime.job_status import JobStatus


def print_jobs(
    jobs: "Sequence[JobStatus]", *, as_json: bool, several: bool = False, empty: str = ""
) -> None:
    """`several`: name their runs too. `empty`: printed instead of a table without jobs."""
    if as_json:
        print_json([job.plain() for job in jobs])
    elif jobs:
        from headway.cli.job_tables import show_jobs

        show_jobs(jobs, several=several)
    elif empty:
        echo(empty)
