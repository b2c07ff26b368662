"""Project a plan: return the snapshot that it leads to, for the next policy of a chain."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from headway.core.cycle.cluster_state import alike_key
from headway.core.cycle.free_capacity import load_of, with_load
from headway.core.model.decision import Decision, Move, Place, Plan, Scale, SetShare, Suspend
from headway.core.model.job import Job, Phase, Replica
from headway.core.model.snapshot import TABLES, Alike, Derived, Snapshot, Trigger
from headway.core.model.units import NOTHING, JobId, NodeId, ReplicaId, Where

if TYPE_CHECKING:
    from headway.core.model.node import Node

K = TypeVar("K")
V = TypeVar("V")


def project(plan: Plan, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot after a plan. The cost is proportional to the size of the plan.

    `changed` keeps the observed changes: a decision alone does not wake a later policy.
    """
    return Projected(plan, snapshot) if plan.decisions else snapshot


class Projected(Derived):
    """The tables are computed on first access: most policies of a chain read none."""

    def __init__(self, plan: Plan, before: Snapshot) -> None:
        super().__init__(before, before.trigger)
        self.plan = plan

    def only(self, node: NodeId, trigger: Trigger) -> Snapshot:
        """Return the snapshot of one node. A plan that only places jobs leaves other nodes
        unchanged.
        """
        for d in self.plan.decisions:
            if not isinstance(d, Place) or any(there == node for _, there in d.where):
                return super().only(node, trigger)
        return self.before.only(node, trigger)

    def tables(self) -> dict[str, Any]:
        projection = Projection(self.before)
        for decision in self.plan.decisions:
            projection.apply(decision)
        return {table: getattr(projection, table) for table in TABLES}


class Projection:
    """Overlays on the tables of a snapshot, to which decisions are applied one after another.

    Unlike `FreeCapacity`, it also covers jobs, replicas, the queue and the index of nodes by kind.
    The load of a node is added up exactly as in `ClusterState`, so that a policy decides the same
    on a projection and on the observation that follows.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.order = snapshot.order
        self.nodes: Overlay[NodeId, Node] = Overlay(snapshot.nodes)
        self.jobs: Overlay[JobId, Job] = Overlay(snapshot.jobs)
        self.replicas: Overlay[ReplicaId, Replica] = Overlay(snapshot.replicas)
        self.on_node: Overlay[NodeId, Mapping[ReplicaId, None]] = Overlay(snapshot.on_node)
        self.of_job: Overlay[JobId, Mapping[ReplicaId, None]] = Overlay(snapshot.of_job)
        self.queue: Overlay[JobId, None] = Overlay(snapshot.queue)
        self.alike: Overlay[Alike, list[int]] = Overlay(snapshot.alike)
        self._own: set[Alike] = set()
        """Keys whose lists in `alike` are copies and can be changed."""

    def apply(self, decision: Decision) -> None:
        """Apply a decision. One about unknown jobs, replicas or nodes changes nothing: `check`
        refuses it.
        """
        if not self._known(decision):
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
                self._add_to_node(name, to)
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

    def _known(self, decision: Decision) -> bool:
        match decision:
            case SetShare(replica=name):
                return name in self.replicas
            case Place(job=job, where=where):
                return job in self.jobs and self._known_nodes(where)
            case Move(replica=name, to=to):
                return name in self.replicas and to in self.nodes
            case Scale(job=job, add=add, remove=remove):
                there = all(name in self.replicas for name in remove)
                return job in self.jobs and there and self._known_nodes(add)
            case Suspend(job=job):
                return job in self.jobs
            case _:
                assert_never(decision)

    def _known_nodes(self, where: Where) -> bool:
        return all(node in self.nodes for _, node in where)

    def _set_phase(self, job: JobId, phase: Phase) -> None:
        self.jobs.put(job, replace(self.jobs[job], phase=phase))
        self.queue.drop(job)

    def _start(self, job: JobId, where: Where) -> None:
        self.of_job.put(job, {**self.of_job[job], **dict.fromkeys(name for name, _ in where)})
        for name, node in where:
            started = Replica(id=name, job=job, task=name.task, node=node, phase=Phase.STARTING)
            self.replicas.put(name, started)
            self._add_to_node(name, node)

    def _add_to_node(self, name: ReplicaId, at: NodeId) -> None:
        here = {**self.on_node[at], name: None}
        self.on_node.put(at, here)
        replicas = (self.replicas[other] for other in here)
        requests = [self.jobs[r.job].spec.task(r.task).request for r in replicas]
        load = load_of([r for r in requests if r is not NOTHING], len(here))
        old, new = self.nodes[at], with_load(self.nodes[at], *load, len(here))
        self.nodes.put(at, new)
        members = self._own_members(alike_key(old))
        del members[bisect_left(members, self.order[at])]
        if not members:
            self.alike.drop(alike_key(old))
            self._own.discard(alike_key(old))
        insort(self._own_members(alike_key(new)), self.order[at])

    def _own_members(self, key: Alike) -> list[int]:
        """Return a list of `alike` that can be changed."""
        if key not in self._own:
            self._own.add(key)
            self.alike.put(key, list(self.alike.get(key, ())))
        return self.alike[key]


class Overlay(Mapping[K, V]):
    """A mapping over `base`, in which entries are set and removed. `base` is never changed."""

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
        """Iterate over the keys of `base` in their order, then over new ones."""
        for key in self._base:
            if key not in self._removed:
                yield key
        for key in self._set:
            if key not in self._base:
                yield key

    def __len__(self) -> int:
        new = sum(key not in self._base for key in self._set)
        return len(self._base) - len(self._removed) + new
