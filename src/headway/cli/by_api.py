"""Commands to the machine's server (`headway serve --system`), or to one behind a URL: all through
its API.
"""

import json
from collections.abc import Sequence
from os import getuid
from time import monotonic, sleep

import typer

from headway.cli.job_list import print_jobs
from headway.cli.terminal import IDLE_SERVER, echo, print_json
from headway.client import Client
from headway.core.model.units import Seconds
from headway.errors import Unreachable
from headway.runtime.api_address import Address

AGAIN: Seconds = 0.5
"""Interval between two checks of a job."""
LINES = 10_000
"""Maximum number of lines of output in a request."""


def ps(server: Address, *, every: bool, as_json: bool) -> None:
    with Client(server) as client:
        found = list(client.jobs(state="all" if every else "active"))
    print_jobs(found, as_json=as_json, empty=IDLE_SERVER)


def history(server: Address, most: int, *, as_json: bool) -> None:
    """Ended jobs; the last to end comes first."""
    with Client(server) as client:
        ended = sorted(client.jobs(state="ended"), key=lambda job: -(job.finished_s or 0.0))
    print_jobs(ended[:most], as_json=as_json)


def logs(
    server: Address, job: str, replica: str, lines: int | None, *, follow: bool, as_json: bool
) -> None:
    """The output of a job. While it is followed, the last lines that were printed are looked for
    in the next answer, so that none is printed twice.
    """
    before: list[str] = []
    with Client(server) as client:
        while True:
            over = not follow or client.job(job).ended  # asked before the last read
            text = client.logs(job, lines=LINES, replica=replica)
            new = text[overlap(before, text) :] if before else text
            for line in new if before or lines is None else new[len(new) - min(lines, len(new)) :]:
                echo(json.dumps({"job": job, "line": line}) if as_json else line)
            if over:
                return
            before = text or before
            sleep(AGAIN)


def overlap(before: Sequence[str], now: Sequence[str]) -> int:
    """How many of the lines of `now` are the last ones of `before`.

    >>> overlap(["a", "b"], ["a", "b", "c"]), overlap(["a", "b", "c"], ["b", "c", "d"])
    (2, 2)
    """
    for size in range(min(len(before), len(now)), 0, -1):
        if before[len(before) - size :] == now[:size]:
            return size
    return 0


def wait(server: Address, names: Sequence[str], timeout: Seconds | None, *, as_json: bool) -> None:
    """Wait for jobs; without names, for all of this user that have not ended."""
    until = None if timeout is None else monotonic() + timeout
    with Client(server) as client:
        mine = (None, getuid())  # None: the server has one user
        wanted = names or [job.job for job in client.jobs(state="active") if job.uid in mine]
        while True:
            found = [client.job(name) for name in wanted]
            left = [job.job for job in found if not job.ended]
            if not left:
                break
            if until is not None and monotonic() >= until:
                raise Unreachable(
                    f"after {timeout:g} s these jobs have not ended: {', '.join(left)}"
                )
            sleep(AGAIN)
    print_jobs(found, as_json=as_json, empty="nothing runs")
    if any(job.phase != "succeeded" for job in found):
        raise typer.Exit(1)


def explain(server: Address, job: str, *, as_json: bool) -> None:
    with Client(server) as client:
        found = client.explain(job)
    if as_json:
        print_json(found)
        return
    from headway.cli.output import show_story
    from headway.report.explain import Event, Explanation
    from headway.runtime.job_facts import JobFacts

    known = JobFacts(**found["known"]) if found["known"] else None
    events = [Event(**event) for event in found["events"]]
    show_story(Explanation(job=job, events=events, facts=known, began=found["began"]))


def drain(server: Address, node: str, wish: str) -> str:
    """Drain or undrain a node; return the run of the server."""
    with Client(server) as client:
        (client.drain if wish == "drain" else client.undrain)(node)
        return str(client.server()["run"])


def stop(server: Address, jobs: str, *, as_json: bool) -> None:
    with Client(server) as client:
        client.stop(jobs)
    what = "its jobs continue" if jobs == "keep" else "its jobs are cancelled first"
    if as_json:
        print_json({"server": str(server), "jobs": jobs})
    else:
        echo(f"the server ends; {what}")
