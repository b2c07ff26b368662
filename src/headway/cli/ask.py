"""`headway move`, `pause`, `resume` and `cancel`: requests to a run in progress."""

from typing import Annotated

import typer

from headway.cli.options import ActiveRun, Data
from headway.cli.terminal import echo

Job = Annotated[str, typer.Argument(help="The job's name.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


def move(
    job: Job,
    to: Annotated[str, typer.Option(help="The target node.", show_default=False)],
    run: ActiveRun = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Move JOB to another node of a run in progress: checkpoint, stop, start there.

    headway move vae --to node-1
    """
    _request(job, "move", run, data, as_json, to=to)


def pause(job: Job, run: ActiveRun = "", data: Data = None, as_json: AsJson = False) -> None:
    """Checkpoint and stop JOB; it releases its resources until `headway resume`.

    headway pause vae
    """
    _request(job, "pause", run, data, as_json)


def resume(job: Job, run: ActiveRun = "", data: Data = None, as_json: AsJson = False) -> None:
    """Continue a paused JOB from its checkpoint.

    headway resume vae
    """
    _request(job, "resume", run, data, as_json)


def cancel(job: Job, run: ActiveRun = "", data: Data = None, as_json: AsJson = False) -> None:
    """Stop JOB for good. The other jobs of the run continue.

    headway cancel vae
    """
    _request(job, "cancel", run, data, as_json)


def _request(
    job: str, wish: str, run: str, data: Data, as_json: bool, to: str | None = None
) -> None:
    from headway.cli.output import print_json
    from headway.core.model.snapshot import Request
    from headway.core.model.units import JobId, NodeId
    from headway.runtime.request_client import ask
    from headway.runtime.run_directory import data_folder
    from headway.runtime.run_status import find_job

    folder = find_job(data_folder(data), job, run)
    why = ask(folder, Request(job=JobId(job), wish=wish, to=NodeId(to) if to else None))
    said = f"{job}: {wish} started; see headway explain {job}"
    if why:
        said = f"{job}: cannot {wish}: {why}"
    if as_json:
        print_json({"job": job, "wish": wish, "done": not why, "why": why, "said": said})
    else:
        echo(said)
    if why:
        raise typer.Exit(1)
