"""What the cluster offers, as events: capacity of nodes, and the nodes that each task may use."""

from collections.abc import Callable, Iterable
from dataclasses import replace

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

SHOWN = 3
"""Reasons in one message."""


class Capacity:
    def __init__(self, cluster: ClusterCache, counted: Callable[[Plain], Resources | None]) -> None:
        """`counted`: what the controller counts for a pod; None: it is no replica of its jobs."""
        self._cluster, self._counted = cluster, counted
        self.nodes: dict[NodeId, Node] = {}
        """As last reported."""
        self.dirty = True
        """Which nodes the tasks of pending jobs may use must be computed again."""

    def all(self) -> list[Node]:
        for _, name in self._cluster.nodes:
            self.renew(name)
        return list(self.nodes.values())

    def renew(self, *names: str) -> list[Event]:
        """Nodes whose capacity without foreign pods has changed."""
        found: list[Event] = []
        for name in dict.fromkeys(names):
            node = self._cluster.nodes.get(("", name))
            if node is None:
                continue
            there = self._cluster.on_node.get(name, {}).values()
            now = to_core(node, (self._taken(pod, node) for pod in there))
            if self.nodes.get(now.id) != now:
                self.nodes[now.id] = now
                found.append(NodeChanged(now))
        return found

    def _taken(self, pod: Plain, node: Plain) -> Resources:
        """What a pod holds beyond what the controller counts: admission may add to its requests.
        What its share adds or takes is not counted, because the sum on the node stays the same.
        """
        counted = self._counted(pod)
        if counted is None:  # what is noted on it is not from Headway
            return resources(asked(pod))
        real = resources(asked(as_declared(checked(pod, node))))
        return Resources(
            cpu=max(0.0, real.cpu - counted.cpu),
            memory=max(0.0, real.memory - counted.memory),
            gpu=max(0.0, real.gpu - counted.gpu),
        )

    def node_changed(self, before: Plain | None, new: Plain | None) -> list[Event]:
        name = NodeId((new or before or {})["metadata"]["name"])
        if new is None or before is None or _offers(before) != _offers(new):
            self.dirty = True
        if new is not None:
            return self.renew(name)
        lost = self.nodes.get(name)
        if lost is None or not lost.up:
            return []
        self.nodes[name] = replace(lost, up=False)
        return [NodeChanged(self.nodes[name])]

    def pod_changed(self, before: Plain | None, new: Plain | None) -> list[Event]:
        return self.renew(*(n for n in (holds(p) for p in (before, new) if p) if n))

    def fitted(self, spec: JobSpec, record: JobStatus) -> JobSpec:
        """With the requests of its pods, and the nodes that each task may use."""
        pods = record.sample_pods()
        return replace(spec, tasks=tuple(self._fitted(t, pods[t.name]) for t in spec.tasks))

    def _fitted(self, task: Task, pod: Plain) -> Task:
        """Sidecars, and limits without requests, count too."""
        nodes = self._cluster.nodes
        good = tuple(NodeId(n) for (_, n), node in nodes.items() if not filters.unfit(pod, node))
        usable = None if len(good) == len(nodes) else good
        return replace(task, request=resources(asked(pod)), nodes=usable)

    def unschedulable(self, pods: Iterable[Plain]) -> str:
        """Why one of these pods fits no node even if the cluster were empty; "": all do."""
        return next((why for pod in pods if (why := self._unschedulable(pod))), "")

    def _unschedulable(self, pod: Plain) -> str:
        counts: dict[str, int] = {}
        for node in self._cluster.nodes.values():
            why = filters.unfit(pod, node)
            if not why:
                return ""
            counts[why] = counts.get(why, 0) + 1
        if not counts:
            return "the cluster has no nodes"
        most = sorted(counts.items(), key=lambda item: -item[1])[:SHOWN]
        total = len(self._cluster.nodes)
        listed = "; ".join(f"{count} of {total} nodes: {why}" for why, count in most)
        return f"no node fits {pod['metadata']['labels'][pod_builder.TASK]}: {listed}"


def _offers(node: Plain) -> tuple[object, ...]:
    """What decides which pods may use a node."""
    spec, about = node["spec"], node["metadata"]
    amounts = node["status"].get("allocatable")
    return spec.get("taints"), spec.get("unschedulable"), about.get("labels"), amounts
