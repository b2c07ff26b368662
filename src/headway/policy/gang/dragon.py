"""Gangs start as a whole, in order of arrival, with a reservation for the head of the queue. `gang`
places replica by replica as kube-scheduler would, `locality` places them near each other, and
`elastic` adds and removes them while the job runs. `dragon` combines all three (CLOSER 2019):
docs/papers/dragon.md. The paper mode follows its authors' code; each of its nine defects is a
switch, explained in docs/decisions/0023.
"""

from dataclasses import field, replace

from headway.core.estimate.category import Category, by_growth
from headway.core.estimate.progress import progress
from headway.core.model.decision import CALM, Plan
from headway.core.model.job import Job
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import SLACK, JobId, NodeId, Seconds, Where
from headway.policy.common.elastic import Growth, donors, shrink
from headway.policy.common.equalize_workers import equalize
from headway.policy.common.gang_placement import FIXED, place_each
from headway.policy.common.locality import place_together
from headway.policy.common.node_search import NodeSearch
from headway.policy.common.queue_pass import JobsMemory, QueuePass
from headway.policy.common.reservation import Reserved


@memory
class Stage:
    """SpeCon's category, for a job instead of a replica."""

    category: Category = Category.GROWING
    growth: float | None = None
    judged_at: Seconds = 0.0


@memory
class GangMemory(JobsMemory):
    stages: dict[JobId, Stage] = field(default_factory=dict)
    next_look: Seconds = 0.0

    def converged(self, job: Job) -> bool:
        stage = self.stages.get(job.id)
        return stage is not None and stage.category is Category.CONVERGED


@record
class Gang:
    about = "whole gangs in order of arrival, with a reservation for the first that waits"
    name: str = "gang"
    listens: bool = True
    local: bool = False
    """Place replicas near each other, instead of on the least requested nodes."""
    elastic: bool = False
    """Add and remove workers while a job runs."""
    starve_after: Seconds = 30.0
    """A job that has waited this long takes workers from others (defect 1: 60 in the comment of the
    paper's code, 120 in the code)."""
    count_ps: bool = True
    """Make room for the parameter server too (defect 2)."""
    reserve: bool = True
    """Reserve capacity for the head of the queue, also what was freed for it (defect 3)."""
    carry_on: bool = True
    """Start other jobs if nothing can be done for the head of the queue (defect 4)."""
    near_ps: str = "first"
    """Add workers beside the parameter server: `first`, `only` (the paper's code), or `off`: on any
    node (the rewrite, defect 5)."""
    by_total: bool = True
    """Start a gang that needs several nodes where most of the gang fits, not most of one task
    (defect 6)."""
    most_first: bool = True
    """Continue where most is free, instead of in any order (defect 7)."""
    tick: bool = True
    """Wake when a job has waited long enough, not only at events (defect 8)."""
    weigh: bool = True
    """Add and remove workers only if the gain exceeds the cost of restarts, and add them only while
    no job is pending (defect 9)."""
    grow_after: Seconds = 60.0
    """Time from a change of workers until more may be added."""
    restart: Seconds = 10.0
    """Cost of a change of workers to a job."""
    converged: bool = False
    """Take workers from converged jobs first, and add none to them."""
    interval: Seconds = 30.0
    """Interval over which growth is measured."""
    threshold: float = 0.05
    """Growth in an interval, below which a job is converging."""

    def begin(self) -> GangMemory:
        return GangMemory()

    def decide(self, snapshot: Snapshot, memory: GangMemory) -> tuple[Plan, GangMemory]:
        queue = QueuePass(snapshot, memory, self.place, fewer=self.elastic, reserve=self.reserve)
        if self.converged:
            self._judge(queue, memory)
        if self.elastic:
            queue.preempt.append(lambda job: self._shrink(queue, memory, job))
        if snapshot.queue:
            queue.walk()
        if self.elastic and not queue.decisions:
            self._grow(queue, memory)
        queue.decisions += equalize(snapshot, snapshot.changed.jobs)
        plan = queue.plan()
        if self.converged and plan is not CALM:
            plan = replace(plan, look=self._look(queue))
        return plan, memory

    def place(self, free: NodeSearch, job: Job, fewer: bool) -> Where | None:
        if not self.local:
            return place_each(free, job, fewer=fewer)
        return place_together(
            free, job, fewer=fewer, by_total=self.by_total, most_first=self.most_first
        )

    # -- elastic ---------------------------------------------------------------------------------

    def _shrink(self, queue: QueuePass, memory: GangMemory, job: Job) -> Reserved | None:
        """Phase 1: free capacity for a job that has waited too long."""
        due = memory.since.get(job.id, job.submitted_at) + self.starve_after
        if due > queue.now + SLACK:
            if self.tick:
                queue.wakes.append(due)
            return None
        needed = queue.needed(job)
        if not self.count_ps:
            workers = tuple(t for t in needed.spec.tasks if t.name not in FIXED)
            needed = replace(needed, spec=replace(needed.spec, tasks=workers or needed.spec.tasks))
        givers, restart = donors(queue), self.restart if self.weigh else None
        if self.converged:
            givers.sort(key=lambda j: not memory.converged(j))
        reserved = shrink(queue, job, givers, needed=needed, tidy=self.reserve, restart=restart)
        if reserved is not None or not self.carry_on:
            memory.acted_at = queue.now
        queue.halted = reserved is None and not self.carry_on
        return reserved

    def _grow(self, queue: QueuePass, memory: GangMemory) -> None:
        """Phase 3: add workers where no pending job fits."""
        jobs = [j for j in queue.active() if not (self.converged and memory.converged(j))]
        if not jobs or (self.weigh and queue.snapshot.queue):
            return
        due = (0.0 if memory.acted_at is None else memory.acted_at) + self.grow_after
        if due > queue.now + SLACK:
            if self.tick:
                queue.wakes.append(due)
            return
        growth = Growth(queue, near=self.near_ps, weigh=self.weigh, restart=self.restart)
        if growth.grow(jobs, "uses idle capacity"):
            memory.acted_at = queue.now
            if self.tick:
                queue.wakes.append(queue.now + self.grow_after)

    # -- convergence -----------------------------------------------------------------------------

    def _judge(self, queue: QueuePass, memory: GangMemory) -> None:
        s = queue.snapshot
        for gone in [name for name in memory.stages if name not in s.jobs]:
            del memory.stages[gone]
        for job in queue.active():
            self._categorise(job, s, memory.stages)
        if len(s.jobs) > len(s.queue):
            if memory.next_look <= queue.now + SLACK:
                memory.next_look = queue.now + self.interval
            queue.wakes.append(memory.next_look)

    def _categorise(self, job: Job, s: Snapshot, stages: dict[JobId, Stage]) -> None:
        """Update the stage of a job with reports of two intervals since the last update."""
        stage = stages.get(job.id)
        if stage and stage.judged_at > s.at - self.interval:
            return
        history = next((r.history for r in s.placed(job.id) if r.history.windows), None)
        seen = history and progress(history, s.at, self.interval, sign=job.spec.direction.sign)
        if not seen:
            return
        stage = stages.setdefault(job.id, Stage())
        before, stage.growth, stage.judged_at = stage.growth, seen.growth, s.at
        shrinking = before is not None and (seen.growth < before or seen.growth == 0)
        stage.category = by_growth(stage.category, seen.growth, self.threshold, shrinking=shrinking)

    def _look(self, queue: QueuePass) -> tuple[NodeId, ...]:
        """Return the node of one replica of each active job; its reports are enough."""
        s = queue.snapshot
        first = (s.placed(job.id)[:1] for job in queue.active())
        return tuple(dict.fromkeys(r.node for some in first for r in some if r.node))


@record
class Dragon(Gang):
    about = "gang, locality and elastic combined (CLOSER 2019)"
    name: str = "dragon"
    local: bool = True
    elastic: bool = True


PAPER = {
    "starve_after": 120.0, "count_ps": False, "reserve": False, "carry_on": False,
    "near_ps": "only", "by_total": False, "most_first": False, "tick": False, "weigh": False,
}  # fmt: skip
"""DRAGON as in its authors' code."""
