"""A machine that hosts replicas."""

from headway.core.model.serialization import record
from headway.core.model.units import NOTHING, NodeId, Resources


@record
class Node:
    id: NodeId
    capacity: Resources
    speed: float = 1.0
    """Work done by one core in a second."""
    rack: str = ""
    up: bool = True
    taken: Resources = NOTHING
    """Sum of the requests of its replicas. Computed by the loop, not by a backend."""
    nominal: Resources = NOTHING
    """The same as kube-scheduler counts it: a replica without requests counts as `NOMINAL`."""
    count: int = 0
    """Replicas on it or migrating to it."""
