"""CPU of a node that is free, and the pods that wait for it. In thousandths of a core."""

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.placement.filters import unfit
from headway.backend.kubernetes.placement.node_info import node_of
from headway.backend.kubernetes.placement.quantities import asked
from headway.backend.kubernetes.platform.pod_cpu import milli, whole


def free_cpu(cluster: ClusterCache, name: str) -> int:
    """Return the CPU of a node that no pod requests; 0: unknown to an operator of one namespace."""
    if cluster.namespace and not cluster.run:
        return 0
    taken = sum(asked(pod).get("cpu", 0.0) for pod in cluster.on_node.get(name, {}).values())
    return whole(cluster.node(name)) - milli(taken)


def pending_pod(cluster: ClusterCache, name: str, free: int, room: int) -> str:
    """Return a pending pod that fits `room` but not `free` CPU of a node; "": none."""
    node = cluster.node(name)
    for key, pod in cluster.pods.items():
        if node is None or not _waits(pod):
            continue
        if free < milli(asked(pod).get("cpu", 0.0)) <= room and not unfit(pod, node):
            return "/".join(key)
    return ""


def _waits(pod: Plain) -> bool:
    """Whether a pod waits for kube-scheduler."""
    gated = pod["spec"].get("schedulingGates")
    return pod["status"].get("phase") == "Pending" and not node_of(pod) and not gated
