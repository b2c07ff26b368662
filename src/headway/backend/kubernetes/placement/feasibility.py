"""Where pods may go, as the cluster is now."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.placement import filters
from headway.backend.kubernetes.placement.node_info import ready
from headway.backend.kubernetes.placement.quantities import asked, resources
from headway.core.model.job import Task
from headway.core.model.units import NodeId, ReplicaId


def partial(tasks: Sequence[Task], where: Mapping[str, str]) -> str:
    """Whatever a policy may think of it: here no gang is started in part. "": it is whole."""
    named = [ReplicaId(name).task for name in where]
    short = next((t.name for t in tasks if named.count(t.name) < t.least), "")
    return f"a gang is started whole: too few of {short}" if short else ""


def cannot(cluster: ClusterCache, made: Mapping[str, Plain], where: Mapping[str, str]) -> str:
    """Why this gang cannot start there now, which may be later than what the policy saw; "": it
    can.
    """
    beside: dict[str, list[Plain]] = {}
    for name, node in where.items():
        there = cluster.nodes.get(("", node))
        if there is None or not ready(there):
            return f"node {node} is not there"
        here = beside.setdefault(node, [])
        others = [*cluster.others(node), *here]
        pod = made[name]
        why = filters.lacking(pod, cluster.around)
        why = why or filters.unfit(pod, there, others, cluster.around)
        if why:
            return f"{name} cannot go to {node}: {why}"
        here.append(pod)
    return next((w for node, here in beside.items() if (w := cluster.short_of(node, here))), "")


def fitting(cluster: ClusterCache, task: Task, pod: Plain) -> Task:
    """With the nodes that it may go to: the policy is to know. It asks for what its pod asks for:
    sidecars, and limits without requests, count too.
    """
    task = replace(task, request=resources(asked(pod)))
    around, nodes = cluster.around, cluster.nodes
    if filters.lacking(pod, around):
        return replace(task, nodes=())
    good = tuple(
        NodeId(name)
        for (_, name), node in nodes.items()
        if not filters.unfit(pod, node, cluster.others(name), around)
    )
    return replace(task, nodes=None if len(good) == len(nodes) else good)


def said(node: Plain) -> tuple[object, ...]:
    """What of a node matters to who may go there, room apart."""
    spec, about = node["spec"], node["metadata"]
    extended = {k: v for k, v in node["status"].get("allocatable", {}).items() if "/" in k}
    return spec.get("taints"), spec.get("unschedulable"), about.get("labels"), extended
