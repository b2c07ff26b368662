"""A platform of nothing but values: for tests, for dry runs, and as the smallest example of a
backend. Time stands still unless somebody sets `now`; what is under way arrives at `settle`.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from headway.backend.base import outcome
from headway.core.model.decision import (
    Decision,
    Move,
    Outcome,
    Place,
    Scale,
    SetShare,
    Suspend,
)
from headway.core.model.job import Job, Mode, Phase, Replica, missing
from headway.core.model.node import Node
from headway.core.model.report import Report
from headway.core.model.snapshot import Observation
from headway.core.model.units import JobId, NodeId, ReplicaId, Seconds


class MemoryBackend:
    def __init__(self, nodes: Iterable[Node], jobs: Iterable[Job] = ()) -> None:
        self.now: Seconds = 0.0
        self.nodes = {n.id: n for n in nodes}
        self.jobs: dict[JobId, Job] = {}
        self.replicas: dict[ReplicaId, Replica] = {}
        self._news: tuple[dict[NodeId, None], dict[JobId, None], dict[ReplicaId, None]]
        self._news = ({}, {}, {})
        self._partial: set[JobId] = set()
        """Jobs that hold room and wait for the rest of their gang."""
        self._reports: list[Report] = []
        self._looked = False
        for job in jobs:
            self.submit(job)

    # -- what happens in the world ---------------------------------------------------------

    def submit(self, job: Job) -> None:
        self._put_job(job)

    def host(self, replica: Replica) -> None:
        """It is there already, whoever started it."""
        self._put(replica)

    def end(self, job: JobId, phase: Phase = Phase.SUCCEEDED) -> None:
        """The job's processes are gone."""
        for r in self._of(job):
            self._put(replace(r, phase=phase, node=None, bound_for=None))
        self._put_job(replace(self.jobs[job], phase=phase))

    def say(self, report: Report) -> None:
        """A replica reports."""
        self._reports.append(report)

    def fail_node(self, node: NodeId) -> None:
        """Its jobs go back into the queue."""
        self.nodes[node] = replace(self.nodes[node], up=False)
        self._news[0][node] = None
        for job in dict.fromkeys(r.job for r in self.replicas.values() if r.node == node):
            self._requeue(job)

    def settle(self) -> None:
        """What was under way arrives: starts run, moves are done, the suspended wait."""
        for r in list(self.replicas.values()):
            if r.job in self._partial:
                continue
            if r.phase is Phase.STARTING or r.bound_for is not None:
                there = r.bound_for or r.node
                self._put(replace(r, phase=Phase.RUNNING, node=there, bound_for=None))
            elif r.phase is Phase.STOPPING:
                self._put(replace(r, phase=Phase.CANCELLED, node=None))  # scaled away
        for job in list(self.jobs.values()):
            if job.phase is Phase.STARTING and job.id not in self._partial:
                self._put_job(replace(job, phase=Phase.RUNNING))
            elif job.phase is Phase.SUSPENDING:
                self._requeue(job.id)

    # -- the backend's two methods -----------------------------------------------------------

    def observe(self, look: tuple[NodeId, ...] = ()) -> Observation:
        del look  # who reports is heard anyway
        nodes, jobs, replicas = self._news
        reports, self._reports = tuple(self._reports), []
        complete, self._looked = not self._looked, True
        seen = Observation(
            at=self.now,
            complete=complete,
            nodes=tuple(self.nodes[n] for n in (self.nodes if complete else nodes)),
            jobs=tuple(self.jobs[j] for j in (self.jobs if complete else jobs)),
            replicas=tuple(self.replicas[r] for r in (self.replicas if complete else replicas)),
            reports=reports,
        )
        self._news = ({}, {}, {})
        self.jobs = {k: j for k, j in self.jobs.items() if not j.phase.ended}
        self.replicas = {k: r for k, r in self.replicas.items() if not r.phase.ended}
        return seen

    def forget(self) -> None:
        """As after a restart of the observer: the next look is complete."""
        self._looked = False

    def act(self, decision: Decision) -> Outcome:
        why = self._carry_out(decision)
        return outcome(decision, why)

    def _carry_out(self, decision: Decision) -> str:
        match decision:
            case SetShare(replica=name, limit=limit, weight=weight):
                r = self._running(name)
                if r is None:
                    return "it is not running"
                self._put(replace(r, limit=limit, weight=weight))
            case Place():
                return self._place(decision)
            case Move(replica=name, to=to):
                return self._move(name, to)
            case Scale(job=job, add=add, remove=remove):
                return self._scale(job, add, remove)
            case Suspend(job=job):
                if job not in self._partial and not self._can_save(job):
                    return "it is not running, or cannot save itself"
                self._put_job(replace(self.jobs[job], phase=Phase.SUSPENDING))
                for r in self._of(job):
                    self._put(replace(r, phase=Phase.SUSPENDING))
            case _:
                assert_never(decision)
        return ""

    # -- acts ----------------------------------------------------------------------------------

    def _place(self, d: Place) -> str:
        found = self.jobs.get(d.job)
        if found is None or not (found.phase is Phase.PENDING or d.job in self._partial):
            return "it is not waiting"
        if not all(self._up(node) for _, node in d.where):
            return "a node is not there"
        self._put_job(replace(found, phase=Phase.STARTING))
        self._start(d.job, d.where)
        self._partial.discard(d.job)
        if d.partial and missing(found, {r.id for r in self._of(d.job) if r.node}):
            self._partial.add(d.job)
        return ""

    def _move(self, name: ReplicaId, to: NodeId) -> str:
        r = self._running(name)
        if r is None or r.node == to or not self._up(to):
            return "it is not running, or there already, or the node is not there"
        if not self._can_save(r.job):
            return "it cannot save itself"
        self._put(replace(r, phase=Phase.MIGRATING, bound_for=to))
        return ""

    def _scale(
        self,
        job: JobId,
        add: tuple[tuple[ReplicaId, NodeId], ...],
        remove: tuple[ReplicaId, ...],
    ) -> str:
        found = self.jobs.get(job)
        if found is None or found.phase is not Phase.RUNNING:
            return "it is not running"
        if not all(self._up(node) for _, node in add) or any(n in self.replicas for n, _ in add):
            return "a node is not there, or the replica is there already"
        self._start(job, add)
        for name in remove:
            self._put(replace(self.replicas[name], phase=Phase.STOPPING))
        return ""

    # -- bookkeeping -----------------------------------------------------------------------------

    def _start(self, job: JobId, where: tuple[tuple[ReplicaId, NodeId], ...]) -> None:
        for name, node in where:
            task = name.task
            most = self.jobs[job].spec.task(task).limit
            self._put(
                Replica(id=name, job=job, task=task, node=node, phase=Phase.STARTING, limit=most)
            )

    def _requeue(self, job: JobId) -> None:
        self._partial.discard(job)
        for r in self._of(job):
            self._put(replace(r, phase=Phase.PENDING, node=None, bound_for=None))
        self._put_job(replace(self.jobs[job], phase=Phase.PENDING))

    def _put(self, replica: Replica) -> None:
        self.replicas[replica.id] = replica
        self._news[2][replica.id] = None

    def _put_job(self, job: Job) -> None:
        self.jobs[job.id] = job
        self._news[1][job.id] = None

    def _of(self, job: JobId) -> list[Replica]:
        return [r for r in self.replicas.values() if r.job == job]

    def _running(self, name: ReplicaId) -> Replica | None:
        r = self.replicas.get(name)
        return r if r is not None and r.phase is Phase.RUNNING else None

    def _can_save(self, job: JobId) -> bool:
        found = self.jobs.get(job)
        return (
            found is not None
            and found.phase is Phase.RUNNING
            and found.spec.checkpoint is not Mode.NONE
        )

    def _up(self, node: NodeId) -> bool:
        return node in self.nodes and self.nodes[node].up
