"""Gangs: a job starts whole or not at all, in order of arrival, with room kept for the first that
finds none. `gang` places replica by replica as kube-scheduler would, `locality` puts them near each
other, with `elastic` they come and go while the job runs. `dragon` is all three together
(CLOSER 2019): docs/papers/dragon.md. The paper mode follows its authors' code; each of its nine
defects is a switch, with its reason in docs/decisions/0023.
"""

from dataclasses import field, replace

from headway.core.model.decision import CALM, Plan
from headway.core.model.job import Job
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import SLACK, JobId, NodeId, Seconds
from headway.policy.common.convergence import Stage, converged, judge
from headway.policy.common.elastic import Growth, rich, shrink
from headway.policy.common.equalize_workers import even
from headway.policy.common.free_capacity import FIXED, Room, Where, spread_out
from headway.policy.common.locality import together
from headway.policy.common.queue_pass import Cycle, JobsMemory
from headway.policy.common.reservation import Reserved


@memory
class GangMemory(JobsMemory):
    stages: dict[JobId, Stage] = field(default_factory=dict)
    looked_at: Seconds = 0.0


@record
class Gang:
    name: str = "gang"
    listens: bool = True
    local: bool = False
    """Near each other, instead of where most is free."""
    elastic: bool = False
    """Workers come and go while a job runs."""
    starve_after: Seconds = 30.0
    """Who has waited this long makes others give workers (1: the code's comment says 60, the
    paper's code 120)."""
    count_ps: bool = True
    """Room is made for the parameter server too (2)."""
    reserve: bool = True
    """Room is kept for the first in line, and what was made for it is its own (3)."""
    carry_on: bool = True
    """Others start though nothing can be done for the first in line (4)."""
    near_ps: bool = True
    """Workers are added beside the parameter server first (5)."""
    by_total: bool = True
    """A gang that needs several nodes begins where most of it fits, not most of one task (6)."""
    most_first: bool = True
    """It goes on where most is free, instead of in any order (7)."""
    tick: bool = True
    """It wakes when somebody has waited long enough, not only when something happens (8)."""
    weigh: bool = True
    """Workers are taken and added only where that gains more than it costs, restarts and all,
    and added only while nobody waits (9)."""
    grow_after: Seconds = 60.0
    """So long after the last change of workers some may be added."""
    restart: Seconds = 10.0
    """What a change of workers costs a job."""
    converged: bool = False
    """Jobs that have converged give first, and get nothing."""
    interval: Seconds = 30.0
    threshold: float = 0.05
    """Growth in an interval, below which a job is on its way to be converged."""

    def begin(self) -> GangMemory:
        return GangMemory()

    def decide(self, snapshot: Snapshot, memory: GangMemory) -> tuple[Plan, GangMemory]:
        cycle = Cycle(snapshot, memory, self.place, fewer=self.elastic, reserve=self.reserve)
        if self.converged:
            self._look(cycle, memory)
        if self.elastic:
            cycle.makers.append(lambda job: self._shrink(cycle, memory, job))
        if snapshot.queue:
            cycle.walk()
        if self.elastic and not cycle.decisions:
            self._grow(cycle, memory)
        cycle.decisions += even(snapshot, snapshot.changed.jobs)
        plan = cycle.plan()
        if self.converged and plan is not CALM:
            plan = replace(plan, look=self._looks(cycle))
        return plan, memory

    def place(self, room: Room, job: Job, fewer: bool) -> Where | None:
        if not self.local:
            return spread_out(room, job, fewer=fewer)
        return together(room, job, fewer=fewer, by_total=self.by_total, most_first=self.most_first)

    # -- elastic ---------------------------------------------------------------------------------

    def _shrink(self, cycle: Cycle, memory: GangMemory, job: Job) -> Reserved | None:
        """Phase 1: make room for one that has waited too long."""
        due = memory.since.get(job.id, job.submitted_at) + self.starve_after
        if due > cycle.now + SLACK:
            if self.tick:
                cycle.wakes.append(due)
            return None
        needed = cycle.needed(job)
        if not self.count_ps:
            workers = tuple(t for t in needed.spec.tasks if t.name not in FIXED)
            needed = replace(needed, spec=replace(needed.spec, tasks=workers or needed.spec.tasks))
        held = shrink(
            cycle,
            job,
            self._givers(cycle, memory),
            needed=needed,
            tidy=self.reserve,
            restart=self.restart if self.weigh else None,
        )
        if held is not None or not self.carry_on:
            memory.acted_at = cycle.now
        cycle.halted = held is None and not self.carry_on
        return held

    def _givers(self, cycle: Cycle, memory: GangMemory) -> list[Job]:
        jobs = rich(cycle)
        if self.converged:
            jobs.sort(key=lambda j: not converged(memory.stages, j.id))
        return jobs

    def _grow(self, cycle: Cycle, memory: GangMemory) -> None:
        """Phase 3: workers for those who run, into what nobody else can use."""
        jobs = [
            job
            for job in cycle.under_way()
            if not (self.converged and converged(memory.stages, job.id))
        ]
        if not jobs or (self.weigh and cycle.snapshot.queue):
            return
        due = (0.0 if memory.acted_at is None else memory.acted_at) + self.grow_after
        if due > cycle.now + SLACK:
            if self.tick:
                cycle.wakes.append(due)
            return
        growth = Growth(cycle, near=self.near_ps, weigh=self.weigh, restart=self.restart)
        if growth.grow(jobs, "room that nobody waits for"):
            memory.acted_at = cycle.now
            if self.tick:
                cycle.wakes.append(cycle.now + self.grow_after)

    # -- convergence ---------------------------------------------------------------------------

    def _look(self, cycle: Cycle, memory: GangMemory) -> None:
        judge(cycle.snapshot, memory.stages, self.interval, self.threshold)
        if len(cycle.snapshot.jobs) > len(cycle.snapshot.queue):
            if memory.looked_at <= cycle.now + SLACK:
                memory.looked_at = cycle.now + self.interval
            cycle.wakes.append(memory.looked_at)

    def _looks(self, cycle: Cycle) -> tuple[NodeId, ...]:
        """One replica of each job tells how far it is."""
        s = cycle.snapshot
        first = (s.placed(job.id)[:1] for job in cycle.under_way())
        return tuple(dict.fromkeys(r.node for some in first for r in some if r.node))


@record
class Dragon(Gang):
    name: str = "dragon"
    local: bool = True
    elastic: bool = True


PAPER = {
    "starve_after": 120.0, "count_ps": False, "reserve": False, "carry_on": False,
    "near_ps": False, "by_total": False, "most_first": False, "tick": False, "weigh": False,
}  # fmt: skip
"""DRAGON as its authors' code has it."""
