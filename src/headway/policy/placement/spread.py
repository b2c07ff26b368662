"""Placement by the scores of the default kube-scheduler, but each gang whole.

It looks at requests and never at use, and nothing is ever moved. Nodes with the same
capacity and the same load score the same, so only one of each kind is scored: a placement
costs in proportion to how many kinds there are, not to how many nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headway.core.cycle.cluster_state import NOMINAL, ClusterState, assemble, remember, with_room
from headway.core.model.decision import CALM, Place, Plan
from headway.core.model.job import Job, Task, gang
from headway.core.model.node import Node
from headway.core.model.serialization import record
from headway.core.model.snapshot import Observation, Snapshot
from headway.core.model.units import NodeId, ReplicaId, Resources

Where = tuple[tuple[ReplicaId, NodeId], ...]
Asked = tuple[Resources, tuple[NodeId, ...] | None]


@record
class Spread:
    name: str = "spread"
    listens: bool = False

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        if not snapshot.queue:
            return CALM, memory
        return Search(snapshot).plan("the least requested node that has room"), memory


class Search:
    """The nodes as this cycle's placements so far would leave them, ranked for one more replica."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.touched: dict[NodeId, Node] = {}
        self.full: set[Asked] = set()
        """What has found no room in this cycle, and so will not later in it."""

    def plan(self, reason: str) -> Plan:
        places = self.places(reason)
        return Plan(decisions=places) if places else CALM

    def places(self, reason: str) -> tuple[Place, ...]:
        """A place for each job that waits and fits, in order of arrival."""
        found = ((job, self.place(job)) for job in self.snapshot.waiting)
        return tuple(Place(job=job.id, where=where, reason=reason) for job, where in found if where)

    def rank(self, node: Node, request: Resources) -> tuple[float, ...]:
        """Ties: the fewest replicas, then the order of the file (kube-scheduler rolls dice)."""
        return score(node, request), -node.count, -self.snapshot.order[node.id]

    def place(self, job: Job) -> Where:
        """A node for each replica, or nothing: a gang is started whole."""
        wanted = gang(job)
        if len(wanted) == 1:
            return self.some(job, wanted)
        where = self._whole(job, wanted)
        if where or len(job.spec.tasks) == 1:
            return where
        # The small may have stood in the way of the large.
        found = dict(self._whole(job, sorted(wanted, key=lambda r: _size(job, r), reverse=True)))
        return tuple((replica, found[replica]) for replica in wanted) if found else ()

    def _whole(self, job: Job, wanted: Sequence[ReplicaId]) -> Where:
        """For all of these in this order; or nothing, and all as it was."""
        before = dict(self.touched), set(self.full)
        where = self.some(job, wanted)
        if len(where) == len(wanted):
            return where
        self.touched, self.full = before
        return ()

    def some(self, job: Job, wanted: Sequence[ReplicaId]) -> Where:
        """A node for each of these that fits somewhere."""
        where = []
        for replica in wanted:
            task = job.spec.task(replica.task)
            node = None
            if not self.full or _asked(task) not in self.full:
                node = self._best(task.request, task.nodes)
            if node is None:
                self.full.add(_asked(task))
            else:
                self.touched[node.id] = _loaded(node, task.request)
                where.append((replica, node.id))
        return tuple(where)

    def hopeless(self, job: Job) -> bool:
        """Has everything that it asks for been found to fit nowhere?"""
        return all(_asked(task) in self.full for task in job.spec.tasks)

    def _best(self, request: Resources, only: tuple[NodeId, ...] | None = None) -> Node | None:
        best: Node | None = None
        best_rank: tuple[float, ...] = ()
        for node in self.candidates() if only is None else self._named(only):
            if node.up and request.fits(node.taken, node.capacity):
                rank = self.rank(node, request)
                if rank > best_rank:
                    best, best_rank = node, rank
        return best

    def _named(self, only: tuple[NodeId, ...]) -> list[Node]:
        return [self.there(name) for name in only if self.snapshot.has(name)]

    def there(self, name: NodeId) -> Node:
        return self.touched.get(name) or self.snapshot.nodes[name]

    def candidates(self) -> list[Node]:
        """The first of each kind of node that nothing has been placed on in this cycle, and
        those where something has.
        """
        s, touched = self.snapshot, self.touched
        if not touched:
            return [s.nodes[s.names[alike[0]]] for alike in s.alike.values()]
        names = (
            next((s.names[i] for i in alike if s.names[i] not in touched), None)
            for alike in s.alike.values()
        )
        return [*(s.nodes[name] for name in names if name is not None), *touched.values()]


def _asked(task: Task) -> Asked:
    """Replicas that ask for the same fit, or do not fit, alike."""
    return task.request, task.nodes


def _size(job: Job, replica: ReplicaId) -> tuple[float, ...]:
    request = job.spec.task(replica.task).request
    return request.gpu, request.cpu, request.memory


def score(node: Node, request: Resources) -> float:
    """LeastAllocated plus BalancedAllocation, 0 to 200, with the new pod counted in."""
    there, used = node.capacity, node.nominal
    cpu = (used.cpu + (request.cpu or NOMINAL.cpu)) / (there.cpu or 1e-9)
    memory = (used.memory + (request.memory or NOMINAL.memory)) / (there.memory or 1e-9)
    if cpu < 1 and memory < 1:
        return 200 - 50 * (cpu + memory) - 100 * abs(cpu - memory)
    return 100 - 50 * (min(1.0, cpu) + min(1.0, memory))


def _loaded(node: Node, request: Resources) -> Node:
    """As it will be with one more replica."""
    nominal = Resources(
        cpu=request.cpu or NOMINAL.cpu, memory=request.memory or NOMINAL.memory, gpu=request.gpu
    )
    return with_room(node, node.taken + request, node.nominal + nominal, node.count + 1)


def all_at(homes: Mapping[ReplicaId, NodeId], s: Snapshot) -> Snapshot:
    """The snapshot with those replicas, and no others, and each of them at its home."""
    running = [job for job in s.jobs.values() if job.id not in s.queue]
    there = Observation(
        at=s.at,
        complete=True,
        nodes=tuple(sorted(s.nodes.values(), key=lambda n: s.order[n.id])),
        jobs=(*running, *s.waiting),
        replicas=tuple(
            replace(s.replicas[name], node=node, bound_for=None) for name, node in homes.items()
        ),
    )
    return assemble(remember(ClusterState(), there), s.trigger)
