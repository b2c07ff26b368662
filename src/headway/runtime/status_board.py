"""Publish the status of the jobs of a run, for `headway ps`, `top` and the API."""

import logging
from collections.abc import Callable
from itertools import islice
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any

from headway.controller.records import JobRecord
from headway.core.model.job import Phase
from headway.core.model.units import JobId, ReplicaId, Seconds
from headway.errors import reason_of
from headway.runtime import job_status, owner
from headway.runtime.job_facts import JobFacts, Samples, job_facts, share_reasons
from headway.runtime.job_status import LISTED, JobStatus, finite
from headway.runtime.loop import Loop
from headway.runtime.usage_sampler import UsageSampler

if TYPE_CHECKING:
    from headway.runtime.run import Run

EXPLAINED = 50
"""Maximum number of replicas for which the reasons of shares are computed, by a decision."""
SOONEST: Seconds = 0.1
"""Shortest interval between two updates."""
REST = 200
"""Pause in seconds, at most `LATEST`, after an update that used one second of CPU time. Updates use
about 0.5 % of a core."""
LATEST: Seconds = 2.0
"""Longest interval between two updates."""
PHASES: Seconds = 0.5
"""Interval between two checks for changed phases, which are published before the next update."""
log = logging.getLogger("headway")


class KnownFacts:
    """Facts about the jobs of a live run, computed once for each cycle and sample."""

    def __init__(self) -> None:
        self._at: tuple[Seconds, Seconds] | None = None
        """Cycle and sample of the facts."""
        self._facts: dict[JobId, JobFacts] = {}
        self._reasons: dict[ReplicaId, str] = {}
        """Reasons of the present shares."""

    def facts(self, loop: Loop[Any], sampler: UsageSampler, now: Seconds) -> dict[JobId, JobFacts]:
        state, at = loop.state, (loop.state.at, sampler.due)
        if at == self._at:
            return self._facts
        if self._at is None or state.at != self._at[0]:
            few = len(state.replicas) <= EXPLAINED
            self._reasons = share_reasons(state, loop.policy, loop.memory) if few else {}
        seen = Samples(at=now, latest=sampler.latest)
        self._facts = job_facts(state, loop.policy, loop.memory, seen, self._reasons)
        self._at = at
        return self._facts


class StatusBoard:
    """Used in the thread of the loop. Other threads may read `jobs`, which is replaced
    atomically.
    """

    def __init__(
        self,
        run: "Run",
        changed: Callable[[tuple[JobStatus, ...]], None] = lambda jobs: None,
    ) -> None:
        """`changed`: called with the jobs after an update."""
        self.jobs: tuple[JobStatus, ...] = ()
        self._run, self._changed = run, changed
        self._seen: tuple[object, ...] = ()
        """State at the last update."""
        self._phases: list[tuple[JobId, Phase]] = []
        self._due = self._look_due = 0.0
        self._logged = ""

    def update(self, sampler: UsageSampler, *, last: bool = False) -> None:
        """Publish changes since the last update, if an update is due. `last`: in any case."""
        if not last and not self._due_now():
            return
        jobs = self._listed()
        seen = (
            self._run.loop.state.at,
            sampler.due,
            [(job.id, job.phase, job.reason, job.arrived) for job in jobs],
        )
        if seen == self._seen:
            return
        self._seen, began = seen, thread_time()
        self._phases = [(job.id, job.phase) for job in jobs]
        try:
            self.jobs = self._look(sampler)
            job_status.write(self._run.folder.path, self.jobs)
            self._logged = ""
        except Exception as error:  # noqa: BLE001 - it is for people, and ends no run: a full disk
            why = reason_of(error) if isinstance(error, OSError) else str(error)
            if self._logged != why:
                log.warning("%s is not written: %s", job_status.FILE, why)
            self._logged = why
        self._changed(self.jobs)
        now = monotonic()
        self._due = now + min(LATEST, max(SOONEST, REST * (thread_time() - began)))
        self._look_due = now + PHASES

    def _due_now(self) -> bool:
        now = monotonic()
        if now >= self._due:
            return True
        if now < self._look_due:
            return False
        self._look_due = now + PHASES
        return self._phases != [(job.id, job.phase) for job in self._listed()]

    def _listed(self) -> list[JobRecord]:
        """Return the jobs. Of a server, return only the first pending jobs: the others are in its
        database, and to list all would take seconds.
        """
        jobs = self._run.backend.controller.jobs.values()
        if len(jobs) <= LISTED or not self._run.backend.endless:
            return list(jobs)
        waiting = islice((job for job in jobs if not job.replicas), LISTED)
        listed = {job.id for job in waiting}
        return [job for job in jobs if job.replicas or job.id in listed]

    def _look(self, sampler: UsageSampler) -> tuple[JobStatus, ...]:
        run, now = self._run, self._run.clock()
        facts = run.known.facts(run.loop, sampler, now)
        jobs = self._listed()
        total = sum(r.weight for job in jobs for r in job.replicas.values())
        return tuple(self._status(job, facts.get(job.id), sampler, now, total) for job in jobs)

    def _status(
        self,
        job: JobRecord,
        facts: JobFacts | None,
        sampler: UsageSampler,
        now: Seconds,
        total: float,
    ) -> JobStatus:
        run, ended, replicas = self._run, job.phase.ended, job.replicas.values()
        known = None if ended else facts
        used = [sampler.latest[r.id].cpu for r in replicas if r.id in sampler.latest]
        limits = [r.limit for r in replicas if r.limit is not None]
        reason = job.reason or (known.reason if known else "")
        if job.phase is Phase.PENDING and known:
            reason = run.backend.unplaced.get(job.id) or known.reason
        drained = [r.node for r in replicas if r.node in run.backend.controller.records.drained]
        if drained and job.phase is Phase.RUNNING:
            reason = f"node {drained[0]} is drained: runs to its end; {reason}".removesuffix("; ")
        if not job.arrived and not ended:
            reason = f"is submitted at {job.new.submitted_at:.0f} s"
        uid, user = owner.parse(job.spec.owner)
        return JobStatus(
            run=run.folder.id,
            job=job.id,
            phase=job.phase.value,
            nodes=tuple(dict.fromkeys(r.node for r in replicas)),
            step=known.step if known else self._reached(job.id),
            total_steps=known.total_steps if known else None,
            value=known.value if known else None,
            cores=sum(used) if used and not ended else None,
            share=sum(r.weight for r in replicas) / total if replicas and not ended else None,
            limit=sum(limits) if limits and not ended else None,
            eta_s=finite(known.eta_s) if known else None,
            guarantee_s=known.guarantee_s if known else None,
            submitted_s=job.new.submitted_at,
            started_s=job.started_at,
            finished_s=job.finished_at,
            reason=reason,
            decided_s=known.decided_s if known and not job.reason else None,
            at_s=now,
            began=run.clock.began,
            uid=uid,
            user=user,
        )

    def _reached(self, job: JobId) -> float | None:
        return self._run.backend.totals(job).step or None
