"""A machine that hosts replicas."""

from headway.core.model.serialization import record
from headway.core.model.units import NOTHING, Bytes, Cores, NodeId, Resources

LEAST_LEFT = 0.05
"""Fraction of a node that is always counted as available."""


@record
class Node:
    id: NodeId
    capacity: Resources
    speed: float = 1.0
    """Work done by one core in a second."""
    rack: str = ""
    up: bool = True
    cordoned: bool = False
    """The node takes no new replicas. Replicas that can continue on other nodes leave it."""
    images: tuple[tuple[str, Bytes], ...] = ()
    """Container images on the node, and their sizes."""
    foreign: Cores = 0.0
    """CPU that processes outside Headway use, smoothed. Requests do not consider it."""
    taken: Resources = NOTHING
    """Sum of the requests of the replicas on the node. The loop computes it, not the backend."""
    nominal: Resources = NOTHING
    """The same sum by the rules of kube-scheduler: without requests, a replica counts `NOMINAL`."""
    count: int = 0
    """Number of replicas on the node or migrating to it."""

    @property
    def available(self) -> Cores:
        """Cores that other processes leave to replicas."""
        whole = self.capacity.cpu
        return max(LEAST_LEFT * whole, whole - self.foreign) if self.foreign else whole
