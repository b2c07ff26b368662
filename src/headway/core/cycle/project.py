"""The snapshot as a plan would leave it: for the next policy of a chain, for dry runs."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from headway.core.cycle.cluster_state import alike_key, requested, with_room
from headway.core.model.decision import Decision, Move, Place, Plan, Scale, SetShare, Suspend
from headway.core.model.job import Job, Phase, Replica
from headway.core.model.snapshot import TABLES, Alike, Derived, Snapshot, Trigger
from headway.core.model.units import NOTHING, JobId, NodeId, ReplicaId

if TYPE_CHECKING:
    from headway.core.model.node import Node

K = TypeVar("K")
V = TypeVar("V")


def project(plan: Plan, snapshot: Snapshot) -> Snapshot:
    """Costs in proportion to the plan; `snapshot` is left as it is.

    `changed` stays what was really seen, so that a policy further down the chain is not woken
    by what has only been decided.
    """
    return Projected(plan, snapshot) if plan.decisions else snapshot


class Projected(Derived):
    """Most policies of a chain find that nothing changed for them, and look no further."""

    def __init__(self, plan: Plan, before: Snapshot) -> None:
        super().__init__(before, before.trigger)
        self.plan = plan

    def only(self, node: NodeId, trigger: Trigger) -> Snapshot:
        """A node where nothing is about to be placed is as it was, if placing is all there is."""
        for d in self.plan.decisions:
            if not isinstance(d, Place) or any(there == node for _, there in d.where):
                return super().only(node, trigger)
        return self.before.only(node, trigger)

    def tables(self) -> dict[str, Any]:
        future = Projection(self.before)
        for decision in self.plan.decisions:
            future.apply(decision)
        return {table: getattr(future, table) for table in TABLES}


class Projection(Snapshot):
    """The snapshot as decisions one after another leave it: for `check`, which takes them so."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.at, self.trigger = snapshot.at, snapshot.trigger
        self.changed, self.requests = snapshot.changed, snapshot.requests
        self.order, self.names = snapshot.order, snapshot.names
        self.nodes: Overlay[NodeId, Node] = Overlay(snapshot.nodes)
        self.jobs: Overlay[JobId, Job] = Overlay(snapshot.jobs)
        self.replicas: Overlay[ReplicaId, Replica] = Overlay(snapshot.replicas)
        self.on_node: Overlay[NodeId, Mapping[ReplicaId, None]] = Overlay(snapshot.on_node)
        self.of_job: Overlay[JobId, Mapping[ReplicaId, None]] = Overlay(snapshot.of_job)
        self.queue: Overlay[JobId, None] = Overlay(snapshot.queue)
        self.alike: Overlay[Alike, list[int]] = Overlay(snapshot.alike)
        self._own: set[Alike] = set()
        """Lists in `alike` that are not those of the snapshot, and may be changed."""

    def apply(self, decision: Decision) -> None:
        """What names somebody unknown changes nothing: `check` refuses it, in words."""
        if not self._knows(decision):
            return
        match decision:
            case SetShare(replica=name, limit=limit, weight=weight):
                self.replicas.put(name, replace(self.replicas[name], limit=limit, weight=weight))
            case Place(job=job, where=where):
                if self.jobs[job].phase is Phase.PENDING:
                    self._set_phase(job, Phase.STARTING)
                self._start(job, where)
            case Move(replica=name, to=to):
                moving = replace(self.replicas[name], phase=Phase.MIGRATING, bound_for=to)
                self.replicas.put(name, moving)
                self._set_phase(moving.job, Phase.MIGRATING)
                self._settle(name, to)
            case Scale(job=job, add=add, remove=remove):
                self._start(job, add)
                for name in remove:
                    self.replicas.put(name, replace(self.replicas[name], phase=Phase.STOPPING))
            case Suspend(job=job):
                self._set_phase(job, Phase.SUSPENDING)
                for name in self.of_job[job]:
                    self.replicas.put(name, replace(self.replicas[name], phase=Phase.SUSPENDING))
            case _:
                assert_never(decision)

    def _knows(self, decision: Decision) -> bool:
        match decision:
            case SetShare(replica=name):
                return name in self.replicas
            case Place(job=job, where=where):
                return job in self.jobs and self._nodes(where)
            case Move(replica=name, to=to):
                return name in self.replicas and to in self.nodes
            case Scale(job=job, add=add, remove=remove):
                there = all(name in self.replicas for name in remove)
                return job in self.jobs and there and self._nodes(add)
            case Suspend(job=job):
                return job in self.jobs
            case _:
                assert_never(decision)

    def _nodes(self, where: tuple[tuple[ReplicaId, NodeId], ...]) -> bool:
        return all(node in self.nodes for _, node in where)

    def _set_phase(self, job: JobId, phase: Phase) -> None:
        self.jobs.put(job, replace(self.jobs[job], phase=phase))
        self.queue.drop(job)

    def _start(self, job: JobId, where: tuple[tuple[ReplicaId, NodeId], ...]) -> None:
        self.of_job.put(job, {**self.of_job[job], **dict.fromkeys(name for name, _ in where)})
        for name, node in where:
            started = Replica(id=name, job=job, task=name.task, node=node, phase=Phase.STARTING)
            self.replicas.put(name, started)
            self._settle(name, node)

    def _settle(self, name: ReplicaId, at: NodeId) -> None:
        """Count a replica in on a node."""
        here = {**self.on_node[at], name: None}
        self.on_node.put(at, here)
        replicas = (self.replicas[other] for other in here)
        asked = (self.jobs[r.job].spec.task(r.task).request for r in replicas)
        requests = [request for request in asked if request is not NOTHING]
        old = self.nodes[at]
        new = with_room(old, *requested(requests, len(here)), len(here))
        self.nodes.put(at, new)
        left = self._alike(alike_key(old))
        del left[bisect_left(left, self.order[at])]
        if not left:
            self.alike.drop(alike_key(old))
            self._own.discard(alike_key(old))
        insort(self._alike(alike_key(new)), self.order[at])

    def _alike(self, key: Alike) -> list[int]:
        """The nodes of a kind, for changing."""
        if key not in self._own:
            self._own.add(key)
            self.alike.put(key, list(self.alike.get(key, ())))
        return self.alike[key]


class Overlay(Mapping[K, V]):
    """`base` as it would be with some entries set and some removed. Never writes to `base`."""

    __slots__ = ("_base", "_removed", "_set")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base
        self._set: dict[K, V] = {}
        self._removed: set[K] = set()

    def put(self, key: K, value: V) -> None:
        self._set[key] = value
        self._removed.discard(key)

    def drop(self, key: K) -> None:
        self._set.pop(key, None)
        if key in self._base:
            self._removed.add(key)

    def __getitem__(self, key: K) -> V:
        if key in self._set:
            return self._set[key]
        if key in self._removed:
            raise KeyError(key)
        return self._base[key]

    def __iter__(self) -> Iterator[K]:
        """Entries of the base keep their place, new ones come last."""
        for key in self._base:
            if key not in self._removed:
                yield key
        for key in self._set:
            if key not in self._base:
                yield key

    def __len__(self) -> int:
        new = sum(key not in self._base for key in self._set)
        return len(self._base) - len(self._removed) + new
