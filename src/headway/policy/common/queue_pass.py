"""One pass along the queue, shared by all policies for whole jobs.

Jobs start by priority and then in order of arrival. The first that does not fit is the head of the
queue: capacity is freed for it if possible, or reserved, and jobs behind it start if they do not
delay it.
"""

from collections.abc import Callable
from dataclasses import field
from operator import attrgetter

from headway.core.model.decision import CALM, Decision, Place, Plan, Suspend
from headway.core.model.job import Job, Mode, Phase
from headway.core.model.serialization import memory
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import SLACK, JobId, Seconds, Where
from headway.policy.common import gang_placement, reservation
from headway.policy.common.gang_placement import Shape
from headway.policy.common.node_search import NodeSearch
from headway.policy.common.rate_model import layout_at, layout_of, left, rate, seconds
from headway.policy.common.reservation import Placer, Release, Reserved, held_by, until_fits

SETTLE: Seconds = 1.0
"""When to check again whether requested capacity is free."""
Preempt = Callable[[Job], Reserved | None]
"""Free capacity for the head of the queue."""


@memory
class JobsMemory:
    """Memory of policies for whole jobs."""

    misfits: list[Shape] = field(default_factory=list)
    """Jobs of these shapes do not fit until some node has more free capacity."""
    too_large: list[Shape] = field(default_factory=list)
    """Jobs of these shapes do not fit in the empty cluster."""
    cluster_size: tuple[float, ...] = ()
    """Size of the cluster for which `too_large` holds."""
    reserved: Reserved | None = None
    backfilled: dict[JobId, None] = field(default_factory=dict)
    """Jobs in reserved capacity, which are suspended when it is needed."""
    since: dict[JobId, Seconds] = field(default_factory=dict)
    """When each job last changed: became pending, or started with its present replicas."""
    acted_at: Seconds | None = None
    """When replicas were last added or removed."""


class QueuePass:
    def __init__(
        self,
        snapshot: Snapshot,
        memory: JobsMemory,
        place: Placer[NodeSearch],
        *,
        fewer: bool = False,
        reserve: bool = True,
    ) -> None:
        """`fewer`: elastic tasks may start small. `reserve`: reserve for the head of the queue."""
        self.snapshot, self.memory, self.now = snapshot, memory, snapshot.at
        self.fewer, self.reserve, self._place = fewer, reserve, place
        self.free = NodeSearch(snapshot)
        self.unreserved = self.free
        """Free capacity without what is reserved for the head of the queue."""
        self.head: Job | None = None
        self.preempt: list[Preempt] = [self._recall]
        self.halted = False
        self.decisions: list[Decision] = []
        self.started: list[tuple[Job, Where]] = []
        self.wakes: list[Seconds] = []
        self._delaying: set[Shape] = set()
        """Shapes that do not fit in `unreserved`."""
        self._update_memory()

    def place(self, free: NodeSearch, job: Job, fewer: bool) -> Where | None:
        """Place a job as the policy does, otherwise in any way that fits."""
        if any(task.nodes is not None for task in job.spec.tasks):
            return gang_placement.place_each(free, job, fewer=fewer)
        where = self._place(free, job, fewer)
        return gang_placement.place_exhaustively(free, job, fewer=fewer) if where is None else where

    def _update_memory(self) -> None:
        s, m = self.snapshot, self.memory
        self.changed = bool(s.changed.nodes or s.changed.ended)
        if self.changed:
            m.misfits.clear()
        for name in s.changed.jobs:
            job = s.jobs.get(name)
            if job is None or job.phase is Phase.PENDING:
                m.backfilled.pop(name, None)
            if job is None:
                m.since.pop(name, None)
            else:
                m.since[name] = self.now
        if m.reserved and m.reserved.job not in s.queue:
            m.reserved = None
        self.misfits = set(m.misfits)

    # -- the queue -------------------------------------------------------------------------------

    def walk(self) -> None:
        """Start the jobs that can start, in the order of their ranks."""
        for job in self._in_order():
            key = gang_placement.shape(job, fewer=self._small(job))
            where = None if key in self.misfits else self._find(job, key)
            if where is not None:
                self.start(job, where)
            elif self.head is None and key not in self._too_large():
                self._serve_head(job, key)
            if self.halted:
                break
        self.memory.misfits = sorted(self.misfits)

    def _in_order(self) -> list[Job]:
        """A suspended job is at the end of the queue, and here in its original position."""
        jobs = list(self.snapshot.waiting)
        alike = not jobs or jobs[0].precedence == jobs[-1].precedence
        return sorted(jobs, key=attrgetter("submitted_at" if alike else "rank"))

    def start(self, job: Job, where: Where) -> None:
        why = f"fits without delaying {self.head.id}" if self.head else "the whole gang fits"
        if job.id in self.memory.backfilled:
            why = "backfilled in reserved capacity; may be suspended"
        self.decisions.append(Place(job=job.id, where=where, reason=why))
        self.started.append((job, where))

    def _small(self, job: Job) -> bool:
        """A job that cannot be scaled later starts with all of its replicas."""
        return self.fewer and self.snapshot.can(job.id).scale

    def _find(self, job: Job, key: Shape) -> Where | None:
        if self.head is not None and self.unreserved is not self.free:
            return self._find_behind_head(job, key)
        where = self.place(self.free, job, self._small(job))
        if where is None:
            self.misfits.add(key)
        return where

    def _find_behind_head(self, job: Job, key: Shape) -> Where | None:
        """Find a place that does not delay the head of the queue."""
        small = self._small(job)
        where = None if key in self._delaying else self.place(self.unreserved, job, small)
        if where is not None:
            self.free.take_all(job.spec, where)
            return where
        self._delaying.add(key)
        reserved = self.memory.reserved
        if reserved is None or reserved.firm:
            return None
        trial = self.free.copy()
        where = self.place(trial, job, small)
        if where is None:
            self.misfits.add(key)
        elif self._may_backfill(job, where, reserved):
            self.free = trial
            self.unreserved.take_all(job.spec, where)
            return where
        return None

    def _may_backfill(self, job: Job, where: Where, reserved: Reserved) -> bool:
        """Allow a job in reserved capacity if it ends in time or can be suspended."""
        took = seconds(job, layout_at(self.snapshot, where))
        if took is not None and reserved.at is not None and self.now + took <= reserved.at:
            return True
        if not suspendable(job, self.snapshot):
            return False
        self.memory.backfilled[job.id] = None
        return True

    # -- the head of the queue -------------------------------------------------------------------

    def _serve_head(self, job: Job, key: Shape) -> None:
        """Free capacity for the first job that does not fit, or reserve it."""
        m = self.memory
        if m.reserved and not self._valid(m.reserved, job):
            m.reserved = None
        if not (m.reserved and m.reserved.firm):
            made = next((r for preempt in self.preempt if (r := preempt(job))), None)
            m.reserved = made or m.reserved
        if self.reserve:
            m.reserved = m.reserved or self.predict(job)
            if m.reserved is None:
                m.too_large.append(key)  # the next job becomes the head
                m.cluster_size = _cluster_size(self.snapshot)
                return
            self._reserve(job, m.reserved)
        else:
            m.reserved = None
        self.head = job

    def _valid(self, reserved: Reserved, job: Job) -> bool:
        nodes = (self.snapshot.nodes.get(node) for _, node in reserved.where)
        if reserved.job != job.id or not all(node and node.up for node in nodes):
            return False
        if reserved.firm:
            awaited = (r for name in reserved.awaits for r in self.snapshot.placed(name))
            return any(r.phase.in_transit for r in awaited)
        if reserved.at is None:
            return not self.changed
        return reserved.at > self.now

    def _reserve(self, job: Job, reserved: Reserved) -> None:
        self.unreserved = self.free.copy()
        later = [r for r in reserved.covered if self._still_held(r)]
        for node, amount in reservation.reserved_now(job.spec, reserved.where, later):
            self.unreserved.take(node, amount)
        if reserved.firm:
            self.wakes.append(self.now + SETTLE)

    def _still_held(self, release: Release) -> bool:
        there = self.snapshot.replicas.get(release.replica)
        if there is None:
            return any((release.replica, release.node) in where for _, where in self.started)
        return there.node == release.node

    def predict(self, job: Job) -> Reserved | None:
        """Predict when and where the job fits, from the predicted ends of active jobs."""
        s = self.snapshot
        ends = [(self.end_of(j), held_by(s, s.placed(j.id))) for j in self.active()]
        ends += [self._end_of_started(j, where) for j, where in self.started]
        ends.sort(key=lambda e: (e[0] is None, e[0] or 0.0))
        releases = [release for _, release in ends]
        found = until_fits(self.free, self.needed(job), releases, self.place)
        if found is None:
            return None
        count, where = found
        return Reserved(
            job=job.id,
            where=where,
            at=ends[count - 1][0] if count else self.now,
            covered=tuple(_on_nodes(releases[:count], where)),
        )

    def _end_of_started(self, job: Job, where: Where) -> tuple[Seconds | None, list[Release]]:
        """Predict when a job that starts now ends, and what it releases then."""
        took = seconds(job, layout_at(self.snapshot, where))
        return None if took is None else self.now + took, reservation.held_at(job.spec, where)

    def end_of(self, job: Job) -> Seconds | None:
        """Predict when an active job ends; None: unknown."""
        s, there = self.snapshot, self.snapshot.placed(job.id)
        if job.phase.in_transit:
            return self.now
        work, speed = left(job), rate(job, layout_of(s, there))
        if work is None or speed <= 0:
            return None
        last = max((r.history.windows[-1].at for r in there if r.history.windows), default=0.0)
        began = max(last, self.memory.since.get(job.id, self.now))
        return max(self.now, began + work / speed)

    def active(self) -> list[Job]:
        """Return the jobs that hold capacity, in order of arrival."""
        s = self.snapshot
        return [job for name, job in s.jobs.items() if name not in s.queue]

    def needed(self, job: Job) -> Job:
        """Return the job with the fewest replicas that it can start with."""
        return gang_placement.with_workers(job) if self._small(job) else job

    def _too_large(self) -> list[Shape]:
        m = self.memory
        if m.too_large and m.cluster_size != (size := _cluster_size(self.snapshot)):
            m.cluster_size = size
            m.too_large.clear()
        return m.too_large

    # -- freeing capacity ------------------------------------------------------------------------

    def _recall(self, job: Job) -> Reserved | None:
        """Suspend later backfilled jobs, if that is enough."""
        s = self.snapshot
        backfilled = self._recallable(job)
        if not backfilled:
            return None
        leaving = [j for j in self.active() if j.phase.in_transit]
        releases = [held_by(s, s.placed(j.id)) for j in (*leaving, *backfilled)]
        found = until_fits(self.free, self.needed(job), releases, self.place)
        if found is None:
            return None
        count, where = found
        freed = _on_nodes(releases[:count], where)
        givers = list(dict.fromkeys(s.replicas[r.replica].job for r in freed))
        why = f"backfilled; {job.id} can start now"
        for name in givers:
            if s.jobs[name].phase is Phase.RUNNING:
                self.decisions.append(Suspend(job=name, reason=why))
        return Reserved(job=job.id, where=where, awaits=tuple(givers)) if givers else None

    def _recallable(self, head: Job) -> list[Job]:
        """Return the backfilled jobs behind the head, the last first."""
        s = self.snapshot
        jobs = [s.jobs[name] for name in self.memory.backfilled if name in s.jobs]
        later = [j for j in jobs if j.rank >= head.rank]
        able = [j for j in later if j.phase is Phase.RUNNING and s.can(j.id).suspend]
        return sorted(able, key=lambda job: job.rank, reverse=True)

    # -- the result ------------------------------------------------------------------------------

    def plan(self) -> Plan:
        later = [at for at in self.wakes if at > self.now + SLACK]
        if not self.decisions and not later:
            return CALM
        wake = min(later) - self.now if later else None
        return Plan(decisions=tuple(self.decisions), wake_after=wake)


def suspendable(job: Job, s: Snapshot) -> bool:
    return job.spec.checkpoint is not Mode.NONE and s.can(job.id).suspend


def _on_nodes(releases: list[list[Release]], where: Where) -> list[Release]:
    """Return the releases on the nodes of a place."""
    nodes = {node for _, node in where}
    return [r for some in releases for r in some if r.node in nodes]


def _cluster_size(s: Snapshot) -> tuple[float, ...]:
    """Return the number of nodes that are up, and their cores, memory and GPUs."""
    count = cpu = memory = gpu = 0.0
    for alike in s.alike.values():
        node, n = s.nodes[s.names[alike[0]]], len(alike)
        if node.up:
            count, cpu = count + n, cpu + n * node.capacity.cpu
            memory, gpu = memory + n * node.capacity.memory, gpu + n * node.capacity.gpu
    return count, cpu, memory, gpu
