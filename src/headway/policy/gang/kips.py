"""The adjustment operator (KIPS 2022): tasks of a job near each other, and both the number of
workers and the CPU of each follow the load.

A reconstruction of ours: the text (in Korean, of which the abstract is public) says that affinity
and dynamic allocation are what it adds, and not how. docs/papers/kips.md; docs/decisions/0024.
"""

from dataclasses import field, replace
from math import ceil

from headway.core.estimate.step_rate import SERVER, equal_limits
from headway.core.model.decision import Move, Plan, Scale, SetShare
from headway.core.model.job import Job, Phase, Replica
from headway.core.model.node import Node
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import SLACK, Cores, JobId, NodeId, Resources, Seconds
from headway.policy.common.elastic import Growth, ready, rich, shrink, spare
from headway.policy.common.free_capacity import Room, Where, elastic, parts
from headway.policy.common.queue_pass import Cycle, JobsMemory
from headway.policy.common.reservation import Reserved

SAME = 0.1
"""A ceiling that differs by less than this part of what was asked for is left as it is."""


@memory
class KipsMemory(JobsMemory):
    adjusted: dict[JobId, Seconds] = field(default_factory=dict)
    """When each job's workers were last changed."""
    due: Seconds = 0.0
    looks: tuple[NodeId, ...] = ()
    """Nodes of jobs that it wants to hear from when it adjusts next: those not heard to use what
    they have."""


@record
class Kips:
    name: str = "kips"
    listens: bool = True
    interval: Seconds = 15.0
    """It adjusts this often, and whenever a job has ended."""
    cool_down: Seconds = 60.0
    """A job's workers are changed no more often than this."""
    low: float = 0.3
    high: float = 0.8
    """Parts of what a job's workers may use. Who uses less than the one has too many of them, who
    uses more than the other may have more; between them nothing changes."""
    affinity: float = 1.0
    free: float = 0.3
    fragment: float = 0.2
    """What counts for a node: the job's own tasks there, room left, and what is left over of it."""
    restart: Seconds = 10.0
    """What a change of workers costs a job."""
    workers: bool = True
    """It changes how many workers there are."""
    ceilings: bool = True
    """It changes how much CPU each may use."""

    def begin(self) -> KipsMemory:
        return KipsMemory()

    def decide(self, snapshot: Snapshot, memory: KipsMemory) -> tuple[Plan, KipsMemory]:
        cycle = Cycle(snapshot, memory, self.place, fewer=True)
        for gone in [j for j in memory.adjusted if j not in snapshot.jobs]:
            del memory.adjusted[gone]
        if self.workers:
            cycle.makers.append(lambda job: self._release(cycle, memory, job))
        if snapshot.queue:
            cycle.walk()
        adjusts = bool(snapshot.changed.ended) or memory.due <= cycle.now + SLACK
        if adjusts:
            memory.due = cycle.now + self.interval
            memory.looks = self._looks(cycle)
            if self.workers and not cycle.decisions:
                self._scale_in(cycle, memory)
            if self.workers and not snapshot.queue and not cycle.decisions:
                self._scale_out(cycle, memory)
        if self.ceilings and (adjusts or cycle.decisions or snapshot.changed.jobs):
            cycle.decisions += self._ceilings(cycle)
        if snapshot.jobs:
            cycle.wakes.append(memory.due)
        plan = cycle.plan()
        return (replace(plan, look=memory.looks) if memory.looks else plan), memory

    # -- where -----------------------------------------------------------------------------------

    def place(self, room: Room, job: Job, fewer: bool) -> Where | None:
        """Parameter servers first, then each worker where most speaks for it."""
        before, where = dict(room.touched), []
        must, may = parts(job, fewer=fewer)
        there: list[tuple[str, NodeId]] = []
        for i, name in enumerate([*(name for name, _ in must), *may]):
            request = job.spec.task(name.task).request
            node = self._best(room, request, there)
            if node is None and i < len(must):
                room.touched = before
                return None
            if node is None:
                break
            room.take(node.id, request)
            there.append((name.task, node.id))
            where.append((name, node.id))
        return tuple(where)

    def _best(self, room: Room, request: Resources, there: list[tuple[str, NodeId]]) -> Node | None:
        own = [node for name in dict.fromkeys(n for _, n in there) if (node := room.at(name))]
        nodes = {n.id: n for n in (*own, *room.candidates())}.values()
        able = [n for n in nodes if n.up and request.fits(n.taken, n.capacity)]
        order = room.snapshot.order
        return max(able, key=lambda n: (self._score(n, request, there), -order[n.id]), default=None)

    def _score(self, node: Node, request: Resources, there: list[tuple[str, NodeId]]) -> float:
        here = [task for task, name in there if name == node.id]
        near = 1.0 if SERVER in here else len(here) / max(1, len(there))
        whole = node.capacity.cpu or 1.0
        left = max(0.0, node.capacity.cpu - node.taken.cpu - request.cpu)
        over = left % request.cpu if request.cpu else 0.0
        return self.affinity * near + self.free * left / whole - self.fragment * over / whole

    # -- how many --------------------------------------------------------------------------------

    def _release(self, cycle: Cycle, memory: KipsMemory, job: Job) -> Reserved | None:
        """Workers above the least go where a job waits; those who use least of theirs first."""
        some = rich(cycle)
        givers = [j for j in some if not self._cools(cycle, memory, j)]
        givers.sort(key=lambda j: self._used(cycle, j) or 0.0)
        held = shrink(cycle, job, givers, needed=cycle.needed(job), restart=self.restart)
        if held is None:
            cools = [memory.adjusted[j.id] for j in some if self._cools(cycle, memory, j)]
            cycle.wakes += [at + self.cool_down for at in cools]
            return None
        memory.adjusted.update(dict.fromkeys(held.awaits, cycle.now))
        return held

    def _scale_in(self, cycle: Cycle, memory: KipsMemory) -> None:
        """Who uses little of what it has can do with fewer workers."""
        for job in rich(cycle):
            used = self._used(cycle, job)
            task = ready(cycle, job)
            # What is heard of a job that has just started again is of its restart, too.
            fresh = memory.since.get(job.id, cycle.now) > cycle.now - 2 * self.interval
            if task is None or used is None or used >= self.low or fresh:
                continue
            count = sum(r.task == task.name for r in cycle.snapshot.placed(job.id))
            surplus = spare(cycle, job)[: count - max(1, ceil(count * used / self.high))]
            if not surplus:
                continue
            names = tuple(r.id for r in surplus)
            why = f"its workers use {used:.0%} of what they may"
            cycle.decisions.append(Scale(job=job.id, task=task.name, remove=names, reason=why))
            memory.adjusted[job.id] = cycle.now

    def _scale_out(self, cycle: Cycle, memory: KipsMemory) -> None:
        """Workers for those who use what they have, the best speed-up for a core first."""
        growth = Growth(cycle, near=True, weigh=True, restart=self.restart)
        gains = []
        for job in cycle.under_way():
            task = ready(cycle, job)
            used = self._used(cycle, job)
            if task is None or used is None or used < self.high:
                continue
            if not self._cools(cycle, memory, job):
                gains.append((growth.speed_up(job, task), job, task, used))
        for _, job, task, used in sorted(gains, key=lambda g: -g[0]):
            count = sum(r.task == task.name for r in cycle.snapshot.placed(job.id))
            growth.add(job, task, most=ceil(count * used / self.high) - count)
        grown = growth.decide("cores that nobody waits for")
        memory.adjusted.update(dict.fromkeys(grown, cycle.now))

    def _looks(self, cycle: Cycle) -> tuple[NodeId, ...]:
        idle = [j for j in cycle.under_way() if (self._used(cycle, j) or 0.0) < self.high]
        there = (r.node for j in idle if elastic(j.spec) for r in cycle.snapshot.placed(j.id))
        return tuple(dict.fromkeys(node for node in there if node is not None))

    def _cools(self, cycle: Cycle, memory: KipsMemory, job: Job) -> bool:
        last = memory.adjusted.get(job.id)
        return last is not None and last + self.cool_down > cycle.now + SLACK

    def _used(self, cycle: Cycle, job: Job) -> float | None:
        """The part that its workers use of what they may; None: not heard yet."""
        used = allowed = 0.0
        for r in cycle.snapshot.placed(job.id):
            ceiling = self._base(cycle, job, r) if r.limit is None else r.limit
            if r.task != SERVER and r.usage is not None and ceiling:
                used, allowed = used + r.usage.cpu, allowed + ceiling
        return used / allowed if allowed else None

    # -- how much CPU ----------------------------------------------------------------------------

    def _base(self, cycle: Cycle, job: Job, r: Replica) -> Cores:
        """What it may use at least; who asks for nothing, as much as it can."""
        task = job.spec.task(r.task)
        asked = task.request.cpu if task.limit is None else task.limit
        return asked or self._most(cycle, job, r)

    def _most(self, cycle: Cycle, job: Job, r: Replica) -> Cores:
        """What it could use at most."""
        told = job.spec.expected.demand if job.spec.expected else None
        node = cycle.room.at(r.node) if r.node else None
        return told or (node.capacity.cpu if node else 0.0)

    def _ceilings(self, cycle: Cycle) -> list[SetShare]:
        """What nobody asks for on a node is shared by its workers, as long as nobody does; who
        waits for slower ones gets no more than they.
        """
        s = cycle.snapshot
        scaled = {d.job for d in cycle.decisions if not isinstance(d, SetShare | Move)}
        nodes = dict.fromkeys((*s.changed.nodes, *cycle.room.touched))
        beside = (s.replicas[r].job for n in nodes for r in s.on_node.get(n, ()))
        found: list[SetShare] = []
        for name in dict.fromkeys((*s.changed.jobs, *beside)):
            job = s.jobs.get(name)
            if job is not None and job.phase is Phase.RUNNING and name not in scaled:
                found += self._raised(cycle, job)
        return found

    def _raised(self, cycle: Cycle, job: Job) -> list[SetShare]:
        workers = [r for r in cycle.snapshot.placed(job.id) if r.task != SERVER]
        if any(r.phase is not Phase.RUNNING for r in workers):
            return []
        rooms = [(self._could(cycle, job, r), self._speed(cycle, r)) for r in workers]
        limits = [cores for cores, _ in rooms]
        if job.spec.speed is not None and job.spec.speed.waits:
            limits = equal_limits(rooms)
        changes = [
            (r, limit)
            for r, limit in zip(workers, limits, strict=True)
            if r.limit is None or abs(limit - r.limit) > SLACK
        ]
        if all(self._near(cycle, job, r, limit) for r, limit in changes):
            return []
        why = "cores that nobody asks for"
        return [
            SetShare(replica=r.id, limit=limit, weight=r.weight, reason=why) for r, limit in changes
        ]

    def _near(self, cycle: Cycle, job: Job, r: Replica, limit: Cores) -> bool:
        """Too little of a change to be worth one."""
        return r.limit is not None and abs(limit - r.limit) <= SAME * self._base(cycle, job, r)

    def _could(self, cycle: Cycle, job: Job, r: Replica) -> Cores:
        s, node = cycle.snapshot, cycle.room.at(r.node) if r.node else None
        base = self._base(cycle, job, r)
        if node is None:
            return base
        spare = max(0.0, node.capacity.cpu - node.taken.cpu)
        beside = sum(s.replicas[o].task != SERVER for o in s.on_node[node.id])
        return max(base, min(base + spare / max(1, beside), self._most(cycle, job, r)))

    def _speed(self, cycle: Cycle, r: Replica) -> float:
        node = cycle.room.at(r.node) if r.node else None
        return node.speed if node else 1.0
