"""The simulated backend: replicas train, share CPU, save checkpoints, migrate and fail.

Nothing happens between events, so that time jumps from one event to the next.
"""

from math import inf
from typing import assert_never

from headway.core.model.decision import (
    Decision,
    Move,
    Outcome,
    Place,
    Scale,
    SetShare,
    Suspend,
    outcome,
)
from headway.core.model.job import Mode, Phase
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import JobId, NodeId, Seconds
from headway.sim.event_queue import (
    ARRIVE,
    FAIL,
    FOREIGN,
    READY,
    REPAIR,
    SAVED,
    TRIGGERS,
    EventQueue,
)
from headway.sim.hosts import Hosts
from headway.sim.scenario import Failure, Scenario
from headway.sim.world_state import SimJob, SimNode

ROUNDING: Seconds = 1e-9
NOT_RUNNING = "it is not running"
NO_NODE = "the node is not available"
NO_CHECKPOINT = "it cannot save checkpoints"


class World:
    def __init__(self, scenario: Scenario, *, reports: bool, record: bool = False) -> None:
        """`reports`: whether the policy reads reports. `record`: keep a trace for charts."""
        self.now: Seconds = 0.0
        self.scenario, self.reports, self._costs = scenario, reports, scenario.costs
        self.jobs: dict[JobId, SimJob] = {}
        self.finished: list[SimJob] = []
        self.stalled = False
        """Whether nothing happens but changes of the foreign load."""
        self.deadlocks = 0
        """Partially started jobs that were requeued."""
        self.events = EventQueue()
        self.hosts = Hosts(scenario, self.events, record=record)
        self.nodes, self.replicas = self.hosts.nodes, self.hosts.replicas
        self.trace = self.hosts.trace
        self._arrived = 0
        self._handlers = (
            self._finish, self._saved, self._ready, self._repair, self._fail, self._arrive,
            self.hosts.set_foreign,
        )  # fmt: skip
        for failure in scenario.failures:
            self.events.push(failure.at, FAIL, failure)
        for load in scenario.foreign:
            self.hosts.next_foreign(self.nodes[load.node], load.changes(scenario.seed))
        self._next_arrival()

    @property
    def over(self) -> bool:
        return len(self.finished) == len(self.scenario.jobs)

    # -- time, for the driver --------------------------------------------------------------------

    def next_at(self) -> Seconds:
        """Return the time of the next event; infinity: none."""
        self.hosts.share_cpu(self.now)
        return self.events.next_at()

    def jump(self) -> Trigger:
        """Go to the event of the last `next_at`, and let all events of that time happen."""
        self.now = self.events.heap[0][0]
        first: int | None = None
        for kind, subject in self.events.pop_until(self.now):
            first = kind if first is None else first
            self._handlers[kind](subject)
        assert first is not None  # noqa: S101 - the driver jumps only to an event
        self.stalled = first == FOREIGN and all(n.due == inf for n in self.nodes.values())
        return TRIGGERS[first]

    # -- the methods of a backend ----------------------------------------------------------------

    def observe(self, look: tuple[NodeId, ...] = ()) -> Observation:
        return self.hosts.observe(self.now, look, reports=self.reports)

    def act(self, decision: Decision) -> Outcome:
        match decision:
            case SetShare():
                why = self._set_share(decision)
            case Place():
                why = self._place(decision)
            case Move():
                why = self._move(decision)
            case Scale():
                why = self._scale(decision)
            case Suspend():
                why = self._suspend(decision)
            case _:
                assert_never(decision)
        return outcome(decision, why)

    # -- decisions -------------------------------------------------------------------------------

    def _set_share(self, d: SetShare) -> str:
        r = self.replicas.get(d.replica)
        if r is None or r.phase is not Phase.RUNNING or r.node is None:
            return NOT_RUNNING
        if (r.limit, r.weight) != (d.limit, d.weight):
            r.limit, r.weight = d.limit, d.weight
            self.hosts.dirty[r.node] = None
            self.hosts.changed_replicas[r] = None
        return ""

    def _place(self, d: Place) -> str:
        job = self.jobs.get(d.job)
        if job is None or not (job.phase is Phase.PENDING or (d.partial and job.partial)):
            return "it is not pending"
        for _, name in d.where:
            node = self.nodes.get(name)
            if node is None or not node.up:
                return NO_NODE
        for replica, name in d.where:
            self.hosts.place(job, replica, self.nodes[name], self.now)
        if d.partial:
            self._join(job)
        else:
            self._start(job)
        return ""

    def _join(self, job: SimJob) -> None:
        """Add a part of a gang: the job starts once it can, and holds its capacity until then."""
        job.partial = not job.whole()
        if job.phase is Phase.RUNNING:
            for r in job.replicas.values():
                if r.phase is Phase.STARTING:
                    r.phase = Phase.RUNNING
                    self.hosts.changed_replicas[r] = None
        elif job.able():
            self._start(job)
        else:
            self.hosts.set_phase(job, Phase.STARTING)

    def _start(self, job: SimJob) -> None:
        if job.started_at is None:
            job.started_at = self.now
        first = (job.arrival.costs or self._costs).start
        self._run_after(job, job.cost(self._costs, "restore") if job.saved else first)

    def _move(self, d: Move) -> str:
        r, to = self.replicas.get(d.replica), self.nodes.get(d.to)
        if r is None or r.phase is not Phase.RUNNING or r.node is to:
            return "it is not running, or is already on that node"
        if to is None or not to.up:
            return NO_NODE
        if r.job.arrival.spec.checkpoint is Mode.NONE:
            return NO_CHECKPOINT
        self._pause(r.job, Phase.MIGRATING)
        r.bound_for = to
        to.replicas[r.id] = r
        self.events.push(self.now + r.job.cost(self._costs, "save"), SAVED, r.job)
        return ""

    def _scale(self, d: Scale) -> str:
        job = self.jobs.get(d.job)
        if job is None or job.phase is not Phase.RUNNING:
            return NOT_RUNNING
        if any(not self.nodes[node].up for _, node in d.add):
            return NO_NODE
        self._pause(job, Phase.STARTING)
        for name in d.remove:
            self.hosts.remove(job.replicas.pop(name), Phase.CANCELLED, self.now)
        for name, node in d.add:
            self.hosts.place(job, name, self.nodes[node], self.now)
        self._run_after(job, self._costs.rescale)
        return ""

    def _suspend(self, d: Suspend) -> str:
        job = self.jobs.get(d.job)
        if job is not None and job.phase is Phase.STARTING and job.partial and not job.able():
            self.deadlocks += 1
            self._requeue(job)
            return ""
        if job is None or job.phase is not Phase.RUNNING:
            return NOT_RUNNING
        if job.arrival.spec.checkpoint is Mode.NONE:
            return NO_CHECKPOINT
        cost = job.cost(self._costs, "save")
        if cost > 0:
            self._pause(job, Phase.SUSPENDING)
        else:  # saved at once; the event only triggers a cycle
            job.advance(self.now)
            job.saved = job.done
            self._requeue(job)
        self.events.push(self.now + cost, SAVED, job)
        return ""

    # -- events ----------------------------------------------------------------------------------

    def _next_arrival(self) -> None:
        if self._arrived < len(self.scenario.jobs):
            arrival = self.scenario.jobs[self._arrived]
            job = SimJob(arrival, self._arrived, self.scenario.seed)
            self._arrived += 1
            self.events.push(arrival.at, ARRIVE, job)

    def _arrive(self, job: SimJob) -> None:
        self.jobs[job.arrival.id] = job
        self.hosts.changed_jobs[job] = None
        self._next_arrival()

    def _finish(self, node: SimNode) -> None:
        for r in list(node.replicas.values()):
            job = r.job
            if job.ends_at <= self.now + ROUNDING:
                job.advance(self.now)
                job.done = job.arrival.work
                self._end(job, Phase.SUCCEEDED)
        self.hosts.dirty[node] = None

    def _end(self, job: SimJob, phase: Phase, reason: str = "") -> None:
        job.phase, job.reason, job.finished_at = phase, reason, self.now
        if job.quality_at is None and phase is Phase.SUCCEEDED:
            job.quality_at = self.now
        job.stop()
        for r in job.replicas.values():
            self.hosts.remove(r, phase, self.now)
            del self.hosts.changed_replicas[r]  # the end of the job implies it
        job.replicas.clear()
        for name in job.idle:
            del self.replicas[name]
        job.forget_log()
        del self.jobs[job.arrival.id]
        self.finished.append(job)
        self.hosts.changed_jobs[job] = None

    def _saved(self, job: SimJob) -> None:
        """The checkpoint is complete: continue on another node, or return to the queue."""
        if not job.phase.in_transit:
            return
        job.saved = job.done
        if any(r.bound_for for r in job.replicas.values()):
            job.moves += 1
            self._run_after(job, job.cost(self._costs, "restore"))
        else:
            self._requeue(job)

    def _ready(self, job: SimJob) -> None:
        """The job is started or restored: from now on it trains."""
        self.hosts.set_phase(job, Phase.RUNNING)
        self.hosts.arrive(job, self.now)

    def _fail(self, failure: Failure) -> None:
        if failure.node is not None:
            node = self.nodes[failure.node]
            node.up = False
            for job in dict.fromkeys(r.job for r in list(node.replicas.values())):
                self._lose(job)
            self.hosts.changed_nodes[node] = None
            self.events.push(self.now + failure.lasts, REPAIR, node)
        elif failure.job in self.jobs and self.jobs[failure.job].replicas:
            job = self.jobs[failure.job]
            job.failures += 1
            self._lose(job)
            if job.failures > job.arrival.spec.backoff_limit:
                self._end(job, Phase.FAILED, f"a replica failed {job.failures} times")

    def _repair(self, node: SimNode) -> None:
        node.up = True
        self.hosts.changed_nodes[node] = None

    # -- transitions -----------------------------------------------------------------------------

    def _lose(self, job: SimJob) -> None:
        """Return to the last checkpoint, and to the queue."""
        job.advance(self.now)
        job.wasted += job.done - job.saved
        job.done = job.saved
        for r in job.replicas.values():
            r.reported_used = r.used  # a process that fails reports nothing more
        self._requeue(job)

    def _run_after(self, job: SimJob, cost: Seconds) -> None:
        """Run after `cost` seconds. If that is at once and the policy reads no reports, there is no
        event: the next observation shows it.
        """
        job.version += 1
        if cost > 0 or self.reports:
            self.hosts.set_phase(job, Phase.STARTING)
            self.events.push(self.now + cost, READY, job)
        else:
            self._ready(job)

    def _pause(self, job: SimJob, phase: Phase) -> None:
        job.advance(self.now)
        job.stop()
        self.hosts.set_phase(job, phase)
        self.hosts.stop_using(job, self.now)

    def _requeue(self, job: SimJob) -> None:
        job.stop()
        for r in job.replicas.values():
            self.hosts.remove(r, Phase.PENDING, self.now)
            job.idle[r.id] = None
        job.replicas.clear()
        job.phase, job.partial = Phase.PENDING, False
        self.hosts.changed_jobs[job] = None
