"""One cycle of a policy for whole jobs: the walk along the queue that all of them share.

Jobs start in order of arrival. The first that finds no room leads the rest: room is made for it
where that is possible, kept for it where not, and those behind it start where they do not delay it.
"""

from collections.abc import Callable
from dataclasses import field

from headway.core.model.decision import CALM, Decision, Place, Plan, Suspend
from headway.core.model.job import Job, Mode, Phase
from headway.core.model.serialization import memory
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import SLACK, JobId, Seconds
from headway.policy.common.free_capacity import (
    Release,
    Room,
    Shape,
    Where,
    at,
    of,
    shape,
    spread_out,
    squeezed,
)
from headway.policy.common.rate_model import crew_at, crew_of, left, rate, seconds
from headway.policy.common.reservation import (
    Placer,
    Reserved,
    kept,
    smallest,
    under_way,
    until_fits,
)

SETTLE: Seconds = 1.0
"""How soon to look whether room that was asked for is there."""
Maker = Callable[[Job], Reserved | None]


@memory
class JobsMemory:
    """What policies for whole jobs remember."""

    misfits: list[Shape] = field(default_factory=list)
    """Jobs like these find no room until some node has more."""
    hopeless: list[Shape] = field(default_factory=list)
    """These would find none if the cluster were empty."""
    size: tuple[float, ...] = ()
    """Of the cluster for which that is so."""
    reserved: Reserved | None = None
    guests: dict[JobId, None] = field(default_factory=dict)
    """Jobs in room that is kept for somebody before them: they are suspended when it is due."""
    since: dict[JobId, Seconds] = field(default_factory=dict)
    """When each job began to be as it is: to wait, to run with the replicas it has."""
    acted_at: Seconds | None = None
    """When replicas were last taken or added."""


class Cycle:
    def __init__(
        self,
        snapshot: Snapshot,
        memory: JobsMemory,
        place: Placer,
        *,
        fewer: bool = False,
        reserve: bool = True,
    ) -> None:
        """`fewer`: elastic tasks may start small. `reserve`: room is kept for the first in line."""
        self.snapshot, self.memory, self.now = snapshot, memory, snapshot.at
        self.fewer, self.reserve, self._place = fewer, reserve, place
        self.room = Room(snapshot)
        self.strict = self.room
        """The room less what is kept for the first in line."""
        self.head: Job | None = None
        self.makers: list[Maker] = [self._call_in]
        self.halted = False
        self.decisions: list[Decision] = []
        self.started: list[tuple[Job, Where]] = []
        self.wakes: list[Seconds] = []
        self._tight: set[Shape] = set()
        self._note()

    def place(self, room: Room, job: Job, fewer: bool) -> Where | None:
        """As the policy would have it; else in any way at all. Who may not go everywhere goes
        where it may.
        """
        if any(task.nodes is not None for task in job.spec.tasks):
            return spread_out(room, job, fewer=fewer)
        where = self._place(room, job, fewer)
        return squeezed(room, job, fewer=fewer) if where is None else where

    def _note(self) -> None:
        """Fold in what changed."""
        s, m = self.snapshot, self.memory
        self.stirred = bool(s.changed.nodes or s.changed.ended)
        if self.stirred:
            m.misfits.clear()
        for name in s.changed.jobs:
            job = s.jobs.get(name)
            if job is None or job.phase is Phase.PENDING:
                m.guests.pop(name, None)
            if job is None:
                m.since.pop(name, None)
            else:
                m.since[name] = self.now
        if m.reserved and m.reserved.job not in s.queue:
            m.reserved = None
        self.misfits = set(m.misfits)

    # -- the queue -------------------------------------------------------------------------------

    def walk(self) -> None:
        """Start what may start, in order of arrival."""
        # A job that was suspended is back at the end of the queue; it has its old place here.
        for job in sorted(self.snapshot.waiting, key=lambda j: j.submitted_at):
            key = shape(job, fewer=self.fewer)
            where = None if key in self.misfits else self._find(job, key)
            if where is not None:
                self.start(job, where)
            elif self.head is None and key not in self._hopeless():
                self._lead(job, key)
            if self.halted:
                break
        self.memory.misfits = sorted(self.misfits)

    def start(self, job: Job, where: Where) -> None:
        why = "its whole gang has room" if self.head is None else "in room that nobody waits for"
        if job.id in self.memory.guests:
            why = "in room kept for another, as its guest"
        self.decisions.append(Place(job=job.id, where=where, reason=why))
        self.started.append((job, where))

    def _find(self, job: Job, key: Shape) -> Where | None:
        if self.head is not None and self.strict is not self.room:
            return self._behind(job, key)
        where = self.place(self.room, job, self.fewer)
        if where is None:
            self.misfits.add(key)
        return where

    def _behind(self, job: Job, key: Shape) -> Where | None:
        """A place that does not delay the first in line."""
        where = None if key in self._tight else self.place(self.strict, job, self.fewer)
        if where is not None:
            self.room.take_all(job.spec, where)
            return where
        self._tight.add(key)
        reserved = self.memory.reserved
        if reserved is None or reserved.firm:
            return None
        trial = self.room.copy()
        where = self.place(trial, job, self.fewer)
        if where is None:
            self.misfits.add(key)
        elif self._may(job, where, reserved):
            self.room = trial
            self.strict.take_all(job.spec, where)
            return where
        return None

    def _may(self, job: Job, where: Where, reserved: Reserved) -> bool:
        """In kept room: if it ends before that is due, or as a guest."""
        took = seconds(job, crew_at(self.snapshot, where))
        if took is not None and reserved.at is not None and self.now + took <= reserved.at:
            return True
        if job.spec.checkpoint is Mode.NONE:
            return False
        self.memory.guests[job.id] = None
        return True

    # -- the first in line -------------------------------------------------------------------------

    def _lead(self, job: Job, key: Shape) -> None:
        """See to the first that has no room: make some, or keep what will be free."""
        m = self.memory
        if m.reserved and not self._stands(m.reserved, job):
            m.reserved = None
        if not (m.reserved and m.reserved.firm):
            made = next((r for maker in self.makers if (r := maker(job))), None)
            m.reserved = made or m.reserved
        if self.reserve:
            m.reserved = m.reserved or self.predict(job)
            if m.reserved is None:
                m.hopeless.append(key)  # and so it is not the first in line
                m.size = _size(self.snapshot)
                return
            self._keep(job, m.reserved)
        else:
            m.reserved = None
        self.head = job

    def _stands(self, reserved: Reserved, job: Job) -> bool:
        nodes = (self.snapshot.nodes.get(node) for _, node in reserved.where)
        if reserved.job != job.id or not all(node and node.up for node in nodes):
            return False
        if reserved.firm:
            return any(under_way(self.snapshot, name) for name in reserved.awaits)
        if reserved.at is None:
            return not self.stirred
        return reserved.at > self.now

    def _keep(self, job: Job, reserved: Reserved) -> None:
        self.strict = self.room.copy()
        coming = [r for r in reserved.covered if self._holds(r)]
        for node, amount in kept(job.spec, reserved.where, coming):
            self.strict.take(node, amount)
        if reserved.firm:
            self.wakes.append(self.now + SETTLE)

    def _holds(self, release: Release) -> bool:
        """Has it still to come?"""
        there = self.snapshot.replicas.get(release.replica)
        if there is None:
            return any((release.replica, release.node) in where for _, where in self.started)
        return there.node == release.node

    def predict(self, job: Job) -> Reserved | None:
        """When and where it will have room, as running jobs are predicted to end."""
        s = self.snapshot
        ends = [(self.ends(j), of(s, s.placed(j.id))) for j in self.under_way()]
        ends += [self._started(j, where) for j, where in self.started]
        ends.sort(key=lambda e: (e[0] is None, e[0] or 0.0))
        releases = [release for _, release in ends]
        found = until_fits(self.room, self.needed(job), releases, self.place)
        if found is None:
            return None
        count, where = found
        nodes = {node for _, node in where}
        return Reserved(
            job=job.id,
            where=where,
            at=ends[count - 1][0] if count else self.now,
            covered=tuple(r for some in releases[:count] for r in some if r.node in nodes),
        )

    def _started(self, job: Job, where: Where) -> tuple[Seconds | None, list[Release]]:
        """When a job that starts now will end, and the room that it then leaves."""
        took = seconds(job, crew_at(self.snapshot, where))
        return None if took is None else self.now + took, at(job.spec, where)

    def ends(self, job: Job) -> Seconds | None:
        """When a job is predicted to end; None: unknown."""
        s, there = self.snapshot, self.snapshot.placed(job.id)
        if job.phase.in_transit:
            return self.now
        work, speed = left(job), rate(job, crew_of(s, there))
        if work is None or speed <= 0:
            return None
        heard = max((r.track.windows[-1].at for r in there if r.track.windows), default=0.0)
        began = max(heard, self.memory.since.get(job.id, self.now))
        return max(self.now, began + work / speed)

    def under_way(self) -> list[Job]:
        """Every job that holds room, in order of arrival."""
        s = self.snapshot
        return [job for name, job in s.jobs.items() if name not in s.queue]

    def needed(self, job: Job) -> Job:
        """As small as it may start."""
        return smallest(job) if self.fewer else job

    def _hopeless(self) -> list[Shape]:
        """Those that would find no room if the cluster, as large as it is, were empty."""
        m = self.memory
        if m.hopeless and m.size != (size := _size(self.snapshot)):
            m.size = size
            m.hopeless.clear()
        return m.hopeless

    # -- making room -----------------------------------------------------------------------------

    def hold(self, job: Job, where: Where, givers: list[JobId]) -> Reserved:
        """Keep this for it until those who give it are through."""
        return Reserved(job=job.id, where=where, awaits=tuple(givers))

    def _call_in(self, job: Job) -> Reserved | None:
        """Guests of those after it go, if that is all it takes."""
        s, m = self.snapshot, self.memory
        guests = [s.jobs[g] for g in m.guests if g in s.jobs]
        guests = [
            g for g in guests
            if g.phase is Phase.RUNNING and g.submitted_at >= job.submitted_at
        ]  # fmt: skip
        guests.sort(key=lambda g: -g.submitted_at)
        if not guests:
            return None
        leaving = [j for j in self.under_way() if j.phase.in_transit]
        releases = [of(s, s.placed(j.id)) for j in (*leaving, *guests)]
        found = until_fits(self.room, self.needed(job), releases, self.place)
        if found is None:
            return None
        count, where = found
        nodes = {node for _, node in where}
        freed = [r for some in releases[:count] for r in some if r.node in nodes]
        givers = list(dict.fromkeys(s.replicas[r.replica].job for r in freed))
        for name in givers:
            if s.jobs[name].phase is Phase.RUNNING:
                why = f"its room was kept for {job.id}, which has the rest of it now"
                self.decisions.append(Suspend(job=name, reason=why))
        return self.hold(job, where, givers) if givers else None

    # -- the end ---------------------------------------------------------------------------------

    def plan(self) -> Plan:
        later = [at for at in self.wakes if at > self.now + SLACK]
        if not self.decisions and not later:
            return CALM
        wake = min(later) - self.now if later else None
        return Plan(decisions=tuple(self.decisions), wake_after=wake)


def _size(s: Snapshot) -> tuple[float, ...]:
    """What there is in all: nodes that are up, cores, memory, GPUs."""
    count = cpu = memory = gpu = 0.0
    for alike in s.alike.values():
        node, n = s.nodes[s.names[alike[0]]], len(alike)
        if node.up:
            count, cpu = count + n, cpu + n * node.capacity.cpu
            memory, gpu = memory + n * node.capacity.memory, gpu + n * node.capacity.gpu
    return count, cpu, memory, gpu
