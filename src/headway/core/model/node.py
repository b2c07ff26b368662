"""A machine that hosts replicas."""

from headway.core.model.serialization import record
from headway.core.model.units import NOTHING, Bytes, Cores, NodeId, Resources

LEAST_LEFT = 0.05
"""Part of a node that counts as available, however much other processes use."""


@record
class Node:
    id: NodeId
    capacity: Resources
    speed: float = 1.0
    """Work done by one core in a second."""
    rack: str = ""
    up: bool = True
    cordoned: bool = False
    """It is about to go: it takes no new replicas, and those that can continue elsewhere leave."""
    images: tuple[tuple[str, Bytes], ...] = ()
    """Container images that it has, and their sizes."""
    foreign: Cores = 0.0
    """CPU used by processes outside Headway, smoothed. Requests are compared with the capacity."""
    taken: Resources = NOTHING
    """Sum of the requests of its replicas. Computed by the loop, not by a backend."""
    nominal: Resources = NOTHING
    """The same as kube-scheduler counts it: a replica without requests counts as `NOMINAL`."""
    count: int = 0
    """Replicas on it or migrating to it."""

    @property
    def available(self) -> Cores:
        """Cores that other processes leave to replicas."""
        whole = self.capacity.cpu
        return max(LEAST_LEFT * whole, whole - self.foreign) if self.foreign else whole
