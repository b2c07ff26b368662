"""Where the replicas of a gang are near each other: on one node, else on the fewest, in one rack
if one has room for all; parameter servers and chief where most of the workers are.
"""

from collections.abc import Sequence

from headway.core.model.job import Job
from headway.core.model.node import Node
from headway.core.model.units import NOTHING, NodeId, ReplicaId, Resources
from headway.policy.common.free_capacity import Room, Where, parts, slots

Wanted = Sequence[tuple[ReplicaId, Resources]]


def together(
    room: Room, job: Job, *, fewer: bool, by_total: bool = True, most_first: bool = True
) -> Where | None:
    """A gang whole, or nothing. `fewer`: an elastic task may start with less than it asks for.
    `by_total`: of several nodes the first is where most of the gang fits; else where most of any
    one task does. `most_first`: where one node is enough, the one left fullest, and further nodes
    by what they hold; else the order of the file. (DRAGON, defects 6 and 7.)
    """
    must, may = parts(job, fewer=fewer)
    wanted = [*must, *((name, job.spec.task(name.task).request) for name in may)]
    node = _alone(room, wanted, most_first=most_first)
    if node is not None:
        where: Where | None = tuple((name, node.id) for name, _ in wanted)
    else:
        where = _several(room, wanted, len(must), by_total=by_total, most_first=most_first)
    if where is not None:
        room.take_all(job.spec, where)
    return where


def _alone(room: Room, wanted: Wanted, *, most_first: bool) -> Node | None:
    """The node for all of them."""
    total = NOTHING
    for _, request in wanted:
        total = total + request
    able = [n for n in room.candidates() if n.up and total.fits(n.taken, n.capacity)]
    worker, order = wanted[-1][1], room.snapshot.order
    if most_first:
        return min(able, key=lambda n: (slots(n, worker), order[n.id]), default=None)
    return min(able, key=lambda n: order[n.id], default=None)


def _several(
    room: Room, wanted: Wanted, least: int, *, by_total: bool, most_first: bool
) -> Where | None:
    """The fewest nodes, within one rack where that holds all of them."""
    worker, order = wanted[-1][1], room.snapshot.order
    nodes = room.able((request for _, request in wanted), len(wanted))
    nodes.sort(key=lambda n: (-slots(n, worker) if most_first else 0, order[n.id]))
    racks = dict.fromkeys(n.rack for n in nodes)
    if most_first and len(racks) > 1:
        inside = [
            _fill([n for n in nodes if n.rack == rack], wanted, by_total=by_total) for rack in racks
        ]
        enough = [w for w in inside if len(w) == len(wanted)]
        if enough:
            return min(enough, key=lambda w: len({node for _, node in w}))
    where = _fill(nodes, wanted, by_total=by_total)
    if not _whole(where, wanted, least) and most_first:
        # Its fixed tasks are in the way where they are put first: put them last.
        where = _fill(nodes, [*wanted[::-1]], by_total=by_total)
    return where if _whole(where, wanted, least) else None


def _whole(where: Where, wanted: Wanted, least: int) -> bool:
    """Are all there that must be?"""
    placed = {name for name, _ in where}
    return all(name in placed for name, _ in wanted[:least])


def _fill(nodes: Sequence[Node], wanted: Wanted, *, by_total: bool) -> Where:
    """Node after node, each as full as it gets; who comes first goes to the first."""
    where: list[tuple[ReplicaId, NodeId]] = []
    left = list(wanted)
    if nodes:
        first = max(nodes, key=lambda n: _held(n, wanted, by_total=by_total))
        nodes = [first, *(n for n in nodes if n is not first)]
    for node in nodes:
        taken, over = node.taken, []
        for name, request in left:
            if request.fits(taken, node.capacity):
                taken = taken + request
                where.append((name, node.id))
            else:
                over.append((name, request))
        left = over
        if not left:
            break
    return tuple(where)


def _held(node: Node, wanted: Wanted, *, by_total: bool) -> float:
    if not by_total:
        return max(slots(node, request) for _, request in wanted)
    taken, count = node.taken, 0
    for _, request in wanted:
        if request.fits(taken, node.capacity):
            taken, count = taken + request, count + 1
    return count
