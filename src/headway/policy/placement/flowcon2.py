"""FlowCon 2.0: FlowCon on each node, and placement by its categories.

A reconstruction: the text (IEEE TCC 2022) says that jobs' evaluation functions serve "placement
decisions and resource allocations", and not how: docs/papers/flowcon2.md.
"""

from dataclasses import fields

from headway.core.cycle.policy import PerNode, PerNodeMemory, join
from headway.core.cycle.project import project
from headway.core.estimate.category import WEIGHTS, Category
from headway.core.model.decision import CALM, Plan
from headway.core.model.node import Node
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import Cores, Resources
from headway.policy.placement.even import Search
from headway.policy.share.flowcon import FlowCon, FlowConMemory, FlowConSettings


@record
class FlowCon2(FlowConSettings):
    about = "flowcon, and jobs placed where they get most CPU (reconstruction of TCC 2022)"
    name: str = "flowcon2"
    listens: bool = True
    rule: str = "share"
    """Where to place a new job: by the largest `share` that FlowCon would give it, or by the lowest
    `pressure` in SpeCon's weights."""

    def begin(self) -> PerNodeMemory:
        return self._nodes().begin()

    def decide(self, snapshot: Snapshot, memory: PerNodeMemory) -> tuple[Plan, PerNodeMemory]:
        places = CALM
        if snapshot.queue:
            places = _CategorySearch(self, snapshot, memory).plan(self._why())
        shares, memory = self._nodes().decide(project(places, snapshot), memory)
        return join([places, shares]), memory

    def on_a_node(self) -> FlowCon:
        return FlowCon(**{f.name: getattr(self, f.name) for f in fields(FlowConSettings)})

    def _nodes(self) -> PerNode[FlowConMemory]:
        return PerNode(self.on_a_node())

    def _why(self) -> str:
        if self.rule == "pressure":
            return "the node with the least competition for its speed"
        return "the node with the largest share for a new job"


class _CategorySearch(Search):
    """Ranks nodes by the categories of their replicas."""

    def __init__(self, policy: FlowCon2, snapshot: Snapshot, memory: PerNodeMemory) -> None:
        super().__init__(snapshot)
        self.rule, self.flowcon, self.memory = policy.rule, policy.on_a_node(), memory

    def candidates(self) -> list[Node]:
        return self.every()

    def rank(self, node: Node, request: Resources) -> tuple[float, ...]:  # noqa: ARG002
        s = self.snapshot
        best = -self._pressure(node) if self.rule == "pressure" else self._share(node)
        return best, -s.used(node.id), -node.count, -s.order[node.id]

    def _share(self, node: Node) -> Cores:
        """Return what a growing replica would get, by Algorithm 1: converged replicas keep their
        floor, and the others share the rest.
        """
        converged = self._categories(node).count(Category.CONVERGED)
        kept = converged * self.flowcon.floor(node.count + 1)
        return _speed(node) * max(0.0, 1 - kept) / (node.count - converged + 1)

    def _pressure(self, node: Node) -> float:
        """Count the new replica too, so that the faster of two idle nodes is better."""
        new = Category.GROWING
        return sum(WEIGHTS[c] for c in [new, *self._categories(node)]) / (_speed(node) or 1e-9)

    def _categories(self, node: Node) -> list[Category]:
        """Return the category of each replica on the node or migrating to it."""
        there: FlowConMemory | None = self.memory.members.get(node.id)
        known = there.categories if there else {}
        found = [known.get(r, Category.GROWING) for r in self.snapshot.on_node[node.id]]
        return found + [Category.GROWING] * (node.count - len(found))


def _speed(node: Node) -> Cores:
    return node.capacity.cpu * node.speed
