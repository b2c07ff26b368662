"""The jobs of a run as they are now, from the files of the run: also if its process has died."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from headway.backend.job_store import JobStore
from headway.controller.job_state import JobState
from headway.core.cycle.policy import Policy
from headway.core.model.job import Phase
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds
from headway.errors import ConfigError, NoServer, UnknownName, Unreachable
from headway.policy.registry import build
from headway.runtime import journal
from headway.runtime.job_facts import JobFacts, Samples, job_facts
from headway.runtime.replay import fold
from headway.runtime.run_directory import RunDirectory
from headway.runtime.submissions import FILE, Submissions, Submitted
from headway.runtime.usage_sampler import Now, samples
from headway.spec.load import read_workload

ENDED = 1000
"""Number of ended jobs of a server that are listed."""
NAMED = 20
"""Number of names that a message lists."""
AGAIN = 0.5
"""Seconds between two looks while waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """Times are seconds of the run; None or empty: unknown."""

    run: str
    job: str
    phase: str
    nodes: tuple[NodeId, ...] = ()
    step: float | None = None
    total_steps: float | None = None
    value: float | None = None
    cores: Cores | None = None
    """Used at the last sample."""
    eta_s: Seconds | None = None
    guarantee_s: Seconds | None = None
    submitted_s: Seconds = 0.0
    started_s: Seconds | None = None
    finished_s: Seconds | None = None
    reason: str = ""
    at_s: Seconds = 0.0
    """When this was known."""
    began: float = 0.0
    """Time of day at 0 s."""
    facts: JobFacts | None = None

    @property
    def ended(self) -> bool:
        return Phase(self.phase).ended

    def plain(self) -> dict[str, Any]:
        return {k: v for k, v in asdict(self).items() if k != "facts"}


def active_runs(data: Path) -> list[RunDirectory]:
    """The runs that a process manages, the first to begin first."""
    return [run for run in RunDirectory.all(data) if run.locked]


def known_runs(data: Path, run: str = "") -> list[RunDirectory]:
    """The run of this name; without a name, the active runs, and a server that is stopped: its jobs
    may go on.
    """
    if run:
        return [RunDirectory.find(data, run)]
    runs = RunDirectory.all(data)
    servers = [run for run in runs if (run.path / FILE).exists()]
    return [run for run in runs if run.locked or run in servers[-1:]]


def find_job(data: Path, job: str, run: str = "") -> RunDirectory:
    """The run of a job; without the name of the run, one of the active runs or the server, else
    the latest run.
    """
    for folders in (known_runs(data, run), [RunDirectory.find(data, run or "latest")]):
        found = [folder for folder in folders if _has(folder, job)]
        if len(found) == 1:
            return found[0]
        if found:
            runs = ", ".join(folder.id for folder in found)
            raise ConfigError(f"several runs have a job {job!r}: {runs}", hint="name one: --run")
    known = [s.job for folder in known_runs(data, run) or folders for s in run_status(folder)]
    raise UnknownName("job", job, known[-NAMED:], where=", ".join(f"run {f.id}" for f in folders))


def _has(folder: RunDirectory, job: str) -> bool:
    if (folder.path / FILE).exists():
        with _submissions(folder) as submissions:
            return submissions.find(job) is not None
    return job in _submitted(folder, 0.0)[0]


def wait_for(
    data: Path, names: Sequence[str], run: str = "", timeout: Seconds | None = None
) -> list[JobStatus]:
    """Wait until jobs have ended; without names, all that have not. Raise if their run has no
    process: only a new one sees their end.
    """
    folders = known_runs(data, run)
    if names:
        folders = list({f.id: f for f in (find_job(data, n, run) for n in names)}.values())
    wanted = set(names)
    if not names:
        every = [s for f in folders for s in run_status(f, brief=True)]
        wanted = {s.job for s in every if run or not s.ended}
    until = None if timeout is None else monotonic() + timeout
    while True:
        alive = [folder.locked for folder in folders]  # asked before the states are read
        found = [s for f in folders for s in run_status(f, wanted, brief=True) if s.job in wanted]
        left = [job.job for job in found if not job.ended]
        if not left:
            return found
        for folder, active in zip(folders, alive, strict=True):
            if not active and any(job.run == folder.id and not job.ended for job in found):
                raise stopped(folder)
        if until is not None and monotonic() >= until:
            raise Unreachable(f"after {timeout:g} s these jobs have not ended: {', '.join(left)}")
        sleep(AGAIN)


def stopped(folder: RunDirectory) -> NoServer:
    """The error of a run whose process has ended while its jobs have not."""
    server = "server" in folder.about
    return NoServer(
        "the server is stopped; its jobs continue" if server else
        f"run {folder.id} has no active process",
        where=str(folder.path),
        hint="headway serve" if server else f"headway run --resume {folder.id}",
    )  # fmt: skip


@contextmanager
def _submissions(folder: RunDirectory) -> Iterator[Submissions]:
    submissions = Submissions(folder.path)
    try:
        yield submissions
    finally:
        submissions.close()


def run_status(
    folder: RunDirectory, names: Collection[str] = (), *, brief: bool = False
) -> list[JobStatus]:
    """The jobs of a run, in the order of their submission. Of the ended jobs of a server, those
    with these names, or the last. `brief`: without what only the journal and the samples show,
    which take long to read.
    """
    folder.check_format()
    about = folder.about
    began = float(about.get("began", 0.0))
    submitted, ended = _submitted(folder, began, names)
    states = JobStore(folder.path).load(submitted)
    with journal.intact(str(folder.journal)):
        there = not brief and journal.exists(folder.journal)
        lines = journal.read_to_resume(folder.journal) if there else []
    now = None if brief else _samples(folder)
    facts = _facts(lines, build(f"@{about['policy']}"), now) if lines else {}
    at = now.at if now else (lines[-1]["at_s"] if lines else 0.0)
    found = [
        _status(folder.id, job, states.get(job), facts.get(job), now, (when, at, began))
        for job, when in submitted.items()
    ]
    return sorted([*ended, *found], key=lambda job: job.submitted_s)


def _submitted(
    folder: RunDirectory, began: float, names: Collection[str] = ()
) -> tuple[dict[JobId, Seconds], list[JobStatus]]:
    """The jobs of a run, and when each is submitted; of a server those that have not ended, and
    the last that have.
    """
    workload = folder.path / "workload.yaml"
    if workload.exists():
        return {JobId(job.name): job.at for job in read_workload(workload).jobs}, []
    if not (folder.path / FILE).exists():
        return {JobId(path.name): 0.0 for path in sorted((folder.path / "jobs").glob("*"))}, []
    with _submissions(folder) as submissions:
        waiting, ended = submissions.unfinished(), submissions.last(ENDED)
        if names:
            asked = [submissions.find(name) for name in names]
            ended = [job for job in asked if job and job.outcome is not None]
    return (
        {job.id: max(0.0, job.submitted - began) for job in waiting},
        [_ended(folder.id, job, began) for job in ended],
    )


def _ended(run: str, job: Submitted, began: float) -> JobStatus:
    return JobStatus(
        run=run,
        job=job.id,
        phase=job.outcome or "",
        step=job.steps or None,
        submitted_s=max(0.0, job.submitted - began),
        started_s=job.started,
        finished_s=job.finished,
        reason=job.reason,
        began=began,
    )


def _facts(
    lines: list[dict[str, Any]], policy: Policy[Any], now: Samples | None
) -> dict[JobId, JobFacts]:
    loop = fold(lines, policy)
    return job_facts(loop.state, policy, loop.memory, now)


def _samples(folder: RunDirectory) -> Samples | None:
    """The last sample of the run."""
    found: dict[str, str] = {}
    last: dict[str, Any] = {}
    for last in samples(folder.usage):
        found |= last.get("found", {})
    if not last:
        return None
    now = {name: Now(**s, found=found.get(name, "")) for name, s in last["replicas"].items()}
    return Samples(at=last["at_s"], now=now)


def _status(
    run: str,
    job: JobId,
    state: JobState | None,
    facts: JobFacts | None,
    now: Samples | None,
    when: tuple[Seconds, Seconds, float],
) -> JobStatus:
    submitted, at, began = when
    if state is None:
        reason = "" if submitted <= at else f"is submitted at {submitted:.0f} s"
        return JobStatus(
            run=run, job=job, phase=Phase.PENDING.value, submitted_s=submitted, at_s=at,
            began=began, reason=facts.reason if facts else reason, facts=facts,
        )  # fmt: skip
    ended = state.phase.ended
    known = None if ended else facts
    used = [n.cpu for n in _of(job, now)] if not ended else []
    return JobStatus(
        run=run,
        job=job,
        phase=state.phase.value,
        nodes=tuple(dict.fromkeys(r.node for r in state.replicas)),
        step=known.step if known else None,
        total_steps=known.total_steps if known else None,
        value=known.value if known else None,
        cores=sum(used) if used else None,
        eta_s=known.eta_s if known else None,
        guarantee_s=known.guarantee_s if known else None,
        submitted_s=submitted,
        started_s=state.started_at,
        finished_s=state.finished_at,
        reason=state.reason or (known.reason if known else ""),
        at_s=at,
        began=began,
        facts=known,
    )


def _of(job: JobId, now: Samples | None) -> Iterator[Now]:
    return (n for name, n in (now.now if now else {}).items() if ReplicaId(name).job == job)
