"""Optimus (EuroSys 2018): each slot, workers go to whom they shorten the rest most.

Every job first gets the least that it can run with, in order of arrival; then one worker at a time
goes to the job with the largest marginal gain: the time that it saves for the dominant part of the
cluster that it takes. Speed and size are told here, where Optimus fits them to what it measures.
"""

from dataclasses import field, replace
from heapq import heapify, heappop, heappush

from headway.core.model.decision import Plan, Scale
from headway.core.model.job import Job, Task
from headway.core.model.node import Node
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NOTHING, SLACK, JobId, Resources, Seconds
from headway.policy.common.elastic import Growth, ready, spare
from headway.policy.common.equalize_workers import even
from headway.policy.common.free_capacity import Room, Where, elastic
from headway.policy.common.locality import together
from headway.policy.common.queue_pass import SETTLE, Cycle, JobsMemory
from headway.policy.common.rate_model import Crew, left, rate


@memory
class OptimusMemory(JobsMemory):
    targets: dict[JobId, int] = field(default_factory=dict)
    """How many workers each job is to have."""
    slot: Seconds = 0.0
    """When the next slot begins."""


@record
class Optimus:
    name: str = "optimus"
    listens: bool = True
    interval: Seconds = 600.0
    """Between two allocations."""
    prompt: bool = True
    """Who arrives within a slot starts at once where there is room; else with the next slot."""
    weigh: bool = True
    """A job's workers are changed only if that saves more than the restart costs."""
    restart: Seconds = 10.0

    def begin(self) -> OptimusMemory:
        return OptimusMemory()

    def decide(self, snapshot: Snapshot, memory: OptimusMemory) -> tuple[Plan, OptimusMemory]:
        begins = memory.slot <= snapshot.at + SLACK

        def place(room: Room, job: Job, fewer: bool) -> Where | None:
            return together(room, self._sized(job, memory), fewer=fewer)

        cycle = Cycle(snapshot, memory, place, fewer=True)
        if begins:
            memory.slot = snapshot.at + self.interval
            memory.targets = self._allocate(cycle)
            self._take(cycle, memory)
        if snapshot.queue and (begins or self.prompt):
            cycle.walk()
        if not cycle.decisions:
            self._add(cycle, memory)
        cycle.decisions += even(snapshot, snapshot.changed.jobs)
        if snapshot.jobs:
            cycle.wakes.append(memory.slot)
        if any(isinstance(d, Scale) and d.remove for d in cycle.decisions):
            cycle.wakes.append(cycle.now + SETTLE)
        return cycle.plan(), memory

    def _sized(self, job: Job, memory: OptimusMemory) -> Job:
        """The job with as many workers as it is to have."""
        task, target = elastic(job.spec), memory.targets.get(job.id)
        if task is None or target is None:
            return job
        tasks = tuple(replace(t, replicas=target) if t is task else t for t in job.spec.tasks)
        return replace(job, spec=replace(job.spec, tasks=tasks))

    # -- allocation ------------------------------------------------------------------------------

    def _allocate(self, cycle: Cycle) -> dict[JobId, int]:
        """How many workers each elastic job is to have, as if the cluster were one node."""
        s = cycle.snapshot
        jobs = [*cycle.under_way(), *s.waiting]
        nodes = [n for n in s.nodes.values() if n.up]
        total = NOTHING
        for node in nodes:
            total = total + node.capacity
        used, targets = NOTHING, dict[JobId, int]()
        for job in jobs:
            least = _asked(job)
            if least.fits(used, total):
                used = used + least
                task = elastic(job.spec)
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
            task = elastic(job.spec)
            assert task is not None  # noqa: S101 - it has a target
            if not task.request.fits(used, total):
                continue
            used = used + task.request
            targets[name] += 1
            if (gain := _gain(job, targets[name], total, sample)) > 0:
                heappush(heap, (-gain, i, name))

    # -- carrying it out -------------------------------------------------------------------------

    def _take(self, cycle: Cycle, memory: OptimusMemory) -> None:
        for job in cycle.under_way():
            task, target = ready(cycle, job), memory.targets.get(job.id)
            if task is None or target is None:
                continue
            names = [r.id for r in cycle.snapshot.placed(job.id) if r.task == task.name]
            surplus = spare(cycle, job)[: max(0, len(names) - target)]
            if surplus:
                cycle.decisions.append(
                    Scale(
                        job=job.id,
                        task=task.name,
                        remove=tuple(r.id for r in surplus),
                        reason="others gain more by them",
                    )
                )

    def _add(self, cycle: Cycle, memory: OptimusMemory) -> None:
        growth = Growth(cycle, near=True, weigh=self.weigh, restart=self.restart)
        growth.room = cycle.strict
        for job in cycle.under_way():
            task, target = ready(cycle, job), memory.targets.get(job.id)
            if task is not None and target is not None:
                names = [r for r in cycle.snapshot.placed(job.id) if r.task == task.name]
                growth.add(job, task, most=target - len(names))
        growth.decide("the largest gain for what it takes")


def _asked(job: Job) -> Resources:
    """By the smallest gang that it can run with."""
    total, scaled = NOTHING, elastic(job.spec)
    for task in job.spec.tasks:
        for _ in range(task.least if task is scaled else task.replicas):
            total = total + task.request
    return total


def _gain(job: Job, count: int, total: Resources, sample: Node) -> float:
    """Seconds that one more worker saves, for the dominant part of the cluster that it takes."""
    task, work = elastic(job.spec), left(job)
    if task is None or work is None or count >= task.most:
        return 0.0
    now, then = (
        rate(job, _crew(job, task, count, sample)),
        rate(job, _crew(job, task, count + 1, sample)),
    )
    if now <= 0 or then <= 0:
        return 0.0
    r = task.request
    parts = ((r.cpu, total.cpu), (r.memory, total.memory), (r.gpu, total.gpu))
    dominant = max((ask / have for ask, have in parts if have), default=0.0)
    return (work / now - work / then) / (dominant or 1.0)


def _crew(job: Job, task: Task, count: int, node: Node) -> Crew:
    """So many workers, all on one node."""
    fixed = [
        (t.name, node, None) for t in job.spec.tasks if t is not task for _ in range(t.replicas)
    ]
    return [*fixed, *((task.name, node, None) for _ in range(count))]
