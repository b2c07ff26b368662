"""`spread`: kube-scheduler, which knows pods and no jobs. The papers' default scheduler.

It places what fits, pod by pod, so a gang that does not fit as a whole is started in part. A
half-started job holds its room and waits for the rest. Where several wait for each other, none
would ever go on; such a deadlock ends after a while, as if somebody had deleted the youngest.

Which of the pods that wait is tried first when room comes free is there a matter of back-off times.
Here the jobs take turns, one pod of each, in order of arrival.
"""

from collections.abc import Iterator
from dataclasses import field

from headway.core.cycle.capacity_fit import found_room
from headway.core.cycle.cluster_state import with_room
from headway.core.cycle.policy import join
from headway.core.cycle.project import project
from headway.core.cycle.validate import half_started
from headway.core.model.decision import CALM, Place, Plan, Suspend
from headway.core.model.job import Job, Phase, gang, missing
from headway.core.model.node import Node
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NOTHING, SLACK, JobId, NodeId, ReplicaId, Resources, Seconds
from headway.policy.placement.spread import Search

WHY = "the least requested node that has room"


@memory
class PodsMemory:
    partial: dict[JobId, None] = field(default_factory=dict)
    """Jobs that were started in part, in order of their first pod."""
    sent_back: dict[JobId, None] = field(default_factory=dict)
    """Those that ended a deadlock: they wait until nobody is half started."""
    stuck_since: Seconds | None = None


@record
class Pods:
    name: str = "spread"
    listens: bool = False
    patience: Seconds = 300.0
    """A deadlock lasts this long."""
    turns: bool = True
    """Jobs take turns. Else all pods of the first go before those of the second."""

    def begin(self) -> PodsMemory | None:
        return None

    def decide(
        self, snapshot: Snapshot, memory: PodsMemory | None
    ) -> tuple[Plan, PodsMemory | None]:
        """Where nobody is half started, there is nothing to remember."""
        if memory is None and not snapshot.queue:
            return CALM, None
        if memory is None and all(_alone(job) for job in snapshot.waiting):
            return Search(snapshot).plan(WHY), None
        m = memory or PodsMemory()
        m.partial = {j: None for j in m.partial if _waits(j, snapshot)}
        if not m.partial:
            m = PodsMemory()
        places = self._places(snapshot, m)
        plan = Plan(decisions=places) if places else CALM
        if not m.partial:
            return plan, None
        return join([plan, self._deadlock(project(plan, snapshot), m)]), m

    def _places(self, s: Snapshot, m: PodsMemory) -> tuple[Place, ...]:
        search, found = Search(s), []
        lines = self._lines(s, m, search)
        for line in self._turns(lines):
            line.place_one(search)
        for line in lines:
            if line.where:
                if not line.whole:
                    m.partial[line.job.id] = None
                found.append(line.decision())
        return tuple(found)

    def _lines(self, s: Snapshot, m: PodsMemory, search: Search) -> list["_Line"]:
        """Who gets a place for his first pod, or may get one for another."""
        jobs = [s.jobs[j] for j in m.partial]
        jobs += [job for job in s.waiting if job.id not in m.sent_back]
        lines = []
        for job in jobs:
            if not search.hopeless(job):
                line = _Line(job, _wanted(job, s))
                lines.append(line)
                while line.rest:
                    line.place_one(search)
                    if self.turns:
                        break
        return lines

    @staticmethod
    def _turns(lines: list["_Line"]) -> Iterator["_Line"]:
        """One after another, as long as they want something."""
        while lines:
            lines = [line for line in lines if line.rest]
            yield from lines

    def _deadlock(self, s: Snapshot, m: PodsMemory) -> Plan:
        """If there is one: its end, when it is time, and else how long it still lasts."""
        held = [j for j in m.partial if half_started(s.jobs[j], s)]
        if not held or not _deadlocked(held, s):
            m.stuck_since = None
            return CALM
        since = m.stuck_since = s.at if m.stuck_since is None else m.stuck_since
        if s.at < since + self.patience - SLACK:
            return Plan(wake_after=since + self.patience - s.at)
        youngest = held[-1]
        m.stuck_since = None
        m.sent_back[youngest] = None
        end = Suspend(job=youngest, reason="a deadlock: the youngest gives way")
        return Plan(decisions=(end,), wake_after=0.0)


class _Line:
    """The pods of a job that want a place, and those that have found one in this cycle."""

    def __init__(self, job: Job, wanted: tuple[ReplicaId, ...]) -> None:
        self.job, self.wanted = job, len(wanted)
        self.rest = list(reversed(wanted))
        self.where: list[tuple[ReplicaId, NodeId]] = []

    @property
    def whole(self) -> bool:
        return self.job.phase is Phase.PENDING and len(self.where) == self.wanted

    def place_one(self, search: Search) -> None:
        self.where += search.some(self.job, (self.rest.pop(),))

    def decision(self) -> Place:
        there = tuple(self.where)
        return Place(job=self.job.id, where=there, partial=not self.whole, reason=WHY)


def _waits(name: JobId, s: Snapshot) -> bool:
    """Does it hold some of its places and lack others?"""
    job = s.jobs.get(name)
    if job is None or job.phase not in (Phase.STARTING, Phase.RUNNING):
        return False
    return bool(missing(job, {r.id for r in s.placed(name)}))


def _alone(job: Job) -> bool:
    """Nobody to wait for."""
    return len(job.spec.tasks) == 1 and job.spec.tasks[0].replicas == 1


def _wanted(job: Job, s: Snapshot) -> tuple[ReplicaId, ...]:
    if job.phase is Phase.PENDING:
        return gang(job)
    return missing(job, {r.id for r in s.placed(job.id)})


def _deadlocked(held: list[JobId], s: Snapshot) -> bool:
    """Would none of them find its rest even if all others had ended?"""
    taken: dict[NodeId, Resources] = {}
    for job in held:
        for r in s.placed(job):
            assert r.node is not None  # noqa: S101 - the type checker's
            taken[r.node] = taken.get(r.node, NOTHING) + s.request(r)
    rooms = [with_room(n, taken.get(n.id, NOTHING), NOTHING, 0) for n in s.nodes.values() if n.up]
    return not any(_would_fit(s.jobs[j], rooms, s) for j in held)


def _would_fit(job: Job, nodes: list[Node], s: Snapshot) -> bool:
    rest = missing(job, {r.id for r in s.placed(job.id)})
    return found_room([job.spec.task(r.task).request for r in rest], nodes) == len(rest)
