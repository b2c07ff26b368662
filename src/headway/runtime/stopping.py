"""Stop the process of a run. Its jobs continue or are stopped too."""

from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from headway.backend.live import DETACH, STOP
from headway.core.model.snapshot import Request
from headway.core.model.units import JobId, Seconds
from headway.errors import ConfigError, NoServer, Unreachable
from headway.runtime.request_client import ask
from headway.runtime.run_directory import RunDirectory
from headway.runtime.run_status import detached_run, known_runs, run_status

KEEP = "keep"
WISHES = {KEEP: DETACH, "stop": STOP}
"""Option for the jobs, and the request for it."""
LOOK: Seconds = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    run: str
    server: bool
    jobs: str
    """`keep` or `stop`."""
    was_active: bool
    """Whether the run had a process."""
    continue_: int
    """Jobs that continue, or wait for the next process."""

    def plain(self) -> dict[str, Any]:
        return {name.removesuffix("_"): value for name, value in asdict(self).items()}


def find_run(data: Path, run: str) -> RunDirectory:
    """Return the run to stop: the run of this name, else the only active one, else the server if
    its jobs have not ended, else the last unfinished run.
    """
    if run:
        return RunDirectory.find(data, run)
    known = known_runs(data)
    found = [folder for folder in known if folder.locked] or [f for f in known if _left(f)]
    if not found and (detached := detached_run(data)):
        found = [RunDirectory.find(data, detached)]
    found = found or known
    if not found:
        raise NoServer("nothing runs", where=str(data), hint="headway history lists runs")
    if len(found) > 1:
        names = ", ".join(folder.id for folder in found)
        raise ConfigError(f"several runs are active: {names}", hint="name one: --run")
    return found[0]


def stop_run(folder: RunDirectory, jobs: str, timeout: Seconds) -> Stopped:
    """Stop the process of a run, and wait until it has ended. `jobs`: `keep` or `stop`. If the run
    has no process, this process manages the run while it stops the jobs.
    """
    if folder.ended:
        raise NoServer(f"run {folder.id} has ended", where=str(folder.path))
    active, server = folder.locked, "server" in folder.about
    if active:
        ask(folder, Request(job=JobId(""), wish=WISHES[jobs]))
        _wait(folder, timeout)
    elif jobs != KEEP:
        _stop_here(folder, server=server)
    return Stopped(
        run=folder.id, server=server, jobs=jobs, was_active=active, continue_=_left(folder)
    )


def _left(folder: RunDirectory) -> int:
    """Return the number of jobs that have not ended."""
    return sum(not job.ended for job in run_status(folder))


def _wait(folder: RunDirectory, timeout: Seconds) -> None:
    until = monotonic() + timeout
    while folder.locked:
        if monotonic() > until:
            raise Unreachable(
                f"run {folder.id} has not ended within {timeout:g} s",
                hint="its jobs may still be saving checkpoints; see headway ps",
            )
        sleep(LOOK)


def _stop_here(folder: RunDirectory, *, server: bool) -> None:
    from headway.runtime.server import start_server  # noqa: PLC0415 - slow
    from headway.runtime.start import resume  # noqa: PLC0415 - slow

    if server:
        started = start_server(folder.data, folder.about["policy"])
        started.stop_jobs()
        started.go()
    else:
        run = resume(folder.data, folder.id)
        run.answer("stop")
        run.go()
