"""Least attained service in the cluster, with preemption (Tiresias, NSDI 2019, discretised): jobs
that have had little go first, those that have had more give way to them, and nothing need be known.

Service is seconds times devices. A job begins in the upper queue and falls into the lower one when
it has had `quantum`; within a queue the order is that of arrival, and who does not fit is passed.
For who waits in the upper queue jobs of the lower one are suspended, the youngest first, but nobody
before it is certain that the whole gang will then fit. The policy keeps account itself, so that a
cycle costs by what changed and not by how many wait.
"""

from collections.abc import Callable, Iterable
from dataclasses import field
from enum import Enum
from heapq import heappop, heappush

from headway.core.model.decision import CALM, Decision, Place, Plan, Suspend
from headway.core.model.job import Job, Mode, Phase
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NOTHING, SLACK, JobId, Resources, Seconds
from headway.policy.common.packing import Packing, Where, total

UPPER, LOWER = range(2)
Entry = tuple[float, JobId]


class Fate(Enum):
    PLACED = "placed"
    PROMISED = "room is being made for it"
    BLOCKED = "no room for it, nor for anybody like it"


@memory
class Account:
    """What a job has had, and where it is."""

    order: int
    """The how-manieth it came."""
    asked: Resources
    """What all its replicas ask for."""
    devices: float
    shape: str
    had: float = 0.0
    queue: int = UPPER
    since: Seconds | None = None
    """It runs since then. None: it does not."""


@memory
class Shape:
    """Gangs that are alike, so that any of them fits where one does: who of them waits."""

    asked: Resources
    queues: list[list[Entry]] = field(default_factory=lambda: [[], []])
    """Heaps by order of arrival. Who waits no longer is still in them until he is met."""


@memory
class TiresiasMemory:
    accounts: dict[JobId, Account] = field(default_factory=dict)
    came: int = 0
    shapes: dict[str, Shape] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=lambda: [0, 0])
    """How many wait in each queue."""
    falling: list[tuple[Seconds, int, JobId]] = field(default_factory=list)
    """When those who run in the upper queue have had their quantum: such a heap, too, in which
    order of arrival settles a tie."""
    lower: dict[JobId, None] = field(default_factory=dict)
    """Who runs in the lower queue and can be suspended."""
    youngest: list[Entry] = field(default_factory=list)
    """A heap of them."""
    held: Resources = NOTHING
    """What they hold."""
    going: dict[JobId, None] = field(default_factory=dict)
    """Who is being suspended."""
    placed: dict[JobId, None] = field(default_factory=dict)
    """In the last cycle."""
    free: Resources = NOTHING
    """What it left. As long as there is no more, who found no room then finds none now."""


@record
class Tiresias:
    name: str = "tiresias"
    listens: bool = False
    quantum: float = 200_000.0
    """Device-seconds in the upper queue. A device is a GPU, or a core where none are asked for."""

    def begin(self) -> TiresiasMemory:
        return TiresiasMemory()

    def decide(self, snapshot: Snapshot, memory: TiresiasMemory) -> tuple[Plan, TiresiasMemory]:
        cycle = _Cycle(self.quantum, snapshot, memory)
        cycle.look()
        return (cycle.plan() if snapshot.queue else CALM), memory


class _Cycle:
    def __init__(self, quantum: float, snapshot: Snapshot, memory: TiresiasMemory) -> None:
        self.quantum, self.s, self.m = quantum, snapshot, memory
        self.soon: Packing | None = None
        """As it will be when all who are being suspended have left."""
        self.decisions: list[Decision] = []
        self.more = False
        """More can be suspended than in the last cycle."""
        self.new: tuple[dict[str, None], dict[str, None]] = ({}, {})
        """Shapes of who came into each queue."""

    # -- what has happened goes into the accounts ------------------------------------------------

    def look(self) -> None:
        """Also at those of whom something was decided: it may have been refused."""
        s, m = self.s, self.m
        placed, m.placed = m.placed, {}
        for name in dict.fromkeys((*s.changed.jobs, *placed, *m.going)):
            job = s.jobs.get(name)
            if job is None:
                self._ends(name)
            elif job.phase is Phase.PENDING:
                self._waits(job, refused=name not in s.changed.jobs)
            elif not job.phase.in_transit:
                self._runs(job)
        while m.falling and m.falling[0][0] <= s.at + SLACK:
            at, _, name = heappop(m.falling)
            if name in m.accounts and self._falls_at(m.accounts[name]) == at:
                self._fall(s.jobs[name])

    def _account(self, job: Job) -> Account:
        m = self.m
        if job.id not in m.accounts:
            asked = total(job.spec)
            devices = asked.gpu or asked.cpu or 1.0
            m.accounts[job.id] = Account(
                order=m.came, asked=asked, devices=devices, shape=_shape(job)
            )
            m.came += 1
        return m.accounts[job.id]

    def _waits(self, job: Job, *, refused: bool) -> None:
        m = self.m
        known = job.id in m.accounts
        account = self._account(job)
        if known and account.since is None:
            return
        if refused:  # it was placed, and nothing came of it
            account.since = self.s.at
        self._stops(job.id, account)
        account.queue = LOWER if account.had >= self.quantum else UPPER
        if account.shape not in m.shapes:
            m.shapes[account.shape] = Shape(asked=account.asked)
        heappush(m.shapes[account.shape].queues[account.queue], (account.order, job.id))
        m.waiting[account.queue] += 1
        self.new[account.queue][account.shape] = None

    def _runs(self, job: Job) -> None:
        """Mostly that has been known since it was placed."""
        if self._account(job).since is None:
            self._starts(job)
        elif job.id in self.m.going:  # it could not be suspended
            del self.m.going[job.id]
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
        return account.since + (self.quantum - account.had) / account.devices

    def _fall(self, job: Job) -> None:
        m, account = self.m, self.m.accounts[job.id]
        account.queue = LOWER
        if job.spec.checkpoint is not Mode.NONE:
            m.lower[job.id] = None
            heappush(m.youngest, (-account.order, job.id))
            m.held = m.held + account.asked
            self.more = True

    def _ends(self, name: JobId) -> None:
        account = self.m.accounts.get(name)
        if account is not None:
            if account.since is None:
                self.m.waiting[account.queue] -= 1
            self._stops(name, account)
            del self.m.accounts[name]

    def _stops(self, name: JobId, account: Account) -> None:
        """Settle its account up to now."""
        self.m.going.pop(name, None)
        self._not_lower(name)
        if account.since is not None:
            account.had += (self.s.at - account.since) * account.devices
            account.since = None

    def _not_lower(self, name: JobId) -> None:
        m = self.m
        if name in m.lower:
            del m.lower[name]
            m.held = m.held - m.accounts[name].asked

    # -- who is placed, who is suspended, and when to look again ---------------------------------

    def plan(self) -> Plan:
        m, self.now = self.m, Packing(self.s)
        room = bool(m.going) or not self.now.free.fits(NOTHING, m.free)
        if m.waiting[UPPER]:
            going = [m.accounts[name].asked for name in m.going]
            some = m.shapes if room or self.more else self.new[UPPER]
            self._serve(UPPER, some, self._make_room, sum(going, self.now.free + m.held))
        if m.waiting[LOWER]:
            some = m.shapes if room else self.new[LOWER]
            self._serve(LOWER, some, self._fits_now, self.now.free)
        m.free = self.now.free
        wake = None
        if m.waiting[UPPER] and m.falling:
            wake = max(0.0, m.falling[0][0] - self.s.at)
        if not self.decisions and wake is None:
            return CALM
        return Plan(decisions=tuple(self.decisions), wake_after=wake)

    def _serve(
        self, queue: int, some: Iterable[str], attempt: Callable[[Job], Fate], most: Resources
    ) -> None:
        """Each in turn, by order of arrival, unless all there is were too little for it."""
        order: list[tuple[Entry, str]] = []
        for name in some:
            shape = self.m.shapes[name]
            if shape.queues[queue] and shape.asked.fits(NOTHING, most):
                self._line_up(queue, name, order)
        later: list[tuple[Entry, str]] = []
        while order:
            entry, name = heappop(order)
            fate = attempt(self.s.jobs[entry[1]])
            if fate is Fate.BLOCKED:
                continue
            heappop(self.m.shapes[name].queues[queue])
            if fate is Fate.PROMISED:
                later.append((entry, name))
            self._line_up(queue, name, order)
        for entry, name in later:
            heappush(self.m.shapes[name].queues[queue], entry)

    def _line_up(self, queue: int, name: str, order: list[tuple[Entry, str]]) -> None:
        """The first of a shape who really waits."""
        heap = self.m.shapes[name].queues[queue]
        while heap:
            account = self.m.accounts.get(heap[0][1])
            if account is not None and account.since is None and account.queue == queue:
                heappush(order, (heap[0], name))
                return
            heappop(heap)

    def _fits_now(self, job: Job) -> Fate:
        account = self.m.accounts[job.id]
        where = self.now.place(job, account.asked)
        if not where:
            return Fate.BLOCKED
        if self.soon is not None:
            self.soon.take(job, where)
        self.m.waiting[account.queue] -= 1
        self._starts(job)
        self.m.placed[job.id] = None
        self.decisions.append(Place(job=job.id, where=where, reason="it has had least"))
        return Fate.PLACED

    def _make_room(self, job: Job) -> Fate:
        """Now, or when those have left who are about to, or when some more have."""
        if self._fits_now(job) is Fate.PLACED:
            return Fate.PLACED
        m = self.m
        if self.soon is None:
            self.soon = self.now.clone()
            for name in m.going:
                self.soon.release(self.s.placed(name))
        where = self.soon.place(job, m.accounts[job.id].asked) or self._suspend_for(job)
        if not where:
            return Fate.BLOCKED
        self.now.take(job, where)  # nobody else may have what is free of it already
        return Fate.PROMISED

    def _suspend_for(self, job: Job) -> Where:
        """Suspend the youngest of the lower queue until it fits; nobody if it would not."""
        m, soon = self.m, self.soon
        assert soon is not None  # noqa: S101 - the type checker's
        asked = m.accounts[job.id].asked
        if not asked.fits(NOTHING, soon.free + m.held):
            return ()
        before, chosen, where = soon.clone(), [], Where()
        while m.youngest and not where:
            entry = heappop(m.youngest)
            if entry[1] in m.lower and entry not in chosen:
                chosen.append(entry)
                soon.release(self.s.placed(entry[1]))
                where = soon.place(job, asked)
        if not where:
            self.soon = before
            for entry in chosen:
                heappush(m.youngest, entry)
            return ()
        for _, name in chosen:
            self._not_lower(name)
            m.going[name] = None
            self.decisions.append(Suspend(job=name, reason="others have had less"))
        return where


def _shape(job: Job) -> str:
    return ";".join(
        f"{t.replicas}x{t.request.gpu},{t.request.cpu},{t.request.memory},{t.nodes}"
        for t in job.spec.tasks
    )
