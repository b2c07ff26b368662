"""`headway move`, `pause`, `resume`: what people ask of a run that goes on."""

from typing import Annotated

import typer

from headway.cli.explain import RunName
from headway.cli.run import Data

Job = Annotated[str, typer.Argument(help="The job's name.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="What came of it, as JSON.")]


def move(
    job: Job,
    to: Annotated[str, typer.Option(help="The node it shall go to.", show_default=False)],
    run: RunName = "latest",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Move JOB to another node of a run that goes on: checkpoint, stop, start there.

    headway move vae --to node-1
    """
    _ask(job, "move", run, data, as_json, to=to)


def pause(job: Job, run: RunName = "latest", data: Data = None, as_json: AsJson = False) -> None:
    """Let JOB save itself and wait until somebody resumes it.

    headway pause vae
    """
    _ask(job, "pause", run, data, as_json)


def resume(job: Job, run: RunName = "latest", data: Data = None, as_json: AsJson = False) -> None:
    """Let a paused JOB go on from its checkpoint.

    headway resume vae
    """
    _ask(job, "resume", run, data, as_json)


def _ask(job: str, wish: str, run: str, data: Data, as_json: bool, to: str | None = None) -> None:
    from headway.cli.output import as_json as to_text
    from headway.core.model.snapshot import Request
    from headway.core.model.units import JobId, NodeId
    from headway.runtime.request_client import ask
    from headway.runtime.run_directory import RunDirectory, data_folder

    folder = RunDirectory.find(data_folder(data), run)
    request = Request(job=JobId(job), wish=wish, to=NodeId(to) if to else None)
    why = ask(folder, request)
    said = (
        f"{job}: not done: {why}"
        if why
        else f"{job}: {wish} is under way; see headway explain {job}"
    )
    if as_json:
        typer.echo(to_text({"job": job, "wish": wish, "done": not why, "why": why, "said": said}))
    else:
        typer.echo(said)
    if why:
        raise typer.Exit(1)
