"""What the cluster offers, as events: capacity of nodes, and the nodes that each task may use."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.placement import feasibility, filters
from headway.backend.kubernetes.placement.node_info import node_of, to_core
from headway.backend.kubernetes.placement.quantities import allocatable, asked
from headway.backend.kubernetes.platform import pod_builder
from headway.backend.kubernetes.platform.job_status import JobStatus
from headway.controller.events import Event, NodeChanged
from headway.core.model.job import JobSpec
from headway.core.model.node import Node
from headway.core.model.units import NodeId

SHOWN = 3
"""Reasons in one message."""


class Capacity:
    def __init__(self, cluster: ClusterCache, is_replica: Callable[[Plain], bool]) -> None:
        """`is_replica`: whether a pod is a replica of the controller, which counts it itself."""
        self._cluster, self._is_replica = cluster, is_replica
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
            foreign = [p for p in self._cluster.others(name) if not self._is_replica(p)]
            now = to_core(node, foreign)
            if self.nodes.get(now.id) != now:
                self.nodes[now.id] = now
                found.append(NodeChanged(now))
        return found

    def node_changed(self, before: Plain | None, new: Plain | None) -> list[Event]:
        name = NodeId((new or before or {})["metadata"]["name"])
        if new is None or before is None or feasibility.said(before) != feasibility.said(new):
            self.dirty = True
        if new is not None:
            return self.renew(name)
        lost = self.nodes.get(name)
        if lost is None or not lost.up:
            return []
        self.nodes[name] = replace(lost, up=False)
        return [NodeChanged(self.nodes[name])]

    def pod_changed(self, before: Plain | None, new: Plain | None) -> list[Event]:
        """A pod came, changed or went: what of that matters to other pods."""
        pod, nodes = new or before or {}, [n for n in (node_of(before), node_of(new)) if n]
        if filters.exclusive(pod) or any(self._cluster.is_crowded(n) for n in nodes):
            self.dirty = True
        return [] if self._is_replica(pod) else self.renew(*nodes)

    def something_changed(self, *_: Plain | None) -> list[Event]:
        """A volume, claim or storage class."""
        self.dirty = True
        return []

    def fitted(self, spec: JobSpec, record: JobStatus) -> JobSpec:
        """With the requests of its pods, and the nodes that each task may use."""
        pods = record.sample_pods()
        tasks = (feasibility.fitting(self._cluster, t, pods[t.name]) for t in spec.tasks)
        return replace(spec, tasks=tuple(tasks))

    def unschedulable(self, pods: Iterable[Plain]) -> str:
        """Why one of these pods fits no node even if the cluster were empty; "": all do."""
        return next((why for pod in pods if (why := self._unschedulable(pod))), "")

    def _unschedulable(self, pod: Plain) -> str:
        around = self._cluster.around
        lacking = filters.lacking(pod, around)
        if lacking:
            return lacking
        counts: dict[str, int] = {}
        for (_, name), node in self._cluster.nodes.items():
            others = self._cluster.others(name)
            why = filters.unfit(pod, node, others, around) or _too_small(pod, node)
            if not why:
                return ""
            counts[why] = counts.get(why, 0) + 1
        if not counts:
            return "the cluster has no nodes"
        most = sorted(counts.items(), key=lambda item: -item[1])[:SHOWN]
        total = len(self._cluster.nodes)
        listed = "; ".join(f"{count} of {total} nodes: {why}" for why, count in most)
        about = pod["metadata"]
        which = (about.get("labels") or {}).get(pod_builder.TASK) or about["name"]
        return f"no node fits {which}: {listed}"


def _too_small(pod: Plain, node: Plain) -> str:
    there = allocatable(node)
    for name, amount in asked(pod).items():
        if amount > there.get(name, inf if name == "ephemeral-storage" else 0.0):
            return f"it requests more {name} than the node has"
    return ""
