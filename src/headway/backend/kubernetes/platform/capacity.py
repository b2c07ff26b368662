"""Report the capacity of nodes, and the nodes that each task may use, as events."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.placement import filters
from headway.backend.kubernetes.placement.node_info import holds, to_core
from headway.backend.kubernetes.placement.quantities import asked, resources
from headway.backend.kubernetes.platform import pod_builder
from headway.backend.kubernetes.platform.job_status import JobStatus
from headway.backend.kubernetes.platform.pod_cpu import as_declared, checked
from headway.controller.events import Event, NodeChanged
from headway.core.model.job import JobSpec, Task
from headway.core.model.node import Node
from headway.core.model.units import NodeId, Resources

SHAPES = 1000
"""Maximum number of kept shapes."""
SHOWN = 3
"""Number of reasons in a message."""


class Feasible(NamedTuple):
    nodes: tuple[NodeId, ...]
    whys: Counter[str]
    """Reasons of the other nodes."""


class Capacity:
    def __init__(self, cluster: ClusterCache, counted: Callable[[Plain], Resources | None]) -> None:
        """`counted`: returns the request that the controller counts for a pod; None: the pod is no
        replica of its jobs.
        """
        self._cluster, self._counted = cluster, counted
        self.nodes: dict[NodeId, Node] = {}
        """Nodes as last reported."""
        self.dirty = True
        """Whether the usable nodes of some pending jobs must be computed again."""
        self.generation = 0
        """Number of changes that concern all jobs: of nodes, or of priority classes."""
        self._feasible: dict[str, Feasible] = {}
        """Usable nodes by the shape of a pod, in this generation."""
        self._requests: dict[str, tuple[Plain, Plain, bool, Resources]] = {}
        """Requests of pods by uid, with the pod and the node for which they were computed, and
        whether the controller counts it.
        """

    def all(self) -> list[Node]:
        for _, name in self._cluster.nodes:
            self.renew(name)
        return list(self.nodes.values())

    def renew(self, *names: str) -> list[Event]:
        """Report the nodes whose capacity without foreign pods has changed."""
        found: list[Event] = []
        for name in dict.fromkeys(names):
            node = self._cluster.node(name)
            if node is None:
                continue
            there = self._cluster.on_node.get(name, {}).values()
            now = to_core(node, (self._taken(pod, node) for pod in there))
            if self.nodes.get(now.id) != now:
                self.nodes[now.id] = now
                found.append(NodeChanged(now))
        return found

    def _taken(self, pod: Plain, node: Plain) -> Resources:
        """Return what a pod requests beyond what the controller counts: admission may add to its
        requests. Changes by its share are not counted, because the sum on the node stays the same.
        """
        counted = self._counted(pod)
        real = self._requested(pod, node, ours=counted is not None)
        if counted is None:
            return real
        return Resources(
            cpu=max(0.0, real.cpu - counted.cpu),
            memory=max(0.0, real.memory - counted.memory),
            gpu=max(0.0, real.gpu - counted.gpu),
        )

    def _requested(self, pod: Plain, node: Plain, *, ours: bool) -> Resources:
        """Return what a pod requests. Each change of a pod counts all pods of its node."""
        uid = pod["metadata"]["uid"]
        known = self._requests.get(uid)
        if known is None or known[0] is not pod or known[1] is not node or known[2] != ours:
            # Without `ours`, an annotation on it is not from Headway.
            real = resources(asked(as_declared(checked(pod, node)) if ours else pod))
            known = self._requests[uid] = pod, node, ours, real
        return known[3]

    def node_changed(self, before: Plain | None, new: Plain | None) -> list[Event]:
        name = NodeId((new or before or {})["metadata"]["name"])
        if new is None or before is None or _offers(before) != _offers(new):
            self._changed()
        if new is not None:
            return self.renew(name)
        lost = self.nodes.pop(name, None)
        return [] if lost is None else [NodeChanged(replace(lost, up=False), exists=False)]

    def class_changed(self, before: Plain | None, new: Plain | None) -> list[Event]:
        del before, new
        self._changed()
        return []

    def _changed(self) -> None:
        self.dirty = True
        self.generation += 1
        self._feasible.clear()

    def pod_changed(self, before: Plain | None, new: Plain | None) -> list[Event]:
        if new is None and before is not None:
            self._requests.pop(before["metadata"]["uid"], None)
        return self.renew(*(n for n in (holds(p) for p in (before, new) if p) if n))

    def fitted(self, spec: JobSpec, record: JobStatus) -> JobSpec:
        """Return a job with the requests of its pods, the nodes that each task may use, and the
        highest priority value of its tasks.
        """
        pods = record.sample_pods()
        gang = sum(t.replicas for t in spec.tasks) > 1
        return replace(
            spec,
            tasks=tuple(self._fitted(t, pods[t.name]) for t in spec.tasks),
            class_value=max(self._class_value(pod, gang) for pod in pods.values()),
        )

    def _class_value(self, pod: Plain, gang: bool) -> int:
        """Return the priority that admission will set; 0: the class is unknown and the pod will be
        refused.
        """
        classes = self._cluster.classes
        name = pod["spec"].get("priorityClassName") or (pod_builder.GANG_PRIORITY if gang else "")
        if name:
            return int(classes.get(("", name), {}).get("value", 0))
        return next((int(c["value"]) for c in classes.values() if c.get("globalDefault")), 0)

    def _fitted(self, task: Task, pod: Plain) -> Task:
        """Return a task with the request of its pod, which includes sidecars and limits without
        requests, and with its usable nodes.
        """
        good = self._feasibility(pod).nodes
        usable = None if len(good) == len(self._cluster.nodes) else good
        return replace(task, request=resources(asked(pod)), nodes=usable)

    def _feasibility(self, pod: Plain) -> Feasible:
        """Return the usable nodes of a pod. Pods of the same shape are compared with each node
        once.
        """
        shape = filters.shape(pod)
        if shape not in self._feasible:
            if len(self._feasible) >= SHAPES:
                self._feasible.clear()
            whys = {n: filters.unfit(pod, node) for (_, n), node in self._cluster.nodes.items()}
            good = tuple(NodeId(name) for name, why in whys.items() if not why)
            self._feasible[shape] = Feasible(good, Counter(filter(None, whys.values())))
        return self._feasible[shape]

    def unschedulable(self, pods: Iterable[Plain]) -> str:
        """Return why one of these pods fits no node even of an empty cluster; "": all fit."""
        return next((why for pod in pods if (why := self._unschedulable(pod))), "")

    def _unschedulable(self, pod: Plain) -> str:
        good, counts = self._feasibility(pod)
        if good:
            return ""
        if not counts:
            return "the cluster has no nodes"
        most = counts.most_common(SHOWN)
        total = len(self._cluster.nodes)
        listed = "; ".join(f"{count} of {total} nodes: {why}" for why, count in most)
        return f"no node fits {pod['metadata']['labels'][pod_builder.TASK]}: {listed}"


def _offers(node: Plain) -> tuple[object, ...]:
    """Return the properties of a node on which it depends which pods may use it."""
    spec, about = node["spec"], node["metadata"]
    amounts = node["status"].get("allocatable")
    return spec.get("taints"), spec.get("unschedulable"), about.get("labels"), amounts
