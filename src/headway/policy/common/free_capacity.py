"""Room for whole gangs: the nodes as the decisions of this cycle so far would leave them.

One search serves every policy that starts, shrinks or grows jobs. It asks each *kind* of node
once (`Search.candidates`), so that a thousand like nodes cost as much as one.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from math import floor, inf

from headway.core.cycle.cluster_state import with_room
from headway.core.model.job import Job, JobSpec, Replica, Task
from headway.core.model.node import Node
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import SLACK, NodeId, ReplicaId, Resources
from headway.policy.placement.spread import Search, _loaded

Where = tuple[tuple[ReplicaId, NodeId], ...]
Shape = tuple[str | float, ...]
TRIES = 300
"""Steps after which a search for a way to place a gang is given up."""
FIXED = ("ps", "chief")
"""Tasks whose replicas are never added or taken: a job stands and falls with them."""


@record
class Release:
    """Room that would be free again: a replica that ends, goes, or is suspended."""

    replica: ReplicaId
    node: NodeId
    request: Resources


class Room(Search):
    """May be copied, taken from and given back to; the snapshot is left as it is."""

    def __init__(self, snapshot: Snapshot, before: "Room | None" = None) -> None:
        super().__init__(snapshot)
        if before is not None:
            self.touched = dict(before.touched)

    def copy(self) -> "Room":
        return Room(self.snapshot, self)

    def at(self, node: NodeId) -> Node | None:
        return self.touched.get(node) or self.snapshot.nodes.get(node)

    def free(self, node: NodeId, request: Resources) -> float:
        """How many replicas that ask for this have room there."""
        there = self.at(node)
        return 0.0 if there is None else slots(there, request)

    def take(self, node: NodeId, request: Resources) -> None:
        there = self.at(node)
        if there is not None:
            self.touched[node] = _loaded(there, request)

    def give(self, node: NodeId, request: Resources) -> None:
        there = self.at(node)
        if there is not None:
            taken, nominal = there.taken - request, there.nominal - request
            self.touched[node] = with_room(there, taken, nominal, there.count - 1)
            self.full.clear()

    def take_all(self, spec: JobSpec, where: Where) -> None:
        for name, node in where:
            self.take(node, spec.task(name.task).request)

    def best(self, task: Task) -> Node | None:
        """As kube-scheduler ranks them."""
        return self._best(task.request, task.nodes)

    def able(self, requests: Iterable[Resources], most: int) -> list[Node]:
        """Nodes with room for one of these, at most so many of each kind."""
        s, touched, found = self.snapshot, self.touched, []
        asked = list(dict.fromkeys(requests))

        def fits(node: Node) -> bool:
            return node.up and any(r.fits(node.taken, node.capacity) for r in asked)

        for alike in s.alike.values():
            if not fits(s.nodes[s.names[alike[0]]]) and not touched:
                continue
            fresh = (s.names[i] for i in alike if s.names[i] not in touched)
            for name in islice(fresh, most):
                if not fits(s.nodes[name]):
                    break
                found.append(s.nodes[name])
        return found + [node for node in touched.values() if fits(node)]

    def slots(self, request: Resources) -> float:
        """How many replicas that ask for this have room, on all nodes together."""
        s, touched = self.snapshot, self.touched
        total = 0.0
        for alike in s.alike.values():
            free = [i for i in alike if s.names[i] not in touched] if touched else alike
            if free:
                total += len(free) * slots(s.nodes[s.names[free[0]]], request)
        return total + sum(slots(node, request) for node in touched.values())


def slots(node: Node, request: Resources) -> float:
    """How many more replicas that ask for this have room on a node.

    >>> slots(Node(id=NodeId("a"), capacity=Resources(cpu=3.0)), Resources(cpu=2.0))
    1
    """
    if not node.up:
        return 0
    free = node.capacity - node.taken
    asked = (
        (request.cpu, free.cpu), (request.memory, free.memory), (request.gpu, free.gpu),
    )  # fmt: skip
    each = [floor(left / ask + SLACK) for ask, left in asked if ask]
    return max(0, min(each)) if each else inf


def elastic(spec: JobSpec) -> Task | None:
    """The task whose replicas may come and go, if there is one."""
    return next((t for t in spec.tasks if t.least < t.most and t.name not in FIXED), None)


def parts(job: Job, *, fewer: bool) -> tuple[list[tuple[ReplicaId, Resources]], list[ReplicaId]]:
    """The replicas that a gang must have, ps and chief first, and those it can do without."""
    must: list[tuple[ReplicaId, Resources]] = []
    may: list[ReplicaId] = []
    scaled = elastic(job.spec) if fewer else None
    for task in sorted(job.spec.tasks, key=lambda t: t.name not in FIXED):
        least = task.least if task is scaled else task.replicas
        names = [ReplicaId.of(job.id, task.name, i) for i in range(task.replicas)]
        must += [(name, task.request) for name in names[:least]]
        may += names[least:]
    return must, may


def spread_out(room: Room, job: Job, *, fewer: bool) -> Where | None:
    """A node for each replica, one after the other, as kube-scheduler would have it; or nothing
    at all. `fewer`: an elastic task may start with less than it asks for.
    """
    before = dict(room.touched)
    where: list[tuple[ReplicaId, NodeId]] = []
    must, may = parts(job, fewer=fewer)
    for name in [*(n for n, _ in must), *may]:
        task = job.spec.task(name.task)
        node = room.best(task)
        if node is None and len(where) < len(must):
            room.touched = before
            return None
        if node is None:
            break
        room.take(node.id, task.request)
        where.append((name, node.id))
    return tuple(where)


def squeezed(room: Room, job: Job, *, fewer: bool) -> Where | None:
    """Every way to place what a gang must have, the largest first, within reason: where going one
    after the other has failed because one stood in another's way.
    """
    must, _ = parts(job, fewer=fewer)
    asked = sorted(must, key=lambda m: (m[1].gpu, m[1].cpu, m[1].memory), reverse=True)
    kinds = Counter(request for _, request in must)
    if len(must) < 2 or any(room.slots(request) < n for request, n in kinds.items()):
        return None
    nodes = room.able(kinds, len(must))
    where: list[NodeId] = []
    if not _fitted([r for _, r in asked], nodes, [n.taken for n in nodes], where, [TRIES]):
        return None
    found = tuple((name, node) for (name, _), node in zip(asked, where, strict=True))
    room.take_all(job.spec, found)
    return found


def _fitted(
    asked: list[Resources],
    nodes: list[Node],
    taken: list[Resources],
    where: list[NodeId],
    tries: list[int],
) -> bool:
    """Depth first; of nodes that are alike only one is tried."""
    if len(where) == len(asked):
        return True
    request, seen = asked[len(where)], set[tuple[Resources, Resources]]()
    for i, node in enumerate(nodes):
        before = taken[i]
        key = (before, node.capacity)
        if key in seen or not request.fits(before, node.capacity):
            continue
        seen.add(key)
        tries[0] -= 1
        if tries[0] < 0:
            return False
        taken[i] = before + request
        where.append(node.id)
        if _fitted(asked, nodes, taken, where, tries):
            return True
        where.pop()
        taken[i] = before
    return False


def shape(job: Job, *, fewer: bool) -> Shape:
    """Jobs of one shape fit, or do not fit, alike."""
    found: list[str | float] = [
        ";".join("*" if t.nodes is None else ",".join(t.nodes) for t in job.spec.tasks)
    ]
    scaled = elastic(job.spec) if fewer else None
    for t in job.spec.tasks:
        r = t.request
        found += (t.least if t is scaled else t.replicas, r.cpu, r.memory, r.gpu, t.name in FIXED)
    return tuple(found)


def of(snapshot: Snapshot, replicas: Iterable[Replica]) -> list[Release]:
    """The room that these hold: where they are, and where they are bound for."""
    return [
        Release(replica=r.id, node=node, request=snapshot.request(r))
        for r in replicas
        for node in (r.node, r.bound_for)
        if node is not None
    ]


def at(spec: JobSpec, where: Where) -> list[Release]:
    """The room that replicas hold which are about to be placed."""
    return [
        Release(replica=name, node=node, request=spec.task(name.task).request)
        for name, node in where
    ]
