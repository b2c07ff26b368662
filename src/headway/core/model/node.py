"""A machine that hosts replicas."""

from headway.core.model.serialization import record
from headway.core.model.units import NOTHING, NodeId, Resources


@record
class Node:
    id: NodeId
    capacity: Resources
    speed: float = 1.0
    """Work done by one of its cores in a second."""
    rack: str = ""
    up: bool = True
    taken: Resources = NOTHING
    """Sum of the requests of its replicas. Kept by the loop, not by a backend."""
    nominal: Resources = NOTHING
    """The same as kube-scheduler counts it: who asks for nothing counts as a little."""
    count: int = 0
    """Replicas on it or on their way to it."""
