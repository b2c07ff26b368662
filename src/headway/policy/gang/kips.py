"""The adjustment operator (KIPS 2022): tasks of a job near each other; the number of workers and
their CPU follow the load.

A reconstruction: the text (in Korean, with a public abstract) says that it adds affinity and
dynamic allocation, and not how. docs/papers/kips.md; docs/decisions/0024.
"""

from dataclasses import field, replace
from math import ceil, inf

from headway.core.estimate.step_rate import SERVER, equal_limits
from headway.core.model.decision import Move, Plan, Scale, SetShare
from headway.core.model.job import Job, Phase, Replica, Task
from headway.core.model.node import Node
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import SLACK, Cores, JobId, NodeId, Resources, Seconds, Where
from headway.policy.common.elastic import Growth, donors, scalable, shrink, spare
from headway.policy.common.gang_placement import Placed, elastic_task, place_each
from headway.policy.common.node_search import NodeSearch
from headway.policy.common.queue_pass import JobsMemory, QueuePass
from headway.policy.common.reservation import Reserved

SAME = 0.1
"""A limit that changes by less than this fraction of the request is not changed."""


@memory
class KipsMemory(JobsMemory):
    adjusted: dict[JobId, Seconds] = field(default_factory=dict)
    """When the workers of each job were last changed."""
    due: Seconds = 0.0
    looks: tuple[NodeId, ...] = ()
    """Nodes that must report before the next adjustment: those of jobs below high usage."""


@record
class Kips:
    about = "workers and their CPU by load (reconstruction of KIPS 2022)"
    name: str = "kips"
    listens: bool = True
    interval: Seconds = 15.0
    """Time between adjustments; the end of a job also triggers one."""
    cool_down: Seconds = 60.0
    """Least time between two changes of a job's workers."""
    low: float = 0.3
    """A job whose workers use less than this fraction of their CPU loses workers."""
    high: float = 0.8
    """A job whose workers use more than this fraction of their CPU may get more workers."""
    affinity: float = 1.0
    """Weight of other tasks of the job on a node, in the score of the node."""
    free: float = 0.3
    """Weight of the free CPU of a node, in the score of the node."""
    fragment: float = 0.2
    """Weight of the CPU that would be left over on a node, in the score of the node."""
    restart: Seconds = 10.0
    """Cost of a change of workers to a job."""
    workers: bool = True
    """Change the number of workers."""
    ceilings: bool = True
    """Change the CPU limit of workers."""

    def begin(self) -> KipsMemory:
        return KipsMemory()

    def decide(self, snapshot: Snapshot, memory: KipsMemory) -> tuple[Plan, KipsMemory]:
        queue = QueuePass(snapshot, memory, self.place, fewer=True)
        for gone in [j for j in memory.adjusted if j not in snapshot.jobs]:
            del memory.adjusted[gone]
        if self.workers:
            queue.preempt.append(lambda job: self._shrink(queue, memory, job))
        if snapshot.queue:
            queue.walk()
        due = bool(snapshot.changed.ended) or memory.due <= queue.now + SLACK
        if due:
            self._adjust(queue, memory)
        if self.ceilings and (due or queue.decisions or snapshot.changed.jobs):
            queue.decisions += self._limits(queue)
        if snapshot.jobs:
            queue.wakes.append(memory.due)
        plan = queue.plan()
        return (replace(plan, look=memory.looks) if memory.looks else plan), memory

    def _adjust(self, queue: QueuePass, memory: KipsMemory) -> None:
        memory.due = queue.now + self.interval
        memory.looks = self._looks(queue)
        if self.workers and not queue.decisions:
            self._scale_in(queue, memory)
        if self.workers and not queue.snapshot.queue and not queue.decisions:
            self._scale_out(queue, memory)

    # -- placement -------------------------------------------------------------------------------

    def place(self, free: NodeSearch, job: Job, fewer: bool) -> Where | None:
        """Place parameter servers first, then each worker on the node with the best score."""
        return place_each(free, job, fewer=fewer, best=self._best)

    def _best(self, free: NodeSearch, task: Task, placed: Placed) -> Node | None:
        there = [(name.task, node) for name, node in placed]
        own, request = free.named(dict.fromkeys(n for _, n in there)), task.request
        nodes = {n.id: n for n in (*own, *free.candidates())}.values()
        able = [n for n in nodes if n.up and request.fits(n.taken, n.capacity)]
        order = free.snapshot.order
        return max(able, key=lambda n: (self._score(n, request, there), -order[n.id]), default=None)

    def _score(self, node: Node, request: Resources, there: list[tuple[str, NodeId]]) -> float:
        here = [task for task, name in there if name == node.id]
        near = 1.0 if SERVER in here else len(here) / max(1, len(there))
        whole = node.capacity.cpu or 1.0
        left = max(0.0, node.capacity.cpu - node.taken.cpu - request.cpu)
        over = left % request.cpu if request.cpu else 0.0
        return self.affinity * near + self.free * left / whole - self.fragment * over / whole

    # -- number of workers -----------------------------------------------------------------------

    def _shrink(self, queue: QueuePass, memory: KipsMemory, job: Job) -> Reserved | None:
        """Remove workers above the minimum for a pending job, those with the lowest usage first."""
        candidates = donors(queue)
        givers = [j for j in candidates if not self._cools(queue, memory, j)]
        givers.sort(key=lambda j: self._used(queue, j) or 0.0)
        reserved = shrink(queue, job, givers, needed=queue.needed(job), restart=self.restart)
        if reserved is None:
            cooling = [memory.adjusted[j.id] for j in candidates if self._cools(queue, memory, j)]
            queue.wakes += [at + self.cool_down for at in cooling]
            return None
        memory.adjusted.update(dict.fromkeys(reserved.awaits, queue.now))
        return reserved

    def _scale_in(self, queue: QueuePass, memory: KipsMemory) -> None:
        """Remove workers from jobs with low usage."""
        for job in donors(queue):
            used = self._used(queue, job)
            task = scalable(queue, job)
            # The usage of a job that has just restarted includes its restart.
            restarted = memory.since.get(job.id, queue.now) > queue.now - 2 * self.interval
            if task is None or used is None or used >= self.low or restarted:
                continue
            count = sum(r.task == task.name for r in queue.snapshot.placed(job.id))
            surplus = spare(queue, job)[: count - max(1, ceil(count * used / self.high))]
            if not surplus:
                continue
            names = tuple(r.id for r in surplus)
            why = f"its workers use {used:.0%} of their CPU"
            queue.decisions.append(Scale(job=job.id, task=task.name, remove=names, reason=why))
            memory.adjusted[job.id] = queue.now

    def _scale_out(self, queue: QueuePass, memory: KipsMemory) -> None:
        """Add workers to jobs with high usage, the largest speed-up per core first."""
        growth = Growth(queue, weigh=True, restart=self.restart)
        gains = []
        for job in queue.active():
            task = scalable(queue, job)
            used = self._used(queue, job)
            if task is None or used is None or used < self.high:
                continue
            if not self._cools(queue, memory, job):
                gains.append((growth.speed_up(job, task), job, task, used))
        for _, job, task, used in sorted(gains, key=lambda g: -g[0]):
            count = sum(r.task == task.name for r in queue.snapshot.placed(job.id))
            growth.add(job, task, most=ceil(count * used / self.high) - count)
        grown = growth.decide("uses idle cores")
        memory.adjusted.update(dict.fromkeys(grown, queue.now))

    def _looks(self, queue: QueuePass) -> tuple[NodeId, ...]:
        idle = [j for j in queue.active() if (self._used(queue, j) or 0.0) < self.high]
        there = (r.node for j in idle if elastic_task(j.spec) for r in queue.snapshot.placed(j.id))
        return tuple(dict.fromkeys(node for node in there if node is not None))

    def _cools(self, queue: QueuePass, memory: KipsMemory, job: Job) -> bool:
        last = memory.adjusted.get(job.id)
        return last is not None and last + self.cool_down > queue.now + SLACK

    def _used(self, queue: QueuePass, job: Job) -> float | None:
        """Return the fraction of their CPU that its workers use; None: no report yet."""
        used = allowed = 0.0
        for r in queue.snapshot.placed(job.id):
            limit = self._base(queue, job, r) if r.limit is None else r.limit
            if r.task != SERVER and r.usage is not None and limit:
                used, allowed = used + r.usage.cpu, allowed + limit
        return used / allowed if allowed else None

    # -- CPU limits ------------------------------------------------------------------------------

    def _base(self, queue: QueuePass, job: Job, r: Replica) -> Cores:
        """Return its smallest limit: as requested, or all that it can use."""
        task = job.spec.task(r.task)
        requested = task.request.cpu if task.limit is None else task.limit
        return requested or self._most(queue, job, r)

    def _most(self, queue: QueuePass, job: Job, r: Replica) -> Cores:
        """Return the most cores that it can use."""
        declared = job.spec.expected.demand if job.spec.expected else None
        node = _node(queue, r)
        return declared or (node.capacity.cpu if node else 0.0)

    def _limits(self, queue: QueuePass) -> list[SetShare]:
        """Let workers share the CPU of a node that is not requested, as long as it is not; a worker
        that waits for slower ones gets no more than they.
        """
        s = queue.snapshot
        scaled = {d.job for d in queue.decisions if not isinstance(d, SetShare | Move)}
        nodes = dict.fromkeys((*s.changed.nodes, *queue.free.touched))
        beside = (s.replicas[r].job for n in nodes for r in s.on_node.get(n, ()))
        found: list[SetShare] = []
        for name in dict.fromkeys((*s.changed.jobs, *beside)):
            job = s.jobs.get(name)
            if job is None or name in scaled or not s.can(name).shares:
                continue
            if job.phase is Phase.RUNNING:
                found += self._raised(queue, job)
        return found

    def _raised(self, queue: QueuePass, job: Job) -> list[SetShare]:
        workers = [r for r in queue.snapshot.placed(job.id) if r.task != SERVER]
        if any(r.phase is not Phase.RUNNING for r in workers):
            return []
        limits = [self._could(queue, job, r) for r in workers]
        if job.spec.speed is not None and job.spec.speed.waits:
            nodes = [_node(queue, r) for r in workers]
            speeds = [node.speed if node else 1.0 for node in nodes]
            limits = equal_limits(list(zip(limits, speeds, strict=True)))
        changes, close = [], True
        for r, limit in zip(workers, limits, strict=True):
            change = inf if r.limit is None else abs(limit - r.limit)
            if change > SLACK:
                why = "shares cores that are not requested"
                changes.append(SetShare(replica=r.id, limit=limit, weight=r.weight, reason=why))
                close = close and change <= SAME * self._base(queue, job, r)
        return [] if close else changes

    def _could(self, queue: QueuePass, job: Job, r: Replica) -> Cores:
        s, node = queue.snapshot, _node(queue, r)
        base = self._base(queue, job, r)
        if node is None:
            return base
        idle = max(0.0, node.capacity.cpu - node.taken.cpu)
        beside = sum(s.replicas[o].task != SERVER for o in s.on_node[node.id])
        return max(base, min(base + idle / max(1, beside), self._most(queue, job, r)))


def _node(queue: QueuePass, r: Replica) -> Node | None:
    return queue.free.node(r.node) if r.node else None
