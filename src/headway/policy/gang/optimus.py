"""Optimus (EuroSys 2018): in each slot, workers go to the jobs whose remaining time they shorten
most.

Each job first gets its minimum, in order of arrival; then one worker at a time goes to the job with
the largest marginal gain: the time saved per dominant share of the cluster that it takes. Speed and
size are declared here; Optimus fits them to measurements.
"""

from dataclasses import field
from heapq import heapify, heappop, heappush

from headway.core.model.decision import Plan, Scale
from headway.core.model.job import Job, Task
from headway.core.model.node import Node
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NOTHING, SLACK, JobId, Resources, Seconds, Where
from headway.policy.common.elastic import Growth, scalable, spare
from headway.policy.common.equalize_workers import equalize
from headway.policy.common.gang_placement import elastic_task, with_workers
from headway.policy.common.locality import place_together
from headway.policy.common.node_search import NodeSearch
from headway.policy.common.packing import gang_request
from headway.policy.common.queue_pass import SETTLE, JobsMemory, QueuePass
from headway.policy.common.rate_model import Layout, left, rate


@memory
class OptimusMemory(JobsMemory):
    targets: dict[JobId, int] = field(default_factory=dict)
    """Number of workers for each job."""
    slot: Seconds = 0.0
    """When the next slot begins."""


@record
class Optimus:
    about = "workers to the jobs that gain most (EuroSys 2018)"
    name: str = "optimus"
    listens: bool = True
    interval: Seconds = 600.0
    """Length of a slot: time between allocations."""
    prompt: bool = True
    """Start a job that arrives within a slot at once if it fits; otherwise in the next slot."""
    weigh: bool = True
    """Change the workers of a job only if that saves more time than the restart costs."""
    restart: Seconds = 10.0
    """Cost of a change of workers to a job."""

    def begin(self) -> OptimusMemory:
        return OptimusMemory()

    def decide(self, snapshot: Snapshot, memory: OptimusMemory) -> tuple[Plan, OptimusMemory]:
        begins = memory.slot <= snapshot.at + SLACK

        def place(free: NodeSearch, job: Job, fewer: bool) -> Where | None:
            target = memory.targets.get(job.id)
            sized = job if target is None else with_workers(job, target)
            return place_together(free, sized, fewer=fewer)

        queue = QueuePass(snapshot, memory, place, fewer=True)
        if begins:
            memory.slot = snapshot.at + self.interval
            memory.targets = self._allocate(queue)
            self._take(queue, memory)
        if snapshot.queue and (begins or self.prompt):
            queue.walk()
        if not queue.decisions:
            self._add(queue, memory)
        queue.decisions += equalize(snapshot, snapshot.changed.jobs)
        if snapshot.jobs:
            queue.wakes.append(memory.slot)
        if any(isinstance(d, Scale) and d.remove for d in queue.decisions):
            queue.wakes.append(queue.now + SETTLE)
        return queue.plan(), memory

    # -- allocation ------------------------------------------------------------------------------

    def _allocate(self, queue: QueuePass) -> dict[JobId, int]:
        """Return the number of workers for each elastic job, as if the cluster were one node."""
        s = queue.snapshot
        jobs = [*queue.active(), *s.waiting]
        nodes = [n for n in s.nodes.values() if n.up]
        total = sum((n.capacity for n in nodes), NOTHING)
        used, targets = NOTHING, dict[JobId, int]()
        for job in jobs:
            request = gang_request(with_workers(job).spec)
            if request.fits(used, total):
                used = used + request
                task = elastic_task(job.spec)
                if task is not None:
                    targets[job.id] = task.least
        if nodes:
            self._share_out(s, targets, used, total, nodes[0])
        return targets

    def _share_out(
        self,
        s: Snapshot,
        targets: dict[JobId, int],
        used: Resources,
        total: Resources,
        sample: Node,
    ) -> None:
        heap = [
            (-gain, i, name)
            for i, name in enumerate(targets)
            if (gain := _gain(s.jobs[name], targets[name], total, sample)) > 0
        ]
        heapify(heap)
        while heap:
            _, i, name = heappop(heap)
            job = s.jobs[name]
            task = elastic_task(job.spec)
            assert task is not None  # noqa: S101 - it has a target
            if not task.request.fits(used, total):
                continue
            used = used + task.request
            targets[name] += 1
            if (gain := _gain(job, targets[name], total, sample)) > 0:
                heappush(heap, (-gain, i, name))

    # -- adding and removing workers -------------------------------------------------------------

    def _wanting(self, queue: QueuePass, memory: OptimusMemory) -> list[tuple[Job, Task, int]]:
        """Return the jobs that can be scaled, with the number of workers to add or remove."""
        found = []
        for job in queue.active():
            task, target = scalable(queue, job), memory.targets.get(job.id)
            if task is not None and target is not None:
                count = sum(r.task == task.name for r in queue.snapshot.placed(job.id))
                found.append((job, task, target - count))
        return found

    def _take(self, queue: QueuePass, memory: OptimusMemory) -> None:
        why = "its workers save more time in other jobs"
        for job, task, more in self._wanting(queue, memory):
            names = tuple(r.id for r in spare(queue, job)[: max(0, -more)])
            if names:
                queue.decisions.append(Scale(job=job.id, task=task.name, remove=names, reason=why))

    def _add(self, queue: QueuePass, memory: OptimusMemory) -> None:
        growth = Growth(queue, weigh=self.weigh, restart=self.restart)
        growth.free = queue.unreserved
        for job, task, more in self._wanting(queue, memory):
            growth.add(job, task, most=more)
        growth.decide("saves most time per resource")


def _gain(job: Job, count: int, total: Resources, sample: Node) -> float:
    """Return the seconds that one more worker saves, per dominant share that it takes."""
    task, work = elastic_task(job.spec), left(job)
    if task is None or work is None or count >= task.most:
        return 0.0
    now = rate(job, _layout(job, task, count, sample))
    then = rate(job, _layout(job, task, count + 1, sample))
    if now <= 0 or then <= 0:
        return 0.0
    r = task.request
    parts = ((r.cpu, total.cpu), (r.memory, total.memory), (r.gpu, total.gpu))
    dominant = max((ask / have for ask, have in parts if have), default=0.0)
    return (work / now - work / then) / (dominant or 1.0)


def _layout(job: Job, task: Task, count: int, node: Node) -> Layout:
    """Return `count` workers and the other tasks, all on one node."""
    fixed = [t.name for t in job.spec.tasks if t is not task for _ in range(t.replicas)]
    return [(name, node, None) for name in (*fixed, *[task.name] * count)]
