"""`spread`: kube-scheduler, which knows pods but no jobs. The default scheduler of the papers.

`even` places pod by pod in the same way, with other scores and without chance. A policy of either
kind places pod by pod, so that a gang that does not fit as a whole is partially started: it holds
capacity and waits for the rest. Several such jobs can wait for each other forever. Such a deadlock
ends after a while, as if a user had deleted the youngest job.

kube-scheduler retries pods after back-off times. Here jobs take turns instead, with one pod each,
in order of arrival.
"""

from dataclasses import field

from headway.core.cycle.free_capacity import FreeCapacity, with_load
from headway.core.cycle.policy import join
from headway.core.cycle.project import project
from headway.core.cycle.validate import half_started
from headway.core.model.decision import CALM, Place, Plan, Suspend
from headway.core.model.job import Job, Phase, missing
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NOTHING, SLACK, JobId, NodeId, Resources, Seconds, Where
from headway.policy.placement.even import WHY, Even, Search
from headway.policy.placement.spread import KubeSearch, Spread


@memory
class ByPodMemory:
    partial: dict[JobId, None] = field(default_factory=dict)
    """Partially started jobs, in order of their first pod."""
    sent_back: dict[JobId, None] = field(default_factory=dict)
    """Jobs that were requeued to end a deadlock; they wait until no job is partially started."""
    stuck_since: Seconds | None = None


@record
class EvenByPod:
    about = "the least requested node, then the fewest replicas, pod by pod"
    name: str = "even"
    listens: bool = False
    patience: Seconds = 300.0
    """Time until a deadlock is ended."""
    turns: bool = True
    """Jobs take turns with one pod each; otherwise all pods of a job are placed before the next."""

    def whole(self) -> Even:
        """The same placement for whole gangs."""
        return Even()

    def search(self, snapshot: Snapshot) -> Search:
        return Search(snapshot)

    def begin(self) -> ByPodMemory | None:
        return None

    def decide(
        self, snapshot: Snapshot, memory: ByPodMemory | None
    ) -> tuple[Plan, ByPodMemory | None]:
        """The memory is None while no job is partially started."""
        if memory is None and not snapshot.queue:
            return CALM, None
        if memory is None and all(_single(job) for job in snapshot.waiting):
            return self.search(snapshot).plan(WHY), None
        m = memory or ByPodMemory()
        m.partial = {j: None for j in m.partial if _half_placed(j, snapshot)}
        if not m.partial:
            m = ByPodMemory()
        places = self._places(snapshot, m)
        plan = Plan(decisions=places) if places else CALM
        if not m.partial:
            return plan, None
        return join([plan, self._deadlock(project(plan, snapshot), m)]), m

    def _places(self, s: Snapshot, m: ByPodMemory) -> tuple[Place, ...]:
        """Place the first pod of each job, then one more of each in turn until none remains."""
        search, queues = self.search(s), []
        jobs = [s.jobs[j] for j in m.partial]
        jobs += [job for job in s.waiting if job.id not in m.sent_back]
        for job in jobs:
            if not search.cannot_fit(job):
                queue = _PodQueue(job, s)
                queue.place(search, 1 if self.turns else len(queue.rest))
                queues.append(queue)
        rest = queues
        while rest := [queue for queue in rest if queue.rest]:
            for queue in rest:
                queue.place(search, 1)
        placed = [queue for queue in queues if queue.where]
        m.partial.update((queue.job.id, None) for queue in placed if not queue.whole)
        return tuple(queue.decision() for queue in placed)

    def _deadlock(self, s: Snapshot, m: ByPodMemory) -> Plan:
        """End a deadlock when its time has come, or wake then."""
        held = [j for j in m.partial if half_started(s.jobs[j], s)]
        if not held or not _deadlocked(held, s):
            m.stuck_since = None
            return CALM
        since = m.stuck_since = s.at if m.stuck_since is None else m.stuck_since
        if s.at < since + self.patience - SLACK:
            return Plan(wake_after=since + self.patience - s.at)
        youngest = next((j for j in reversed(held) if s.can(j).suspend), None)
        if youngest is None:
            return CALM
        m.stuck_since = None
        m.sent_back[youngest] = None
        end = Suspend(job=youngest, reason="ends a deadlock: the youngest job is requeued")
        return Plan(decisions=(end,), wake_after=0.0)


@record
class KubeDefault(EvenByPod):
    about = "kube-scheduler: the highest score, pod by pod, ties at random"
    name: str = "spread"
    release: str = "1.34"
    """The release of Kubernetes whose scores are used; `1.17` balances CPU and memory otherwise."""

    def whole(self) -> Even:
        return Spread(release=self.release)

    def search(self, snapshot: Snapshot) -> Search:
        return KubeSearch(snapshot, self.release)


class _PodQueue:
    """The pods of a job that are not placed, and those placed in this cycle."""

    def __init__(self, job: Job, s: Snapshot) -> None:
        self.job = job
        placed = () if job.phase is Phase.PENDING else (r.id for r in s.placed(job.id))
        self.rest = missing(job, {*placed})
        self.wanted = len(self.rest)
        self.where: Where = ()

    @property
    def whole(self) -> bool:
        return self.job.phase is Phase.PENDING and len(self.where) == self.wanted

    def place(self, search: Search, count: int) -> None:
        """Try the next `count` pods."""
        self.where += search.place_some(self.job, self.rest[:count])
        self.rest = self.rest[count:]

    def decision(self) -> Place:
        return Place(job=self.job.id, where=self.where, partial=not self.whole, reason=WHY)


def _half_placed(name: JobId, s: Snapshot) -> bool:
    """Return whether some of its pods are placed and others are not."""
    job = s.jobs.get(name)
    if job is None or job.phase not in (Phase.STARTING, Phase.RUNNING):
        return False
    return bool(missing(job, {r.id for r in s.placed(job.id)}))


def _single(job: Job) -> bool:
    """Return whether it has only one replica."""
    return len(job.spec.tasks) == 1 and job.spec.tasks[0].replicas == 1


def _deadlocked(held: list[JobId], s: Snapshot) -> bool:
    """Return whether none of these jobs would fit even if all others had ended."""
    taken: dict[NodeId, Resources] = {}
    for job in held:
        for r in s.placed(job):
            assert r.node is not None  # noqa: S101 - for the type checker
            taken[r.node] = taken.get(r.node, NOTHING) + s.request(r)
    up = [n for n in s.nodes.values() if n.up]
    free = FreeCapacity({n.id: with_load(n, taken.get(n.id, NOTHING), NOTHING, 0) for n in up})
    return not any(_would_fit(s.jobs[j], free.copy(), s) for j in held)


def _would_fit(job: Job, free: FreeCapacity, s: Snapshot) -> bool:
    rest = missing(job, {r.id for r in s.placed(job.id)})
    return free.first_fit(job.spec.task_of(r).request for r in rest) == len(rest)
