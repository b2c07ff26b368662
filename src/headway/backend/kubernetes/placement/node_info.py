"""The cluster's nodes as the core sees them: the room that other pods leave on each."""

from collections.abc import Iterable

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.placement.quantities import allocatable, resources
from headway.core.model.node import Node
from headway.core.model.units import NodeId, Resources

RACK = "topology.kubernetes.io/zone"
LEAVING = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "cloud.google.com/impending-node-termination",
        "aws-node-termination-handler/spot-itn",
        "node.cloudprovider.kubernetes.io/shutdown",
    }
)
"""Taints of a node that its cluster is about to remove."""
OVER = ("Succeeded", "Failed")


def to_core(node: Plain, taken: Iterable[Resources]) -> Node:
    """Return a node. `taken`: used resources, without the requests that the controller counts."""
    there, used = resources(allocatable(node)), list(taken)
    room = Resources(
        cpu=max(0.0, there.cpu - sum(t.cpu for t in used)),
        memory=max(0.0, there.memory - sum(t.memory for t in used)),
        gpu=max(0.0, there.gpu - sum(t.gpu for t in used)),
    )
    labels = node["metadata"].get("labels") or {}
    return Node(
        id=NodeId(node["metadata"]["name"]),
        capacity=room,
        rack=labels.get(RACK, ""),
        up=ready(node),
        cordoned=bool(node["spec"].get("unschedulable")) or leaving(node),
    )


def leaving(node: Plain) -> bool:
    return any(taint["key"] in LEAVING for taint in node["spec"].get("taints") or ())


def ready(node: Plain) -> bool:
    if node["metadata"].get("deletionTimestamp"):
        return False
    conditions = node["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def node_of(pod: Plain | None) -> str:
    """Return the node to which a pod is bound; "": none."""
    return str(pod["spec"].get("nodeName", "")) if pod else ""


def holds(pod: Plain) -> str:
    """Return the node on which a pod uses resources; "": none. kube-scheduler nominates a node for
    a pod that waits for the end of preempted pods.
    """
    status = pod.get("status", {})
    if status.get("phase") in OVER:
        return ""
    return node_of(pod) or str(status.get("nominatedNodeName", ""))
