"""Search nodes for free capacity.

Nodes of one kind (same capacity, load and rack) have the same rank, so that only the first of each
kind is examined: a search costs in proportion to the number of kinds, not of nodes.
"""

from collections.abc import Iterable
from itertools import islice

from headway.core.cycle.free_capacity import NOMINAL, FreeCapacity, slots
from headway.core.model.job import Task
from headway.core.model.node import Node
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NodeId, Resources


class NodeSearch(FreeCapacity):
    """Free capacity, with the snapshot's index of nodes by kind."""

    ranks = True

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot.nodes)
        self.snapshot = snapshot

    def rank(self, node: Node, request: Resources) -> tuple[float, ...]:
        """Rank by free capacity and balance. Ties: fewest replicas, then the order of the file."""
        return score(node, request), -node.count, -self.snapshot.order[node.id]

    def best(self, task: Task) -> Node | None:
        """Return the node with the highest rank on which a replica of the task fits."""
        best: Node | None = None
        best_rank: tuple[float, ...] = ()
        request = task.request
        for node in self.candidates() if task.nodes is None else self.named(task.nodes):
            if node.up and request.fits(node.taken, node.capacity):
                rank = self.rank(node, request)
                if rank > best_rank:
                    best, best_rank = node, rank
        return best

    def named(self, names: Iterable[NodeId]) -> list[Node]:
        return [node for name in names if (node := self.node(name))]

    def every(self) -> list[Node]:
        return [self.touched.get(name, node) for name, node in self.nodes.items()]

    def candidates(self) -> list[Node]:
        """Return the first untouched node of each kind, and all touched nodes."""
        s, touched = self.snapshot, self.touched
        if not touched:
            return [s.nodes[s.names[alike[0]]] for alike in s.alike.values()]
        names = (
            next((s.names[i] for i in alike if s.names[i] not in touched), None)
            for alike in s.alike.values()
        )
        return [*(s.nodes[name] for name in names if name is not None), *touched.values()]

    def able(self, requests: Iterable[Resources], most: int) -> list[Node]:
        """Return nodes on which one of these requests fits, at most `most` of each kind."""
        s, touched, found = self.snapshot, self.touched, []
        distinct = list(dict.fromkeys(requests))

        def fits(node: Node) -> bool:
            return node.up and any(r.fits(node.taken, node.capacity) for r in distinct)

        for alike in s.alike.values():
            if not fits(s.nodes[s.names[alike[0]]]) and not touched:
                continue
            untouched = (s.names[i] for i in alike if s.names[i] not in touched)
            for name in islice(untouched, most):
                if not fits(s.nodes[name]):
                    break
                found.append(s.nodes[name])
        return found + [node for node in touched.values() if fits(node)]

    def slots(self, request: Resources) -> float:
        """Return how many replicas with this request fit, on all nodes together."""
        s, touched = self.snapshot, self.touched
        total = 0.0
        for alike in s.alike.values():
            free = [i for i in alike if s.names[i] not in touched] if touched else alike
            if free:
                total += len(free) * slots(s.nodes[s.names[free[0]]], request)
        return total + sum(slots(node, request) for node in touched.values())


def score(node: Node, request: Resources) -> float:
    """LeastAllocated plus BalancedAllocation of Kubernetes 1.17, not rounded: 0 to 200, with the
    new pod counted in.
    """
    there, used = node.capacity, node.nominal
    cpu = (used.cpu + (request.cpu or NOMINAL.cpu)) / (there.cpu or 1e-9)
    memory = (used.memory + (request.memory or NOMINAL.memory)) / (there.memory or 1e-9)
    if cpu < 1 and memory < 1:
        return 200 - 50 * (cpu + memory) - 100 * abs(cpu - memory)
    return 100 - 50 * (min(1.0, cpu) + min(1.0, memory))
