"""The cluster's nodes as the core sees them: what is left of each beside the pods of others."""

from collections.abc import Iterable

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.placement.quantities import allocatable, asked, resources
from headway.core.model.node import Node
from headway.core.model.units import NodeId, Resources

RACK = "topology.kubernetes.io/zone"
OVER = ("Succeeded", "Failed")


def to_core(node: Plain, foreign: Iterable[Plain]) -> Node:
    """`foreign`: the pods there that are not for us to place."""
    there = resources(allocatable(node))
    taken = [resources(asked(pod)) for pod in foreign]
    room = Resources(
        cpu=max(0.0, there.cpu - sum(t.cpu for t in taken)),
        memory=max(0.0, there.memory - sum(t.memory for t in taken)),
        gpu=max(0.0, there.gpu - sum(t.gpu for t in taken)),
    )
    labels = node["metadata"].get("labels") or {}
    return Node(
        id=NodeId(node["metadata"]["name"]),
        capacity=room,
        rack=labels.get(RACK, ""),
        up=ready(node),
    )


def ready(node: Plain) -> bool:
    if node["metadata"].get("deletionTimestamp"):
        return False
    conditions = node["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def takes_room(pod: Plain) -> bool:
    """Is it on a node, and not over?"""
    return bool(pod["spec"].get("nodeName")) and pod.get("status", {}).get("phase") not in OVER


def node_of(pod: Plain | None) -> str:
    """Where it is bound to; "": nowhere."""
    return str(pod["spec"].get("nodeName", "")) if pod else ""
