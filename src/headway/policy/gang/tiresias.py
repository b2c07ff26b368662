"""Least attained service in the cluster, with preemption (Tiresias, NSDI 2019, discretized): jobs
that have received little service go first and preempt others. No job sizes are needed.

Service is seconds times devices. A job starts in the upper queue and drops to the lower one when it
has received `quantum`. Within a queue, jobs start in order of arrival, and jobs that do not fit are
skipped. For a job in the upper queue, jobs of the lower one are suspended, the youngest first, but
only if the whole gang then fits. The policy keeps its own accounts, so that a cycle costs in
proportion to what changed and not to the number of pending jobs.
"""

from collections.abc import Callable, Iterable
from dataclasses import field
from enum import Enum
from heapq import heappop, heappush

from headway.core.model.decision import CALM, Decision, Place, Plan, Suspend
from headway.core.model.job import Job, Phase
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NOTHING, SLACK, JobId, Resources, Seconds, Where
from headway.policy.common.packing import Packing, gang_request
from headway.policy.common.queue_pass import suspendable

UPPER, LOWER = range(2)
Entry = tuple[float, JobId]


class Attempt(Enum):
    PLACED = "placed"
    RESERVED = "capacity is being freed for it"
    BLOCKED = "neither it nor a gang of the same shape fits"


@memory
class Account:
    """Service and state of a job."""

    order: int
    """Arrival index."""
    request: Resources
    """Of all its replicas."""
    devices: float
    shape: str
    attained: float = 0.0
    queue: int = UPPER
    since: Seconds | None = None
    """Running since then; None: not running."""


@memory
class Shape:
    """Pending jobs with equal gangs: if one fits, all fit."""

    request: Resources
    queues: list[list[Entry]] = field(default_factory=lambda: [[], []])
    """Heaps by order of arrival. Entries that are no longer pending are removed when they are
    met."""


@memory
class TiresiasMemory:
    accounts: dict[JobId, Account] = field(default_factory=dict)
    arrivals: int = 0
    shapes: dict[str, Shape] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=lambda: [0, 0])
    """Number of pending jobs in each queue."""
    falling: list[tuple[Seconds, int, JobId]] = field(default_factory=list)
    """A heap of the times at which jobs running in the upper queue reach their quantum. Ties: the
    order of arrival."""
    lower: dict[JobId, None] = field(default_factory=dict)
    """Jobs that run in the lower queue and can be suspended."""
    youngest: list[Entry] = field(default_factory=list)
    """A heap of them."""
    held: Resources = NOTHING
    """What they hold."""
    suspending: dict[JobId, None] = field(default_factory=dict)
    placed: dict[JobId, None] = field(default_factory=dict)
    """In the last cycle."""
    free: Resources = NOTHING
    """Free capacity after the last cycle. Until there is more, a job that did not fit then does not
    fit now."""


@record
class Tiresias:
    about = "least attained service in the cluster, with preemption (NSDI 2019)"
    name: str = "tiresias"
    listens: bool = False
    quantum: float = 200_000.0
    """Device-seconds in the upper queue. A device is a GPU, or a core for jobs without GPUs."""

    def begin(self) -> TiresiasMemory:
        return TiresiasMemory()

    def decide(self, snapshot: Snapshot, memory: TiresiasMemory) -> tuple[Plan, TiresiasMemory]:
        cycle = _Cycle(self.quantum, snapshot, memory)
        cycle.update_accounts()
        return (cycle.plan() if snapshot.queue else CALM), memory


class _Cycle:
    def __init__(self, quantum: float, snapshot: Snapshot, memory: TiresiasMemory) -> None:
        self.quantum, self.s, self.m = quantum, snapshot, memory
        self.later: Packing | None = None
        """Free capacity after all suspensions in progress."""
        self.decisions: list[Decision] = []
        self.more = False
        """Whether more jobs can be suspended than in the last cycle."""
        self.new: tuple[dict[str, None], dict[str, None]] = ({}, {})
        """Shapes of the jobs that joined each queue."""

    # -- accounts --------------------------------------------------------------------------------

    def update_accounts(self) -> None:
        """Include jobs with a decision in the last cycle: it may have been refused."""
        s, m = self.s, self.m
        placed, m.placed = m.placed, {}
        changed = dict.fromkeys(s.changed.jobs)
        for name in {**changed, **placed, **m.suspending}:
            job = s.jobs.get(name)
            if job is None:
                self._ends(name)
            elif job.phase is Phase.PENDING:
                self._waits(job, refused=name not in changed)
            elif not job.phase.in_transit:
                self._runs(job)
        while m.falling and m.falling[0][0] <= s.at + SLACK:
            at, _, name = heappop(m.falling)
            if name in m.accounts and self._falls_at(m.accounts[name]) == at:
                self._fall(s.jobs[name])

    def _account(self, job: Job) -> Account:
        m = self.m
        if job.id not in m.accounts:
            request = gang_request(job.spec)
            devices = request.gpu or request.cpu or 1.0
            m.accounts[job.id] = Account(
                order=m.arrivals, request=request, devices=devices, shape=_shape(job)
            )
            m.arrivals += 1
        return m.accounts[job.id]

    def _waits(self, job: Job, *, refused: bool) -> None:
        m = self.m
        known = job.id in m.accounts
        account = self._account(job)
        if known and account.since is None:
            return
        if refused:  # its placement failed
            account.since = self.s.at
        self._stops(job.id, account)
        account.queue = LOWER if account.attained >= self.quantum else UPPER
        if account.shape not in m.shapes:
            m.shapes[account.shape] = Shape(request=account.request)
        heappush(m.shapes[account.shape].queues[account.queue], (account.order, job.id))
        m.waiting[account.queue] += 1
        self.new[account.queue][account.shape] = None

    def _runs(self, job: Job) -> None:
        """Usually known since it was placed."""
        if self._account(job).since is None:
            self._starts(job)
        elif job.id in self.m.suspending:  # its suspension failed
            del self.m.suspending[job.id]
            self._fall(job)

    def _starts(self, job: Job) -> None:
        account = self.m.accounts[job.id]
        account.since = self.s.at
        if account.queue == UPPER:
            heappush(self.m.falling, (self._falls_at(account) or 0.0, account.order, job.id))
        else:
            self._fall(job)

    def _falls_at(self, account: Account) -> Seconds | None:
        if account.since is None or account.queue == LOWER:
            return None
        return account.since + (self.quantum - account.attained) / account.devices

    def _fall(self, job: Job) -> None:
        m, account = self.m, self.m.accounts[job.id]
        account.queue = LOWER
        if suspendable(job, self.s):
            m.lower[job.id] = None
            heappush(m.youngest, (-account.order, job.id))
            m.held = m.held + account.request
            self.more = True

    def _ends(self, name: JobId) -> None:
        account = self.m.accounts.get(name)
        if account is not None:
            if account.since is None:
                self.m.waiting[account.queue] -= 1
            self._stops(name, account)
            del self.m.accounts[name]

    def _stops(self, name: JobId, account: Account) -> None:
        """Add its service until now."""
        self.m.suspending.pop(name, None)
        self._leave_lower(name)
        if account.since is not None:
            account.attained += (self.s.at - account.since) * account.devices
            account.since = None

    def _leave_lower(self, name: JobId) -> None:
        m = self.m
        if name in m.lower:
            del m.lower[name]
            m.held = m.held - m.accounts[name].request

    # -- placement and preemption ----------------------------------------------------------------

    def plan(self) -> Plan:
        m, self.now = self.m, Packing(self.s)
        freed = bool(m.suspending) or not self.now.total.fits(NOTHING, m.free)
        if m.waiting[UPPER]:
            suspending = [m.accounts[name].request for name in m.suspending]
            some = m.shapes if freed or self.more else self.new[UPPER]
            self._serve(UPPER, some, self._fit_or_preempt, sum(suspending, self.now.total + m.held))
        if m.waiting[LOWER]:
            some = m.shapes if freed else self.new[LOWER]
            self._serve(LOWER, some, self._fit, self.now.total)
        m.free = self.now.total
        wake = None
        if m.waiting[UPPER] and m.falling:
            wake = max(0.0, m.falling[0][0] - self.s.at)
        if not self.decisions and wake is None:
            return CALM
        return Plan(decisions=tuple(self.decisions), wake_after=wake)

    def _serve(
        self, queue: int, some: Iterable[str], attempt: Callable[[Job], Attempt], most: Resources
    ) -> None:
        """Try the jobs of a queue in order of arrival, except those larger than `most`."""
        order: list[tuple[Entry, str]] = []
        for name in some:
            shape = self.m.shapes[name]
            if shape.queues[queue] and shape.request.fits(NOTHING, most):
                self._add_first(queue, name, order)
        later: list[tuple[Entry, str]] = []
        while order:
            entry, name = heappop(order)
            result = attempt(self.s.jobs[entry[1]])
            if result is Attempt.BLOCKED:
                continue
            heappop(self.m.shapes[name].queues[queue])
            if result is Attempt.RESERVED:
                later.append((entry, name))
            self._add_first(queue, name, order)
        for entry, name in later:
            heappush(self.m.shapes[name].queues[queue], entry)

    def _add_first(self, queue: int, name: str, order: list[tuple[Entry, str]]) -> None:
        """Add the first pending job of a shape to the order."""
        heap = self.m.shapes[name].queues[queue]
        while heap:
            account = self.m.accounts.get(heap[0][1])
            if account is not None and account.since is None and account.queue == queue:
                heappush(order, (heap[0], name))
                return
            heappop(heap)

    def _fit(self, job: Job) -> Attempt:
        account = self.m.accounts[job.id]
        where = self.now.place(job, account.request)
        if not where:
            return Attempt.BLOCKED
        if self.later is not None:
            self.later.take_all(job.spec, where)
        self.m.waiting[account.queue] -= 1
        self._starts(job)
        self.m.placed[job.id] = None
        self.decisions.append(Place(job=job.id, where=where, reason="least attained service"))
        return Attempt.PLACED

    def _fit_or_preempt(self, job: Job) -> Attempt:
        """Place a job now, after the suspensions in progress, or after further suspensions."""
        if self._fit(job) is Attempt.PLACED:
            return Attempt.PLACED
        m = self.m
        if self.later is None:
            self.later = self.now.copy()
            for name in m.suspending:
                self.later.release(self.s.placed(name))
        where = self.later.place(job, m.accounts[job.id].request) or self._suspend_for(job)
        if not where:
            return Attempt.BLOCKED
        self.now.take_all(job.spec, where)  # reserve the part that is free already
        return Attempt.RESERVED

    def _suspend_for(self, job: Job) -> Where:
        """Suspend the youngest jobs of the lower queue until it fits; none if it would not."""
        m, later = self.m, self.later
        assert later is not None  # noqa: S101 - for the type checker
        request = m.accounts[job.id].request
        if not request.fits(NOTHING, later.total + m.held):
            return ()
        before, chosen, fixed = later.copy(), list[Entry](), list[Entry]()
        where: Where = ()
        while m.youngest and not where:
            entry = heappop(m.youngest)
            if entry[1] not in m.lower or entry in chosen:
                continue
            if not self.s.can(entry[1]).suspend:  # it could when it joined the lower queue
                fixed.append(entry)
                continue
            chosen.append(entry)
            later.release(self.s.placed(entry[1]))
            where = later.place(job, request)
        for entry in fixed if where else (*fixed, *chosen):
            heappush(m.youngest, entry)
        if not where:
            self.later = before
            return ()
        for _, name in chosen:
            self._leave_lower(name)
            m.suspending[name] = None
            self.decisions.append(Suspend(job=name, reason=f"{job.id} has attained less service"))
        return where


def _shape(job: Job) -> str:
    return ";".join(
        f"{t.replicas}x{t.request.gpu},{t.request.cpu},{t.request.memory},{t.nodes}"
        for t in job.spec.tasks
    )
