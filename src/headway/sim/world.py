"""A world that is a backend: replicas train, compete for CPU, checkpoint, move and fail.

Nothing happens between events, so time jumps from one to the next. Rates change only on
nodes where something changed ("dirty"); each of those has one entry on the agenda, for the
first of its jobs to finish. An entry that has been overtaken carries an old version.
"""

from heapq import heappop, heappush
from math import inf
from typing import Any, assert_never

from headway.core.fairness.water_filling import share
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
from headway.core.model.report import Report
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import JobId, NodeId, ReplicaId, Seconds
from headway.sim.scenario import Failure, Scenario
from headway.sim.state import JobState, NodeState, ReplicaState

FINISH, SAVED, READY, REPAIR, FAIL, ARRIVE = range(6)
"""Kinds of event, in the order in which those of one instant happen."""
TRIGGERS = (
    Trigger.FINISHED, Trigger.NODE, Trigger.STARTED, Trigger.NODE, Trigger.NODE, Trigger.ARRIVED,
)  # fmt: skip
ROUNDING: Seconds = 1e-9
LEFT = -1.0
"""In a trace: it is no longer there."""


class World:
    def __init__(self, scenario: Scenario, *, heard: bool, record: bool = False) -> None:
        """`heard`: somebody reads reports. `record`: keep what pictures are made of."""
        self.now: Seconds = 0.0
        self.scenario, self.heard, self._costs = scenario, heard, scenario.costs
        self.nodes = {n.id: NodeState(n) for n in scenario.nodes}
        self.jobs: dict[JobId, JobState] = {}
        self.replicas: dict[ReplicaId, ReplicaState] = {}
        self.finished: list[JobState] = []
        self.trace: list[tuple[Seconds, ReplicaId, NodeId, float]] | None = [] if record else None
        self._agenda: list[tuple[Seconds, int, int, Any, int]] = []
        self._serial = self._arrived = 0
        self.deadlocks = 0
        """Half-started jobs that were sent back into the queue."""
        self._dirty: dict[NodeState, None] = {}
        self._news: tuple[dict[NodeState, None], dict[JobState, None], dict[ReplicaState, None]]
        self._news = ({}, {}, {})
        self._stirred: dict[NodeState, None] = {}
        self._looked = False
        self._handlers = (
            self._finish, self._saved, self._ready, self._repair, self._fail, self._arrive,
        )  # fmt: skip
        for failure in scenario.failures:
            self._push(failure.at, FAIL, failure)
        self._next_arrival()

    @property
    def over(self) -> bool:
        return len(self.finished) == len(self.scenario.jobs)

    # -- time: the driver's side -------------------------------------------------------------

    def next_at(self) -> Seconds:
        """When the next event happens; infinity: never."""
        self._flow()
        agenda = self._agenda
        while agenda and not self._valid(agenda[0]):
            heappop(agenda)
        return agenda[0][0] if agenda else inf

    def jump(self) -> Trigger:
        """Go to the next event and let all of that instant happen."""
        self.now, kind, *_ = self._agenda[0]
        while self._agenda and self._agenda[0][0] <= self.now:
            event = heappop(self._agenda)
            if self._valid(event):
                self._handlers[event[1]](event[3])
        return TRIGGERS[kind]

    def _push(self, at: Seconds, kind: int, what: Any) -> None:
        self._serial += 1
        heappush(self._agenda, (at, kind, self._serial, what, getattr(what, "version", 0)))

    @staticmethod
    def _valid(event: tuple[Seconds, int, int, Any, int]) -> bool:
        return event[1] >= REPAIR or event[3].version == event[4]

    # -- the backend's two methods -----------------------------------------------------------

    def observe(self, look: tuple[NodeId, ...] = ()) -> Observation:
        nodes, jobs, replicas = self._news
        self._news = ({}, {}, {})
        stirred, self._stirred = self._stirred, {}
        complete, self._looked = not self._looked, True
        return Observation(
            at=self.now,
            complete=complete,
            nodes=tuple([n.to_core() for n in (self.nodes.values() if complete else nodes)]),
            jobs=tuple([j.to_core() for j in jobs]),
            replicas=tuple([r.to_core() for r in replicas]),
            reports=self._reports(stirred, look) if self.heard else (),
        )

    def _reports(
        self, stirred: dict[NodeState, None], look: tuple[NodeId, ...]
    ) -> tuple[Report, ...]:
        stirred.update((self.nodes[name], None) for name in look)
        heard = (r for node in stirred for r in node.replicas.values())
        reports = []
        for r in dict.fromkeys(r for r in heard if r.phase is Phase.RUNNING):
            r.job.advance(self.now)
            reports.append(r.report(self.now))
        return tuple([r for r in reports if r is not None])

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

    # -- acts ----------------------------------------------------------------------------------

    def _set_share(self, d: SetShare) -> str:
        r = self.replicas.get(d.replica)
        if r is None or r.phase is not Phase.RUNNING or r.node is None:
            return "it is not running"
        if (r.limit, r.weight) != (d.limit, d.weight):
            r.limit, r.weight = d.limit, d.weight
            self._dirty[r.node] = None
            self._news[2][r] = None
        return ""

    def _place(self, d: Place) -> str:
        job = self.jobs.get(d.job)
        if job is None or not (job.phase is Phase.PENDING or (d.partial and job.partial)):
            return "it is not waiting"
        where = [(name, self.nodes.get(node)) for name, node in d.where]
        if any(node is None or not node.up for _, node in where):
            return "a node is not there"
        for name, node in where:
            assert node is not None  # noqa: S101 - the type checker's
            self._host(job, name, node)
        if d.partial:
            self._join(job)
        else:
            self._start(job)
        return ""

    def _join(self, job: JobState) -> None:
        """A part of a gang has come: the job starts once it can, and holds its room until then."""
        job.partial = not job.whole()
        if job.phase is Phase.RUNNING:
            for r in job.replicas.values():
                if r.phase is Phase.STARTING:
                    r.phase = Phase.RUNNING
                    self._news[2][r] = None
        elif job.able():
            self._start(job)
        else:
            self._set_phase(job, Phase.STARTING)

    def _start(self, job: JobState) -> None:
        if job.started_at is None:
            job.started_at = self.now
        self._begin(job, job.cost(self._costs, "restore") if job.saved else 0.0)

    def _move(self, d: Move) -> str:
        r, to = self.replicas.get(d.replica), self.nodes.get(d.to)
        if r is None or r.phase is not Phase.RUNNING or r.node is to:
            return "it is not running, or there already"
        if to is None or not to.up:
            return "the node is not there"
        if r.job.arrival.spec.checkpoint is Mode.NONE:
            return "it cannot save itself"
        self._pause(r.job, Phase.MIGRATING)
        r.bound_for = to
        to.replicas[r.id] = r
        self._push(self.now + r.job.cost(self._costs, "save"), SAVED, r.job)
        return ""

    def _scale(self, d: Scale) -> str:
        job = self.jobs.get(d.job)
        if job is None or job.phase is not Phase.RUNNING:
            return "it is not running"
        if any(not self.nodes[node].up for _, node in d.add):
            return "a node is not there"
        self._pause(job, Phase.STARTING)
        for name in d.remove:
            self._evict(job.replicas.pop(name), Phase.CANCELLED)
        for name, node in d.add:
            self._host(job, name, self.nodes[node])
        self._begin(job, self._costs.rescale)
        return ""

    def _suspend(self, d: Suspend) -> str:
        job = self.jobs.get(d.job)
        if job is not None and job.phase is Phase.STARTING and job.partial and not job.able():
            self.deadlocks += 1
            self._requeue(job)
            return ""
        if job is None or job.phase is not Phase.RUNNING:
            return "it is not running"
        if job.arrival.spec.checkpoint is Mode.NONE:
            return "it cannot save itself"
        cost = job.cost(self._costs, "save")
        if cost > 0:
            self._pause(job, Phase.SUSPENDING)
        else:  # it is saved at once; the event is for somebody to look again
            job.advance(self.now)
            job.saved = job.done
            self._requeue(job)
        self._push(self.now + cost, SAVED, job)
        return ""

    # -- events --------------------------------------------------------------------------------

    def _next_arrival(self) -> None:
        if self._arrived < len(self.scenario.jobs):
            arrival = self.scenario.jobs[self._arrived]
            job = JobState(arrival, self._arrived, self.scenario.seed)
            self._arrived += 1
            self._push(arrival.at, ARRIVE, job)

    def _arrive(self, job: JobState) -> None:
        self.jobs[job.arrival.id] = job
        self._news[1][job] = None
        self._next_arrival()

    def _finish(self, node: NodeState) -> None:
        for r in list(node.replicas.values()):
            job = r.job
            if job.ends_at <= self.now + ROUNDING:
                job.advance(self.now)
                job.done = job.arrival.work
                self._end(job, Phase.SUCCEEDED)
        self._dirty[node] = None

    def _end(self, job: JobState, phase: Phase, reason: str = "") -> None:
        job.phase, job.reason, job.finished_at = phase, reason, self.now
        if job.quality_at is None and phase is Phase.SUCCEEDED:
            job.quality_at = self.now
        job.stop()
        for r in job.replicas.values():
            self._evict(r, phase)
            del self._news[2][r]  # the end of the job says it all
        job.replicas.clear()
        for name in job.idle:
            del self.replicas[name]
        job.forget_log()
        del self.jobs[job.arrival.id]
        self.finished.append(job)
        self._news[1][job] = None

    def _saved(self, job: JobState) -> None:
        """The checkpoint is written: go on elsewhere, or wait in the queue."""
        if not job.phase.in_transit:
            return
        job.saved = job.done
        if any(r.bound_for for r in job.replicas.values()):
            job.moves += 1
            self._begin(job, job.cost(self._costs, "restore"))
        else:
            self._requeue(job)

    def _ready(self, job: JobState) -> None:
        """Restored, or simply started: from now on it trains."""
        self._set_phase(job, Phase.RUNNING)
        for r in job.replicas.values():
            if r.bound_for is not None and r.node is not None:
                del r.node.replicas[r.id]
                self._stir(r.node)
                self._note(r, LEFT)
                r.node, r.bound_for = r.bound_for, None
            assert r.node is not None  # noqa: S101 - the type checker's
            self._stir(r.node)

    def _fail(self, failure: Failure) -> None:
        if failure.node is not None:
            node = self.nodes[failure.node]
            node.up = False
            for job in dict.fromkeys(r.job for r in list(node.replicas.values())):
                self._lose(job)
            self._news[0][node] = None
            self._push(self.now + failure.lasts, REPAIR, node)
        elif failure.job in self.jobs and self.jobs[failure.job].replicas:
            job = self.jobs[failure.job]
            job.tries += 1
            self._lose(job)
            if job.tries > job.arrival.spec.backoff_limit:
                self._end(job, Phase.FAILED, f"a replica died {job.tries} times")

    def _repair(self, node: NodeState) -> None:
        node.up = True
        self._news[0][node] = None

    def _lose(self, job: JobState) -> None:
        """Back to its last checkpoint, and into the queue."""
        job.advance(self.now)
        job.wasted += job.done - job.saved
        job.done = job.saved
        self._requeue(job)

    # -- bookkeeping -----------------------------------------------------------------------------

    def _host(self, job: JobState, name: ReplicaId, node: NodeState) -> None:
        known = self.replicas.get(name)
        if known is None:
            known = self.replicas[name] = ReplicaState(name, job, node, self.now)
        job.idle.pop(name, None)
        known.node, known.phase = node, Phase.STARTING
        known.heard_at, known.heard_done = self.now, job.done
        known.came_at, known.came_used = self.now, known.used
        job.replicas[name] = node.replicas[name] = known
        self._stir(node)

    def _begin(self, job: JobState, cost: Seconds) -> None:
        """Run after `cost` seconds. Where that is at once, and nobody listens for it, no event
        is made of it: the next look shows it.
        """
        job.version += 1
        if cost > 0 or self.heard:
            self._set_phase(job, Phase.STARTING)
            self._push(self.now + cost, READY, job)
        else:
            self._ready(job)

    def _pause(self, job: JobState, phase: Phase) -> None:
        job.advance(self.now)
        job.stop()
        self._set_phase(job, phase)
        for r in job.replicas.values():
            r.cores = 0.0
            self._note(r, 0.0)
            for node in (r.node, r.bound_for):
                if node is not None:
                    self._stir(node)

    def _requeue(self, job: JobState) -> None:
        job.stop()
        for r in job.replicas.values():
            self._evict(r, Phase.PENDING)
            job.idle[r.id] = None
        job.replicas.clear()
        job.phase, job.partial = Phase.PENDING, False
        self._news[1][job] = None

    def _evict(self, r: ReplicaState, phase: Phase) -> None:
        for node in (r.node, r.bound_for):
            if node is not None:
                del node.replicas[r.id]
                self._dirty[node] = self._stirred[node] = None
        if self.trace is not None:
            self._note(r, LEFT)
        r.left(self.now)
        r.node, r.bound_for, r.cores, r.phase = None, None, 0.0, phase
        self._news[2][r] = None
        if phase.ended:
            del self.replicas[r.id]

    def _set_phase(self, job: JobState, phase: Phase) -> None:
        job.phase = phase
        self._news[1][job] = None
        for r in job.replicas.values():
            r.phase = phase
            self._news[2][r] = None

    def _stir(self, node: NodeState) -> None:
        self._dirty[node] = self._stirred[node] = None

    def _flow(self) -> None:
        """Share the CPU anew on every node where something changed."""
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, {}
        changed: dict[JobState, None] = {}
        for node in dirty:
            self._share(node, changed)
        for job in changed:
            job.set_rate()
        for node in dirty:
            ends = [r.job.ends_at for r in node.replicas.values()]
            first = min(ends) if ends else inf
            if first != node.due or first <= self.now:
                node.due = first
                node.version += 1
                if first < inf:
                    self._push(max(first, self.now), FINISH, node)

    def _share(self, node: NodeState, changed: dict[JobState, None]) -> None:
        running = Phase.RUNNING
        active = [r for r in node.replicas.values() if r.phase is running and r.node is node]
        if not active:
            return
        caps = [r.demand if r.limit is None else min(r.limit, r.demand) for r in active]
        capacity = node.node.capacity.cpu / (1 + self.scenario.contention * (len(active) - 1))
        given = caps
        if sum(caps) > capacity:
            given = share(capacity, caps, [r.weight for r in active])
        for r, cores in zip(active, given, strict=True):
            if cores != r.cores:
                r.job.advance(self.now)
                r.cores = cores
                changed[r.job] = None
                if self.trace is not None:
                    self._note(r, cores)

    def _note(self, r: ReplicaState, cores: float) -> None:
        if self.trace is not None and r.node is not None:
            self.trace.append((self.now, r.id, r.node.node.id, cores))
