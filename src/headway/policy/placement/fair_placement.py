"""Jobs go where they would have gone under fair sharing: the promises are made there.

Under a policy that finishes jobs in another order, nodes empty in another order too, and plain
`spread` would send newcomers elsewhere than in the reference world; some would then meet more
competition than they were promised against. So each node is scored by its occupants *there*.
"""

from typing import Any, Protocol

from headway.core.cycle.cluster_state import requested, with_room
from headway.core.cycle.policy import PerNode, PerNodeMemory, join
from headway.core.cycle.project import project
from headway.core.fairness.reference import ReferenceJobs
from headway.core.model.decision import CALM, Plan
from headway.core.model.node import Node
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NOTHING, NodeId, Seconds
from headway.policy.placement.spread import Search


class Remembers(Protocol):
    """A node's memory that holds a reference world."""

    shadows: ReferenceJobs


class AsFair:
    """Placement for a policy for one node whose memory holds a reference world."""

    def __init__(self, inner: PerNode[Any], name: str = "") -> None:
        self.inner, self.name, self.listens = inner, name or inner.name, inner.listens

    def begin(self) -> PerNodeMemory:
        return self.inner.begin()

    def decide(self, snapshot: Snapshot, memory: PerNodeMemory) -> tuple[Plan, PerNodeMemory]:
        places = CALM
        if snapshot.queue:
            places = _There(snapshot, memory.members).plan("where fair sharing would have put it")
        shares, memory = self.inner.decide(project(places, snapshot), memory)
        return join([places, shares]), memory


class _There(Search):
    """The nodes with the room that they really have and the occupants of the reference world."""

    def __init__(self, snapshot: Snapshot, worlds: dict[NodeId, Remembers]) -> None:
        super().__init__(snapshot)
        self.nodes = {
            name: _occupied(node, worlds[name].shadows, snapshot.at) if name in worlds else node
            for name, node in snapshot.nodes.items()
        }

    def candidates(self) -> list[Node]:
        return [self.there(name) for name in self.nodes]

    def there(self, name: NodeId) -> Node:
        return self.touched.get(name) or self.nodes[name]


def _occupied(node: Node, shadows: ReferenceJobs, now: Seconds) -> Node:
    there = [s for s in shadows.values() if not (s.sure and s.due <= now)]
    asking = [s.request for s in there if s.request != NOTHING]
    _, nominal = requested(asking, len(there))
    return with_room(node, node.taken, nominal, len(there))
