"""`headway ps`, `logs`, `wait` and `history`: what runs, what it prints, and what ran before."""

from typing import Annotated

import typer

from headway.cli.job_list import print_jobs
from headway.cli.job_names import KnownJob, unfinished_jobs
from headway.cli.options import ActiveRun, AsJson, Data
from headway.cli.terminal import IDLE_SERVER, echo, print_json


def ps(
    run: ActiveRun = "",
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Of a server: ended jobs too.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List the jobs of the active runs: phase, progress, ETA, use, and why a job waits.

    `share` is the part of the CPU that a job gets if all use what they can, `cores used` what it
    uses now. Each job has one line. A narrow terminal shortens names and reasons, and then omits
    time, loss, cores used, share, run, step, ETA and reason, in this order.

        headway ps
        headway ps --run latest --json
    """
    from headway.backend.drained_nodes import read
    from headway.runtime.api_address import api_address
    from headway.runtime.run_directory import data_folder
    from headway.runtime.run_status import (
        ENDED,
        detached_run,
        is_starting,
        known_runs,
        run_status,
    )

    if not run and (server := api_address(data)):
        from headway.cli import by_api

        by_api.ps(server, every=every, as_json=as_json)
        return
    folders = known_runs(data_folder(data), run)
    found = [job for folder in folders for job in run_status(folder, ended=ENDED if every else 0)]
    detached = "" if run or as_json else detached_run(data_folder(data))
    if as_json or found:
        print_jobs(found, as_json=as_json, several=len(folders) > 1)
    elif any(folder.locked and "server" in folder.about for folder in folders):
        echo(IDLE_SERVER)
    elif not detached:
        echo("nothing runs; see headway history, or start: headway run -- COMMAND")
    for folder in folders if not as_json else ():
        for node in read(folder.path):
            echo(f"node {node} is drained. Use it again: headway undrain {node}", err=True)
    stopped = {f.id for f in folders if not f.locked and not is_starting(f)}
    if not run and stopped and not as_json:
        left = any(job.run in stopped and not job.ended for job in found)
        continue_ = "; its jobs continue" if left else ""
        echo(f"the server is stopped{continue_}. Start it again: headway serve", err=True)
    if detached:
        again = f"Manage them again: headway run --resume {detached}"
        end = f"End them: headway stop --run {detached} --jobs stop"
        echo(f"run {detached} has no active process; its jobs may continue", err=True)
        echo(f"{again}\n{end}", err=True)


def logs(
    job: KnownJob,
    replica: Annotated[
        str, typer.Option(help="Which replica, such as worker-1.", show_default="the first")
    ] = "",
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", min=0, help="Only the last lines.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing until the job ends, or Ctrl-C.")
    ] = False,
    since: Annotated[
        str,
        typer.Option(
            help="Only lines printed since then: 10m, 1h30m, 14:05. May begin a sample earlier.",
            show_default=False,
        ),
    ] = "",
    run: ActiveRun = "",
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per line of output.")] = False,
) -> None:
    """Print the output of JOB.

    With `--follow`, the exit code is 4 if the server is stopped before the job ends.

        headway logs train
        headway logs train --follow --lines 20
        headway logs train --since 10m
    """
    import json
    from datetime import datetime

    from headway.errors import ConfigError
    from headway.runtime.api_address import api_address
    from headway.runtime.job_log import read_log
    from headway.runtime.log_times import parse_since
    from headway.runtime.run_directory import data_folder
    from headway.runtime.run_status import find_job, run_status, stopped

    after = parse_since(since, datetime.now()) if since else None  # noqa: DTZ005 - local
    if not run and (server := api_address(data)):
        from headway.cli import by_api

        if since:
            raise ConfigError("--since is for your own runs and server", hint="use --lines")
        by_api.logs(server, job, replica, lines, follow=follow, as_json=as_json)
        return
    folder = find_job(data_folder(data), job, run)
    for line in read_log(folder, job, replica, last=lines, follow=follow, since=after):
        echo(json.dumps({"job": job, "line": line}) if as_json else line)
    if follow and not folder.locked and not all(s.ended for s in run_status(folder, [job])):
        raise stopped(folder)


def wait(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names of jobs.",
            show_default="all that have not ended",
            autocompletion=unfinished_jobs,
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Seconds to wait at most.", show_default="no limit")
    ] = None,
    run: ActiveRun = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Wait until JOBS have ended.

    The exit code is 0 if all succeeded, and 1 otherwise; 3 after --timeout; 4 if the server is
    stopped.

        headway wait && echo done
        headway wait train eval --timeout 3600
    """
    from headway.runtime.api_address import api_address
    from headway.runtime.run_directory import data_folder
    from headway.runtime.run_status import wait_for

    if not run and (server := api_address(data)):
        from headway.cli import by_api

        by_api.wait(server, jobs or (), timeout, as_json=as_json)
        return
    found = wait_for(data_folder(data), jobs or (), run, timeout)
    several = len({job.run for job in found}) > 1
    print_jobs(found, as_json=as_json, several=several, empty="nothing runs")
    if any(job.phase != "succeeded" for job in found):
        raise typer.Exit(1)


def history(
    most: Annotated[int, typer.Option("--lines", "-n", min=1, help="Runs or jobs to show.")] = 20,
    jobs: Annotated[bool, typer.Option("--jobs", help="Ended jobs of the server instead.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List runs, the last one first: what, under which policy, and how it ended.

    Also the mean time from submission to end. The name of a run is when it began.

        headway history
        headway history --jobs --lines 100
    """
    if jobs:
        _ended_jobs(most, data, as_json=as_json)
        return
    from headway.runtime.run_directory import data_folder
    from headway.runtime.run_history import run_history

    found = run_history(data_folder(data), most)
    if as_json:
        print_json([run.plain() for run in found])
    elif found:
        from headway.cli.job_tables import show_history

        show_history(found)
    else:
        echo("nothing has run yet; start: headway run -- COMMAND")


def _ended_jobs(most: int, data: Data, *, as_json: bool) -> None:
    """The last to end comes first."""
    from headway.runtime.api_address import api_address
    from headway.runtime.run_directory import data_folder
    from headway.runtime.run_status import find_server, run_status

    if server := api_address(data):
        from headway.cli import by_api

        by_api.history(server, most, as_json=as_json)
        return
    folder = find_server(data_folder(data))
    listed = run_status(folder, ended=most) if folder else []
    found = sorted((j for j in listed if j.ended), key=lambda j: -(j.finished_s or 0.0))
    print_jobs(found, as_json=as_json, empty="no job of a server has ended yet")
