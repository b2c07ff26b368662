"""`headway stop`: end a server or a run."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import ActiveRun, AsJson, Data
from headway.cli.terminal import continuing, echo, print_json

if TYPE_CHECKING:
    from headway.runtime.stopping import Stopped


class Jobs(StrEnum):
    KEEP = "keep"
    STOP = "stop"


def stop(
    jobs: Annotated[
        Jobs,
        typer.Option(help="The jobs continue (keep), or are cancelled first (stop)."),
    ] = Jobs.KEEP,
    run: ActiveRun = "",
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the end of the process.")
    ] = 120.0,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """End the server, or the process of a run, and say what happens to its jobs.

    With `--jobs keep` they continue; the next `headway serve`, or `headway run --resume`, manages
    them again. With `--jobs stop` all jobs that have not ended are cancelled first, also those of a
    server that was killed or of a run that was detached.

        headway stop
        headway stop --jobs stop
        headway stop --run 20240601-120000-1a2b3c --jobs stop
    """
    from headway.runtime.api_address import api_address
    from headway.runtime.run_directory import data_folder
    from headway.runtime.stopping import find_run, stop_run

    if not run and (server := api_address(data)):
        from headway.cli import by_api

        by_api.stop(server, jobs.value, as_json=as_json)
        return
    found = stop_run(find_run(data_folder(data), run), jobs.value, timeout)
    if as_json:
        print_json({**found.plain(), "said": _said(found)})
    else:
        echo(_said(found))


def _said(found: "Stopped") -> str:
    what = "the server" if found.server else f"run {found.run}"
    text = f"{what} has ended" if found.was_active else f"{what} had no active process"
    if not found.continue_:
        return f"{text}; no job continues" if found.jobs == "stop" else text
    count, them = continuing(found.continue_)
    again = "headway serve" if found.server else f"headway run --resume {found.run}"
    end = f"headway stop --run {found.run} --jobs stop"
    return f"{text}; {count}: {again} manages {them} again, {end} ends {them}"
