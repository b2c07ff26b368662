"""`headway serve`: a run that never ends and accepts jobs at any time."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from headway.backend.clock import Clock
from headway.backend.job_store import JobStore
from headway.backend.local.launcher import claim_of
from headway.backend.local.process_control import ProcessControl
from headway.backend.monitor import Totals
from headway.controller.records import JobRecord
from headway.core.model.job import JobSpec, Phase, Task
from headway.core.model.snapshot import Request
from headway.core.model.units import JobId, Seconds
from headway.errors import BackendError, ConfigError, HeadwayError
from headway.policy.registry import build
from headway.runtime.data_lock import lock_data
from headway.runtime.driver import drive, signal_pipe
from headway.runtime.earlier_runs import EarlierRuns, keys
from headway.runtime.held_jobs import HeldJobs
from headway.runtime.job_status import JobStatus
from headway.runtime.owner import Owner
from headway.runtime.run import Run
from headway.runtime.run_status import find_server
from headway.runtime.service_manager import ServiceManager
from headway.runtime.start import begin_run, construct_run
from headway.runtime.status_board import StatusBoard
from headway.runtime.submissions import End, Submissions, Submitted, wake_file
from headway.runtime.targets import Machine
from headway.runtime.usage_sampler import UsageSampler
from headway.spec.platform_features import LIVE_FEATURES
from headway.spec.quotas import Quotas
from headway.spec.runnable import RunnableJob, to_jobs
from headway.spec.workload import make_workload

PATIENCE: Seconds = 0.1
"""Maximum time for which the server waits for a client that locks the database."""
SLICE: Seconds = 0.2
"""Time for which new jobs are added before the loop continues."""
SOME = 100
"""Number of new jobs that are read at once."""
SLOWEST: Seconds = 5.0
"""Longest interval between two samples."""
log = logging.getLogger("headway")


def start_server(
    data: Path,
    policy: str,
    control: ProcessControl | None = None,
    quotas: Quotas | None = None,
    lock: int | None = None,
) -> "Server":
    """Start a server, or continue a stopped one, whose jobs may have continued. `control`: starts
    its processes; None: this process does. `quotas`: quotas of its users. `lock`: of the data
    directory, if it is taken already.
    """
    lock = lock_data(data) if lock is None else lock
    try:
        server = _start(data, policy, control, HeldJobs(quotas or Quotas()))
    except BaseException:
        os.close(lock)
        raise
    server.lock = lock
    return server


def _start(data: Path, policy: str, control: ProcessControl | None, held: HeldJobs) -> "Server":
    folder = find_server(data)
    if folder is None:
        build(policy)  # fails before anything is created
        fields = {"server": True, "observe_only": False}
        run = begin_run([], policy, data, fields, replace(Machine.of(None), control=control))
        return Server(run, Submissions(run.folder.path, PATIENCE), held)
    folder.check_format()
    folder.lock()
    about = folder.about
    if about["policy"] != policy:
        folder.unlock()
        raise ConfigError(
            f"the server of this directory has the policy {about['policy']!r}",
            where=str(data),
            hint=f"headway serve --policy {about['policy']}, or another --data directory",
        )
    submissions = Submissions(folder.path, PATIENCE)
    known = submissions.unfinished()
    clock = Clock(float(about["began"]), about.get("boot"))
    recall = EarlierRuns(data).recall()
    found = {made.id: _runnable(made, clock, recall) for made in known}
    unreadable = {name: why for name, why in found.items() if isinstance(why, str)}
    kept = {
        made.id: made for made in known if made.id in unreadable and _alive(folder.path, made.id)
    }
    begun, jobs = JobStore(folder.path).load(found), list[RunnableJob]()
    for made in known:
        job = found[made.id]
        if isinstance(job, RunnableJob) and made.owner is not None and made.id not in begun:
            held.hold(made, job)  # it may have waited for the quota of its user
        elif isinstance(job, RunnableJob):
            held.add(job, made.owner)
            jobs.append(job)
    jobs += [_stand_in(folder.path, made, clock) for made in kept.values()]
    target = replace(Machine.of(None, about.get("enforcement", "")), control=control)
    run = construct_run(folder, jobs, about, target)
    server = Server(run, submissions, held, max((job.number for job in known), default=0))
    for name in kept:
        why = f"continues and cannot be restarted: its submission {unreadable[name]}"
        log.warning("job %s %s", name, why)
        run.backend.controller.jobs[name].reason = why
    server.refuse({name: why for name, why in unreadable.items() if name not in kept})
    return server


def _alive(run: Path, job: JobId) -> bool:
    """Return whether a process of the job runs. Such a job does not fail if its submission cannot
    be read: the next server may be able to read it.
    """
    store = JobStore(run)
    claims = (claim_of(store.records(name), attempt) for name, attempt in store.attempts(job))
    return any(claim is not None and claim.alive for claim in claims)


def _stand_in(run: Path, job: Submitted, clock: Clock) -> RunnableJob:
    """Return a stand-in for a running job whose submission cannot be read. The job is listed,
    shares the CPU and can be cancelled, but cannot be restarted.
    """
    store = JobStore(run)
    state = store.load([job.id]).get(job.id)
    tasks = Counter(r.replica.task for r in state.replicas) if state else Counter(["main"])
    spec = JobSpec(
        tasks=tuple(Task(name=n, replicas=c, least=c, most=c) for n, c in tasks.items()),
        backoff_limit=0,
    )
    return RunnableJob(id=job.id, at=clock.at(job.submitted), spec=spec, commands={})


def _runnable(
    job: Submitted, clock: Clock, recall: Callable[[RunnableJob], RunnableJob]
) -> RunnableJob | str:
    """Return the job of a submission, or why it cannot run, for example because a file
    is missing.
    """
    try:
        workload = make_workload(jobs=[{**job.entry, "name": job.id}])
        [found] = to_jobs(workload, Path(job.directory, "submitted"), supported=LIVE_FEATURES)
        known = recall(_owned(found, job.owner))
    except HeadwayError as error:
        return f"{error.message} ({error.where})" if error.where else error.message
    except Exception as error:  # noqa: BLE001 - no submission ends the server
        return f"cannot be run: {str(error).partition(chr(10))[0]}"
    commands = {
        task: replace(command, env={**job.env, **command.env})
        for task, command in known.commands.items()
    }
    return replace(known, at=clock.at(job.submitted) + known.at, commands=commands)


def _owned(job: RunnableJob, owner: Owner | None) -> RunnableJob:
    """Set the user of a job. The kind contains the uid, because users do not share measurements."""
    if owner is None:
        return job
    user = f"{owner.uid}:{owner.gid}"
    return replace(
        job,
        spec=replace(job.spec, owner=owner.text, kind=f"{owner.uid} {job.spec.kind}"),
        commands={task: replace(command, user=user) for task, command in job.commands.items()},
    )


@dataclass(slots=True)
class Server:
    run: Run
    submissions: Submissions
    held: HeldJobs
    last: int = 0
    """Number of the last submission that was read."""
    lock: int = -1
    """Lock of the data directory, which has at most one server."""
    changed: Callable[[tuple[JobStatus, ...]], None] = lambda jobs: None
    """Called with all unfinished jobs when one of them has changed."""
    ended: Callable[[JobId], None] = lambda job: None
    """Called when the end of a job is stored."""
    beat: float = field(default_factory=monotonic)
    """Time of the last iteration of the loop."""
    _kinds: dict[JobId, tuple[str, str]] = field(default_factory=dict)
    _ends: dict[JobId, End] = field(default_factory=dict)
    """Ends that are not stored yet."""
    _ended: Callable[[JobRecord], None] = lambda job: None
    _sampler: UsageSampler | None = None
    _stopping: bool = False
    """Whether the server accepts no jobs and ends when all jobs have ended."""

    def go(
        self,
        then: Callable[[UsageSampler, Seconds], None] = lambda sampler, now: None,
        ended: Callable[[JobRecord], None] = lambda job: None,
    ) -> int:
        """Serve until SIGTERM or SIGINT. Return the number of jobs that continue. `then` is called
        after each sample, `ended` for each ended job.
        """
        self._ended = ended
        run, backend = self.run, self.run.backend
        backend.on_end, backend.take_new = self._end, self._asked
        backend.on_stop = lambda jobs: self.stop_jobs() if jobs else backend.stop()
        self._kinds = keys(backend.jobs.values())

        def sampled(sampler: UsageSampler, now: Seconds) -> None:
            run.measure(sampler, now)
            self._store_ends()
            self._take()  # a client may have been killed before it woke the server
            then(sampler, now)

        sampler = self._sampler = UsageSampler(backend, run.folder.usage, sampled, slowest=SLOWEST)
        board = StatusBoard(run, lambda jobs: self.changed((*jobs, *self._held_jobs())))

        manager = ServiceManager(os.environ)

        def woken() -> None:
            self.beat = monotonic()
            manager.at_work()
            board.update(sampler)
            if self._stopping and not backend.controller.jobs:
                backend.stop()

        wake = wake_file(run.folder.path)
        with signal_pipe() as heard:
            backend.wake_by(heard, backend.stop)
            backend.wake_by(wake, lambda: self._woken(wake))
            try:
                manager.ready()
                drive(backend, run.loop, sampler, woken)
                manager.stopping()
                sampler.finish(run.clock())
                board.update(sampler, last=True)
            finally:
                backend.stop_waking(wake)
                backend.stop_waking(heard)
                os.close(wake)
                backend.close()
                run.journal.close()
                self.submissions.close()
                run.folder.unlock()
                os.close(self.lock)
        return sum(not job.phase.ended for job in backend.controller.jobs.values())

    def stop_jobs(self) -> None:
        """Cancel all jobs. The server ends when they have ended."""
        self._stopping = True
        self.run.backend.cancel("stopped by a user")

    def refuse(self, jobs: Mapping[JobId, str]) -> None:
        """End jobs that cannot run."""
        for job, why in jobs.items():
            log.warning("job %s %s", job, why)
            self._ends[job] = End(outcome="failed", reason=why, finished=self.run.clock())
        self._store_ends()

    def _woken(self, wake: int) -> None:
        os.read(wake, 4096)
        self._take()

    def _take(self) -> None:
        """Add new submissions, for at most `SLICE`. Then the loop runs before it continues."""
        until = monotonic() + SLICE
        while not self._stopping:
            try:
                new = self.submissions.after(self.last, SOME)
            except BackendError as error:
                log.warning("submissions cannot be read now: %s", error)
                return
            self._add(new)
            if len(new) < SOME:
                return
            if monotonic() > until:
                self.submissions.wake()
                return

    def _add(self, new: Sequence[Submitted]) -> None:
        recall = EarlierRuns(self.run.folder.data).recall()
        for job in new:
            self.last = job.number
            if job.outcome is not None or job.id in self.run.backend.jobs:
                continue
            found = _runnable(job, self.run.clock, recall)
            if isinstance(found, str):
                self.refuse({job.id: found})
                continue
            self.held.hold(job, found)
        self._submit(self.held.take())

    def _submit(self, jobs: Sequence[RunnableJob]) -> None:
        for job in jobs:
            self._kinds |= keys([job])
            self.run.backend.submit(job)

    def _asked(self, request: Request) -> None:
        """Handle a request about a job that the loop does not know. A job that waits for the quota
        of its user can be cancelled.
        """
        self._take()
        if request.wish == "cancel" and request.job in self.held.waiting:
            self._submit([self.held.release(request.job)])

    def _held_jobs(self) -> Iterator[JobStatus]:
        now = self.run.clock()
        for name, (job, made) in self.held.waiting.items():
            owner = job.owner
            yield JobStatus(
                run=self.run.folder.id,
                job=name,
                phase=Phase.PENDING.value,
                submitted_s=made.at,
                reason=self.held.reasons.get(name, ""),
                at_s=now,
                began=self.run.clock.began,
                uid=owner.uid if owner else None,
                user=owner.shown if owner else "",
            )

    def _end(self, job: JobRecord, totals: Totals) -> None:
        end = End(
            outcome=job.outcome,
            reason=job.reason if job.phase is not Phase.SUCCEEDED else "",
            started=job.started_at,
            finished=job.finished_at,
            steps=totals.step,
        )
        self._ends[job.id] = end
        self._store_ends()
        try:
            self.run.learn(job, totals, self._kinds.pop(job.id, None))
        except OSError as error:
            log.warning("the measurements of job %s were not stored: %s", job.id, error)
        self._forget(job.id)
        if self.held.waiting:
            self.submissions.wake()  # one of them may fit into its quota now
        self._ended(job)

    def _forget(self, job: JobId) -> None:
        """Drop everything about an ended job, because a server runs for months."""
        self.run.backend.jobs.pop(job, None)
        self.held.forget(job)
        self.run.demand.demand.pop(job, None)
        if self._sampler is not None:
            self._sampler.forget(job)

    def _store_ends(self) -> None:
        """Store ends. A failure, for example by a full disk, is retried at the next sample."""
        for job, end in list(self._ends.items()):
            try:
                self.submissions.finish(job, end)
            except BackendError as error:
                log.warning("the end of job %s cannot be stored now: %s", job, error)
                return
            del self._ends[job]
            self.ended(job)
