"""Place the replicas of a gang near each other: on one node, otherwise on the fewest nodes, in one
rack if it is large enough; parameter servers and chief where most of the workers are.
"""

from collections.abc import Sequence

from headway.core.cycle.free_capacity import slots
from headway.core.model.job import Job
from headway.core.model.node import Node
from headway.core.model.units import NOTHING, NodeId, ReplicaId, Where
from headway.policy.common.gang_placement import Wanted, ordered_gang
from headway.policy.common.node_search import NodeSearch


def place_together(
    free: NodeSearch, job: Job, *, fewer: bool, by_total: bool = True, most_first: bool = True
) -> Where | None:
    """Return a node for each replica; None if the gang does not fit. `fewer`: an elastic task may
    start with fewer replicas. `by_total`: the first of several nodes is the one that takes most of
    the gang; otherwise most of any one task. `most_first`: if one node is enough, the fullest, and
    several nodes in order of their slots; otherwise the order of the file. (DRAGON, defects 6, 7.)
    """
    wanted, least = ordered_gang(job, fewer=fewer)
    node = _alone(free, wanted, most_first=most_first)
    if node is not None:
        where: Where | None = tuple((name, node.id) for name, _ in wanted)
    else:
        where = _several(free, wanted, least, by_total=by_total, most_first=most_first)
    if where is not None:
        free.take_all(job.spec, where)
    return where


def _alone(free: NodeSearch, wanted: Wanted, *, most_first: bool) -> Node | None:
    """Return the node on which all fit."""
    total = sum((request for _, request in wanted), NOTHING)
    able = [n for n in free.candidates() if n.up and total.fits(n.taken, n.capacity)]
    worker, order = wanted[-1][1], free.snapshot.order
    if most_first:
        return min(able, key=lambda n: (slots(n, worker), order[n.id]), default=None)
    return min(able, key=lambda n: order[n.id], default=None)


def _several(
    free: NodeSearch, wanted: Wanted, least: int, *, by_total: bool, most_first: bool
) -> Where | None:
    """Use the fewest nodes, within one rack if all fit there."""
    worker, order = wanted[-1][1], free.snapshot.order
    nodes = free.able((request for _, request in wanted), len(wanted))
    nodes.sort(key=lambda n: (-slots(n, worker) if most_first else 0, order[n.id]))
    racks = dict.fromkeys(n.rack for n in nodes)
    if most_first and len(racks) > 1:
        by_rack = ([n for n in nodes if n.rack == rack] for rack in racks)
        inside = [_fill(some, wanted, by_total=by_total) for some in by_rack]
        enough = [w for w in inside if len(w) == len(wanted)]
        if enough:
            return min(enough, key=lambda w: len({node for _, node in w}))
    where = _fill(nodes, wanted, by_total=by_total)
    if not _complete(where, wanted, least) and most_first:
        # Fixed tasks, placed first, can block workers: place them last.
        where = _fill(nodes, wanted[::-1], by_total=by_total)
    return where if _complete(where, wanted, least) else None


def _complete(where: Where, wanted: Wanted, least: int) -> bool:
    """Return whether all required replicas are placed."""
    placed = {name for name, _ in where}
    return all(name in placed for name, _ in wanted[:least])


def _fill(nodes: Sequence[Node], wanted: Wanted, *, by_total: bool) -> Where:
    """Fill one node after another with the replicas in order."""
    where: list[tuple[ReplicaId, NodeId]] = []
    left = wanted
    if nodes:
        first = max(nodes, key=lambda n: _capacity_for(n, wanted, by_total=by_total))
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


def _capacity_for(node: Node, wanted: Wanted, *, by_total: bool) -> float:
    if not by_total:
        return max(slots(node, request) for _, request in wanted)
    taken, count = node.taken, 0
    for _, request in wanted:
        if request.fits(taken, node.capacity):
            taken, count = taken + request, count + 1
    return count
