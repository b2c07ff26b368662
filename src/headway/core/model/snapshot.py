"""Observation: what a backend reports in a cycle. Snapshot: everything that a policy can read."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from headway.core.model.capabilities import Capabilities
from headway.core.model.job import Job, JobSpec, Phase, Replica
from headway.core.model.node import Node
from headway.core.model.report import Report
from headway.core.model.serialization import record
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Resources, Seconds, Share

if TYPE_CHECKING:
    from headway.core.cycle.cluster_state import ClusterState


class Trigger(StrEnum):
    """Why a cycle runs."""

    TICK = "tick"
    ARRIVED = "arrived"
    STARTED = "started"
    FINISHED = "finished"
    NODE = "node"
    ASKED = "asked"


@record
class Request:
    """A request of a user: cancel, pause, resume, move `to` a node, or scale a `task` to a `count`.

    The controller also requests: replace lost replicas of a `task` up to a `count`; leave the node
    `to`.
    """

    job: JobId
    wish: str
    to: NodeId | None = None
    task: str = ""
    count: int | None = None


@record
class Observation:
    """Changes since the last observation, or the complete state (`complete`).

    A job or replica that has ended is reported once, in its final phase.
    """

    at: Seconds
    complete: bool = False
    nodes: tuple[Node, ...] = ()
    gone: tuple[NodeId, ...] = ()
    jobs: tuple[Job, ...] = ()
    replicas: tuple[Replica, ...] = ()
    reports: tuple[Report, ...] = ()
    requests: tuple[Request, ...] = ()
    capabilities: Capabilities | None = None
    """Capabilities of the platform; None: unchanged."""


@record
class Changes:
    """Differences from the last snapshot that can affect a decision."""

    nodes: tuple[NodeId, ...] = ()
    """Nodes that joined, left or changed, and nodes whose replicas started, left or ended."""
    jobs: tuple[JobId, ...] = ()
    ended: tuple[Job, ...] = ()


Alike = tuple[object, ...]
"""Key of a kind of node. Nodes with the same capacity, load, rack and images have the same
score."""


class Snapshot:
    """A read-only view, valid for one cycle.

    The mappings are the tables of the loop or, after `project`, overlays on them. A lookup is
    cheap; iterating over all entries is not. Policies must not write to them.
    """

    nodes: Mapping[NodeId, Node]
    jobs: Mapping[JobId, Job]
    replicas: Mapping[ReplicaId, Replica]
    on_node: Mapping[NodeId, Mapping[ReplicaId, None]]
    of_job: Mapping[JobId, Mapping[ReplicaId, None]]
    queue: Mapping[JobId, None]
    """Pending jobs, by priority and then in order of arrival."""
    alike: Mapping[Alike, list[int]]
    """Nodes of each kind, as indices in `names`."""
    order: Mapping[NodeId, int]
    names: list[NodeId]
    """All present and former nodes in the order in which they joined: the inverse of `order`."""
    capabilities: Capabilities
    restricted: Mapping[JobId, Capabilities]
    """Capabilities of jobs for which they differ from the platform's."""

    def __init__(self, s: "ClusterState", trigger: Trigger, changed: Changes) -> None:
        self.at, self.trigger, self.changed, self.requests = s.at, trigger, changed, s.requests
        self.nodes, self.jobs, self.replicas = s.nodes, s.jobs, s.replicas
        self.on_node, self.of_job, self.queue = s.on_node, s.of_job, s.queue
        self.alike, self.order, self.names = s.alike, s.order, s.names
        self.capabilities, self.restricted = s.capabilities, s.restricted

    @property
    def waiting(self) -> Iterator[Job]:
        """Pending jobs, by priority and then in order of arrival."""
        return (self.jobs[j] for j in self.queue)

    @property
    def running(self) -> tuple[Replica, ...]:
        """Running replicas, in order of arrival."""
        return tuple([r for r in self.replicas.values() if r.phase is Phase.RUNNING])

    @property
    def adjustable(self) -> tuple[Replica, ...]:
        """Running replicas whose share can be changed, in order of arrival."""
        if self.restricted or not self.capabilities.shares:
            return tuple([r for r in self.running if self.can(r.job).shares])
        return self.running

    def can(self, job: JobId) -> Capabilities:
        """Return the capabilities for a job."""
        own = self.restricted.get(job)
        return self.capabilities if own is None else self.capabilities & own

    def on(self, node: NodeId) -> tuple[Replica, ...]:
        return tuple(self.replicas[r] for r in self.on_node.get(node, ()))

    def of(self, job: JobId) -> tuple[Replica, ...]:
        return tuple(self.replicas[r] for r in self.of_job.get(job, ()))

    def placed(self, job: JobId) -> tuple[Replica, ...]:
        """Return the replicas that hold capacity. Replicas of a suspended job hold none."""
        return tuple(r for r in self.of(job) if r.node is not None)

    def request(self, replica: Replica) -> Resources:
        return self.jobs[replica.job].spec.task(replica.task).request

    def ceiling(self, replica: Replica) -> Cores | None:
        """Return the limit that the user has set; None: no limit."""
        return self.jobs[replica.job].spec.task(replica.task).limit

    def spec(self, replica: Replica) -> JobSpec:
        """Return the specification of its job."""
        return self.jobs[replica.job].spec

    def used(self, node: NodeId) -> Share:
        """Return the fraction of a node's cores that its replicas used, by their last reports."""
        cpu = sum(r.usage.cpu for r in self.on(node) if r.usage and r.node == node)
        return cpu / self.nodes[node].capacity.cpu if cpu else 0.0

    @property
    def node(self) -> Node:
        """The only node of the snapshot. For policies that decide for one node."""
        (node,) = self.nodes.values()
        return node

    def has(self, node: NodeId) -> bool:
        return node in self.nodes

    def only(self, node: NodeId, trigger: Trigger) -> "Snapshot":
        """Return the part of the snapshot for one node."""
        return OneNode(self, node, trigger)


TABLES = ("nodes", "jobs", "replicas", "on_node", "of_job", "queue", "alike")
"""Tables that a derived snapshot computes. Its other attributes are those of the original."""


class Derived(Snapshot):
    """A snapshot derived from another one. Its tables are computed on first access."""

    def __init__(self, before: Snapshot, trigger: Trigger) -> None:
        self.before, self.trigger, self.at, self.changed = (
            before,
            trigger,
            before.at,
            before.changed,
        )
        self.capabilities, self.restricted = before.capabilities, before.restricted

    def has(self, node: NodeId) -> bool:
        return self.before.has(node)

    @abstractmethod
    def tables(self) -> dict[str, Any]: ...

    def __getattr__(self, name: str) -> Any:
        if name not in TABLES:
            return getattr(self.before, name)
        for table, content in self.tables().items():
            setattr(self, table, content)
        return getattr(self, name)


class OneNode(Derived):
    def __init__(self, before: Snapshot, node: NodeId, trigger: Trigger) -> None:
        super().__init__(before, trigger)
        self.name = node

    @property
    def running(self) -> tuple[Replica, ...]:
        running, there = Phase.RUNNING, self.before.replicas
        here = self.before.on_node[self.name]
        return tuple([r for name in here if (r := there[name]).phase is running])

    @property
    def node(self) -> Node:
        return self.before.nodes[self.name]

    def ceiling(self, replica: Replica) -> Cores | None:
        return self.before.jobs[replica.job].spec.task(replica.task).limit

    def spec(self, replica: Replica) -> JobSpec:
        return self.before.jobs[replica.job].spec

    def tables(self) -> dict[str, Any]:
        before, here = self.before, self.before.on_node[self.name]
        replicas = {r: before.replicas[r] for r in here}
        return {
            "nodes": {self.name: before.nodes[self.name]},
            "jobs": {r.job: before.jobs[r.job] for r in replicas.values()},
            "replicas": replicas,
            "on_node": {self.name: here},
            "of_job": before.of_job,
            "queue": {},
            "alike": before.alike,
        }
