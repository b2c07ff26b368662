"""Present status of the jobs of a run, from the files of the run, with or without its process.

This module imports little, because `headway ps` must start fast.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

from headway.core.model.units import Seconds
from headway.errors import ConfigError, NoServer, UnknownName, Unreachable
from headway.runtime import job_status
from headway.runtime.data_lock import has_server_process
from headway.runtime.job_status import FAR, LISTED, JobStatus
from headway.runtime.run_directory import RunDirectory
from headway.runtime.submissions import FILE, Submissions, Submitted

ENDED = 1000
"""Maximum number of ended jobs of a server that are listed."""
NAMED = 20
"""Maximum number of names in a message."""
AGAIN = 0.5
"""Seconds between two checks while waiting."""
STARTING: Seconds = 30.0
"""Maximum time for which a server that has just been started is waited for."""
SOON: Seconds = 0.1
LOOKED_FOR: Seconds = 1.0
"""Time for which a server is looked for: it may have been started just before its client."""


def active_runs(data: Path) -> list[RunDirectory]:
    """Return the runs that a process manages, in the order of their start."""
    return [run for run in RunDirectory.all(data) if run.locked]


def known_runs(data: Path, run: str = "") -> list[RunDirectory]:
    """Return the run of this name. Without a name, return the active runs and the last server, also
    if it is stopped: its jobs may continue.
    """
    if run:
        return [RunDirectory.find(data, run)]
    runs = RunDirectory.all(data)
    servers = [run for run in runs if (run.path / FILE).exists()]
    return [run for run in runs if run.locked or run in servers[-1:]]


def detached_run(data: Path) -> str:
    """Return the name of the last run that can be resumed, otherwise "": its jobs may continue,
    although no process manages them.
    """
    for run in reversed(RunDirectory.all(data)):
        if not run.locked and not run.ended and _has_about(run, "workload"):
            return run.id
    return ""


def find_server(data: Path) -> RunDirectory | None:
    """Return the run of the server of this data directory, active or not."""
    return next((r for r in reversed(RunDirectory.all(data)) if _has_about(r, "server")), None)


def _has_about(run: RunDirectory, key: str) -> bool:
    try:
        return key in run.about
    except (ConfigError, OSError):  # damaged
        return False


def active_server(data: Path, waiting: Callable[[], None] = lambda: None) -> RunDirectory:
    """Return the run of the active server. `waiting`: called while a server is starting."""
    began = monotonic()
    while (found := find_server(data)) is None or not found.locked:
        looked = monotonic() - began
        if has_server_process(data):
            if looked > STARTING:
                raise Unreachable(
                    f"the server has not started within {STARTING:g} s",
                    where=str(data),
                    hint="see what it prints, or end its process and start it again: headway serve",
                )
            waiting()
        elif looked > LOOKED_FOR:
            start = "start it in the background: nohup headway serve 2> serve.log &"
            raise NoServer("no server is active", where=str(data), hint=start)
        sleep(SOON)
    return found


def find_job(data: Path, job: str, run: str = "") -> RunDirectory:
    """Return the run of a job. Without the name of the run, search the active runs and the server,
    then the latest run.
    """
    for folders in (known_runs(data, run), [RunDirectory.find(data, run or "latest")]):
        found = [folder for folder in folders if _has(folder, job)]
        if len(found) == 1:
            return found[0]
        if found:
            runs = ", ".join(folder.id for folder in found)
            raise ConfigError(f"several runs have a job {job!r}: {runs}", hint="name one: --run")
    looked = known_runs(data, run) or folders
    known = [s.job for folder in looked for s in run_status(folder, ended=NAMED)]
    error = UnknownName("job", job, known[-NAMED:], where=", ".join(f"run {f.id}" for f in folders))
    if not run and len(RunDirectory.all(data)) > len(folders):
        error.hint += "; for an earlier run: --run RUN, see headway history"
    raise error


def _has(folder: RunDirectory, job: str) -> bool:
    return any(found.job == job for found in run_status(folder, [job]))


def wait_for(
    data: Path, names: Sequence[str], run: str = "", timeout: Seconds | None = None
) -> list[JobStatus]:
    """Wait until jobs have ended; without names, all unfinished jobs. Raise an error if their run
    has no process, because only a process notices the end of a job.
    """
    folders = known_runs(data, run)
    if names:
        folders = list({f.id: f for f in (find_job(data, n, run) for n in names)}.values())
    wanted = set(names)
    if not names:
        wanted = {s.job for f in folders for s in run_status(f) if run or not s.ended}
    until = None if timeout is None else monotonic() + timeout
    while True:
        alive = [folder.locked for folder in folders]  # asked before the states are read
        found = [s for f in folders for s in run_status(f, wanted)] if wanted else []
        left = [job.job for job in found if not job.ended]
        if not left:
            return found
        for folder, active in zip(folders, alive, strict=True):
            unfinished = any(job.run == folder.id and not job.ended for job in found)
            if not active and unfinished and not is_starting(folder):
                raise stopped(folder)
        if until is not None and monotonic() >= until:
            raise Unreachable(f"after {timeout:g} s these jobs have not ended: {', '.join(left)}")
        sleep(AGAIN)


def is_starting(folder: RunDirectory) -> bool:
    """Return whether the folder is the run of a server that is starting again."""
    return "server" in folder.about and has_server_process(folder.data)


def stopped(folder: RunDirectory) -> NoServer:
    """Return the error for an unfinished run without a process."""
    server = "server" in folder.about
    left = server and any(not job.ended for job in run_status(folder))
    return NoServer(
        f"the server is stopped{'; its jobs continue' if left else ''}" if server else
        f"run {folder.id} has no active process",
        where=str(folder.path),
        hint="headway serve" if server else f"headway run --resume {folder.id}",
    )  # fmt: skip


def run_status(
    folder: RunDirectory, names: Collection[str] = (), *, ended: int = 0
) -> list[JobStatus]:
    """Return the jobs of a run in the order of their submission. `names`: only these jobs. `ended`:
    number of ended jobs of a server to include if no names are given.
    """
    folder.check_format()
    active = folder.locked  # asked before the file is read
    if (folder.path / FILE).exists():
        found = _of_server(folder, names, ended)
    else:
        known = job_status.read(folder.path) or ()
        found = [job for job in known if not names or job.job in names]
    if active:
        return found
    # The status file of a killed run may be older than the states of its jobs.
    from headway.runtime.stopped_run import listed_jobs, with_states  # noqa: PLC0415 - slow

    return with_states(folder, found or listed_jobs(folder, names))


def _of_server(folder: RunDirectory, names: Collection[str], ended: int) -> list[JobStatus]:
    """Return the jobs of a server. A job that was just submitted may not be in its
    status file yet.
    """
    began = float(folder.about.get("began", 0.0))
    with submissions_of(folder) as submissions:
        jobs = submissions.named(names) if names else submissions.unfinished()
        known = {job.job: job for job in job_status.read(folder.path) or ()}
        past = submissions.last(ended) if ended else []
    far = len(known) >= LISTED
    found = {
        job.id: submitted_status(folder.id, job, known.get(job.id), began, far=far)
        for job in [*past, *jobs]
    }
    return sorted(found.values(), key=lambda job: job.submitted_s)


def submitted_status(
    run: str, job: Submitted, known: JobStatus | None, began: float, *, far: bool = False
) -> JobStatus:
    """Return the status of a submitted job: its outcome, or `known`. `far`: a job without `known`
    is far from the head of the queue.
    """
    if job.outcome is None and known is not None:
        return known
    uid, user = (job.owner.uid, job.owner.shown) if job.owner else (None, "")
    status = JobStatus(
        run=run,
        job=job.id,
        phase=job.outcome or "pending",
        step=job.steps or None,
        submitted_s=max(0.0, job.submitted - began),
        started_s=job.started,
        finished_s=job.finished,
        reason=job.reason,
        began=began,
        uid=uid,
        user=user,
    )
    if job.outcome:
        return status
    return replace(status, at_s=status.submitted_s, reason=FAR if far else "")


@contextmanager
def submissions_of(folder: RunDirectory) -> Iterator[Submissions]:
    submissions = Submissions(folder.path)
    try:
        yield submissions
    finally:
        submissions.close()
