"""Jobs that wait for the quota of their user. The loop does not know them yet."""

from dataclasses import dataclass, field

from headway.core.model.units import Bytes, Cores, JobId
from headway.runtime.owner import Owner
from headway.runtime.submissions import Submitted
from headway.spec.quotas import Quotas, requested
from headway.spec.runnable import RunnableJob


@dataclass(slots=True)
class HeldJobs:
    quotas: Quotas
    waiting: dict[JobId, tuple[Submitted, RunnableJob]] = field(default_factory=dict)
    """Waiting jobs in the order of their submission."""
    running: dict[int, dict[JobId, tuple[Cores, Bytes]]] = field(default_factory=dict)
    """Requests of the jobs of each user that the loop knows."""
    reasons: dict[JobId, str] = field(default_factory=dict)
    """Why each job waits."""

    def hold(self, submitted: Submitted, job: RunnableJob) -> None:
        self.waiting[job.id] = submitted, job

    def take(self) -> list[RunnableJob]:
        """Remove and return the jobs that fit into the quotas now. The jobs of a user stay in
        order.
        """
        found, full = [], dict[int, str]()
        self.reasons = {}
        for name, (submitted, job) in list(self.waiting.items()):
            owner = submitted.owner
            uid = owner.uid if owner else 0
            why = full.get(uid) or (self._full(owner, job) if owner and uid else "")
            if why:
                full[uid] = self.reasons[name] = why
            else:
                found.append(self.release(name))
        return found

    def release(self, name: JobId) -> RunnableJob:
        """Remove and return a job, whether it fits or not."""
        submitted, job = self.waiting.pop(name)
        self.reasons.pop(name, None)
        self.add(job, submitted.owner)
        return job

    def add(self, job: RunnableJob, owner: Owner | None) -> None:
        """Count a job that the loop knows."""
        uid = owner.uid if owner else 0
        self.running.setdefault(uid, {})[job.id] = requested(job.spec)

    def forget(self, job: JobId) -> None:
        for jobs in self.running.values():
            jobs.pop(job, None)

    def _full(self, owner: Owner, job: RunnableJob) -> str:
        quota, mine = self.quotas.of(owner.uid, owner.name), self.running.get(owner.uid, {})
        cores, memory = requested(job.spec)
        cores += sum(used for used, _ in mine.values())
        memory += sum(used for _, used in mine.values())
        if len(mine) >= quota.running_jobs:
            return f"quota: {len(mine)} jobs of {owner.shown} run already"
        if quota.cores is not None and cores > quota.cores:
            return f"quota: jobs of {owner.shown} may request {quota.cores:g} cores together"
        if quota.memory is not None and memory > quota.memory:
            limit = f"{quota.memory / 2**30:.3g} GiB"
            return f"quota: jobs of {owner.shown} may request {limit} of memory together"
        return ""
