"""Place a gang close together, so that large free blocks remain: on one node if possible, on the
fullest of those; otherwise on the node that takes most of it, and so on.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from headway.core.cycle.free_capacity import slots
from headway.core.model.job import Job, JobSpec, Replica, Task
from headway.core.model.node import Node
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NOTHING, NodeId, ReplicaId, Resources, Where
from headway.policy.common.node_search import NodeSearch


class Packing(NodeSearch):
    """Free capacity, with the total over all nodes: most gangs that do not fit exceed it."""

    ranks = False

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.total = _total(snapshot)

    def place(self, job: Job, request: Resources | None = None) -> Where:
        """Return a node for each replica, or nothing. `request`: of the whole gang, if known."""
        request = request or gang_request(job.spec)
        if not request.fits(NOTHING, self.total):
            return ()
        tasks = job.spec.tasks
        single = len(tasks) == 1 and tasks[0].replicas == 1
        before = self.touched if single else dict(self.touched)
        where: list[tuple[ReplicaId, NodeId]] = []
        for task in tasks:
            if not self._place_task(job, task, where):
                self.touched = before
                return ()
        self.total = self.total - request
        return tuple(where)

    def take_all(self, spec: JobSpec, where: Where) -> None:
        for node, request, count in _counted((name, spec.task_of(r).request) for r, name in where):
            self.take(node, request, count)
            self.total = self.total - request.times(count)

    def release(self, replicas: Iterable[Replica]) -> None:
        placed = ((r.node, self.snapshot.request(r)) for r in replicas if r.node is not None)
        for node, request, count in _counted(placed):
            self.give(node, request, count)
            self.total = self.total + request.times(count)

    def _place_task(self, job: Job, task: Task, where: list[tuple[ReplicaId, NodeId]]) -> bool:
        placed = 0
        while placed < task.replicas:
            found = self._fullest(task, task.replicas - placed)
            if found is None:
                return False
            node, count = found
            indices = range(placed, placed + count)
            where += [(ReplicaId.of(job.id, task.name, i), node.id) for i in indices]
            self.take(node.id, task.request, count)
            placed += count
        return True

    def _fullest(self, task: Task, wanted: int) -> tuple[Node, int] | None:
        """Return a node and how many replicas to place there: of the nodes that take all, the one
        with the fewest slots; otherwise the one that takes most. Ties: the order of the file.
        """
        best, best_rank = None, (0.0, 0.0, 0)
        order, request = self.snapshot.order, task.request
        for node in self.candidates() if task.nodes is None else self.named(task.nodes):
            free = slots(node, request)
            if free:
                count = wanted if free >= wanted else int(free)
                rank = (count, -free, -order[node.id])
                if rank > best_rank:
                    best, best_rank = (node, count), rank
        return best


def _counted(
    requests: Iterable[tuple[NodeId, Resources]],
) -> Iterator[tuple[NodeId, Resources, int]]:
    """Count equal requests on one node that follow each other, as those of a gang do."""
    for (node, request), same in groupby(requests):
        yield node, request, len(list(same))


def _total(s: Snapshot) -> Resources:
    cpu = memory = gpu = 0.0
    for alike in s.alike.values():
        node, count = s.nodes[s.names[alike[0]]], len(alike)
        if node.up:
            cpu += (node.capacity.cpu - node.taken.cpu) * count
            memory += (node.capacity.memory - node.taken.memory) * count
            gpu += (node.capacity.gpu - node.taken.gpu) * count
    return Resources(cpu=cpu, memory=memory, gpu=gpu)


def gang_request(spec: JobSpec) -> Resources:
    """Return the request of all replicas that a job starts with."""
    found = NOTHING
    for task in spec.tasks:
        found = found + task.request.times(task.replicas)
    return found
