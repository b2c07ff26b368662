"""Place jobs where fair sharing would have placed them, because guarantees assume that.

Under a policy that finishes jobs in another order, nodes become free in another order too, and
`even` would place new jobs on other nodes than in the reference world. Some would then have more
competition than their guarantees assume. So each node is scored by its jobs in the reference world.
"""

from typing import Any

from headway.core.cycle.free_capacity import load_of, with_load
from headway.core.cycle.policy import PerNode, PerNodeMemory, join
from headway.core.cycle.project import project
from headway.core.fairness.reference import ReferenceJobs
from headway.core.model.decision import CALM, Plan
from headway.core.model.node import Node
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NOTHING, NodeId, Seconds
from headway.policy.placement.even import Search
from headway.policy.share.headway import HeadwayMemory


class FairPlacement:
    """Placement for `headway`, whose memory of a node contains a reference world."""

    def __init__(self, inner: PerNode[Any], name: str = "", *, reserve: bool = False) -> None:
        """`reserve`: as in `Even`."""
        self.inner, self.name, self.listens = inner, name or inner.name, inner.listens
        self.reserve = reserve

    def begin(self) -> PerNodeMemory:
        return self.inner.begin()

    def decide(self, snapshot: Snapshot, memory: PerNodeMemory) -> tuple[Plan, PerNodeMemory]:
        places = CALM
        if snapshot.queue:
            search = _ReferenceSearch(snapshot, memory.members)
            places = search.plan("where fair sharing would place it", reserve=self.reserve)
        shares, memory = self.inner.decide(project(places, snapshot), memory)
        return join([places, shares]), memory


class _ReferenceSearch(Search):
    """The nodes with their real free capacity and the jobs of the reference world."""

    def __init__(self, snapshot: Snapshot, worlds: dict[NodeId, HeadwayMemory]) -> None:
        super().__init__(snapshot)
        self.nodes = {
            name: _occupied(node, worlds[name].reference, snapshot.at) if name in worlds else node
            for name, node in snapshot.nodes.items()
        }

    def candidates(self) -> list[Node]:
        return self.every()


def _occupied(node: Node, reference: ReferenceJobs, now: Seconds) -> Node:
    there = [job for job in reference.values() if not (job.sure and job.due <= now)]
    requests = [job.request for job in there if job.request != NOTHING]
    _, nominal = load_of(requests, len(there))
    return with_load(node, node.taken, nominal, len(there))
