"""Where a gang goes so that it lies close and leaves large holes: one node if one will do, and of
those the fullest; else as many as it can use of the emptiest, and so on.

Nodes that are alike are looked at once, so a search costs by the kinds of nodes and by the size of
the gang, not by how many nodes there are.
"""

from collections.abc import Iterable

from headway.core.model.job import Job, JobSpec, Replica, Task
from headway.core.model.node import Node
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NOTHING, SLACK, NodeId, ReplicaId, Resources

Where = tuple[tuple[ReplicaId, NodeId], ...]


class Packing:
    """The nodes as this cycle's placements so far would leave them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.taken: dict[NodeId, Resources] = {}
        """Of the nodes that something has been placed on in this cycle."""
        self.free = _free(snapshot)
        """Of all nodes together."""

    def place(self, job: Job, asked: Resources | None = None) -> Where:
        """A node for each replica, or nothing. `asked`: by all of them together, where known."""
        asked = asked or total(job.spec)
        if not asked.fits(NOTHING, self.free):
            return ()
        first = job.spec.tasks[0]
        if first.replicas == 1 and len(job.spec.tasks) == 1:
            return self._one(job, first)
        before = dict(self.taken)
        where: list[tuple[ReplicaId, NodeId]] = []
        for task in job.spec.tasks:
            if not self._task(job, task, where):
                self.taken = before
                return ()
        self.free = self.free - asked
        return tuple(where)

    def _one(self, job: Job, task: Task) -> Where:
        """The same for a job of one replica, which most are."""
        found = self._best(task, 1)
        if found is None:
            return ()
        node = found[0]
        self.taken[node.id] = self._of(node) + task.request
        self.free = self.free - task.request
        return ((ReplicaId.of(job.id, task.name, 0), node.id),)

    def clone(self) -> "Packing":
        other = object.__new__(Packing)
        other.snapshot, other.taken, other.free = self.snapshot, dict(self.taken), self.free
        return other

    def take(self, job: Job, where: Where) -> None:
        """Count these in, whether or not there is room for them."""
        for name, node in where:
            request = job.spec.task(name.task).request
            self.taken[node] = self._of(self.snapshot.nodes[node]) + request
            self.free = self.free - request

    def release(self, replicas: Iterable[Replica]) -> None:
        """Count these out."""
        for r in replicas:
            assert r.node is not None  # noqa: S101 - the type checker's
            request = self.snapshot.request(r)
            self.taken[r.node] = self._of(self.snapshot.nodes[r.node]) - request
            self.free = self.free + request

    def _task(self, job: Job, task: Task, where: list[tuple[ReplicaId, NodeId]]) -> bool:
        placed = 0
        while placed < task.replicas:
            found = self._best(task, task.replicas - placed)
            if found is None:
                return False
            node, count = found
            names = (ReplicaId.of(job.id, task.name, i) for i in range(placed, placed + count))
            where += [(name, node.id) for name in names]
            self.taken[node.id] = self._of(node) + times(task.request, count)
            placed += count
        return True

    def _best(self, task: Task, wanted: int) -> tuple[Node, int] | None:
        """A node, and how many of these it takes: the one with least to spare among those that
        take all, else the one that takes most. Ties go by the order of the file.
        """
        best, best_rank = None, (0, 0, 0)
        order, taken, request = self.snapshot.order, self.taken, task.request
        for node in self._candidates(task.nodes):
            room = capacity(request, taken.get(node.id) or node.taken, node.capacity)
            if room and node.up:
                count = min(room, wanted)
                rank = (count, -room, -order[node.id])
                if rank > best_rank:
                    best, best_rank = (node, count), rank
        return best

    def _of(self, node: Node) -> Resources:
        return self.taken.get(node.id, node.taken)

    def _candidates(self, only: tuple[NodeId, ...] | None) -> list[Node]:
        """The first untouched node of each kind, and all that have been touched. `only`: those
        that a replica may go to, where not to all.
        """
        s, taken = self.snapshot, self.taken
        if only is not None:
            return [s.nodes[name] for name in only if name in s.nodes]
        if not taken:
            return [s.nodes[s.names[alike[0]]] for alike in s.alike.values()]
        found = [s.nodes[name] for name in taken]
        for alike in s.alike.values():
            name = next((s.names[i] for i in alike if s.names[i] not in taken), None)
            if name is not None:
                found.append(s.nodes[name])
        return found


def _free(s: Snapshot) -> Resources:
    cpu = memory = gpu = 0.0
    for alike in s.alike.values():
        node, count = s.nodes[s.names[alike[0]]], len(alike)
        if node.up:
            cpu += (node.capacity.cpu - node.taken.cpu) * count
            memory += (node.capacity.memory - node.taken.memory) * count
            gpu += (node.capacity.gpu - node.taken.gpu) * count
    return Resources(cpu=cpu, memory=memory, gpu=gpu)


def capacity(request: Resources, taken: Resources, whole: Resources) -> int:
    """How many of these fit beside what is taken.

    >>> capacity(Resources(cpu=1.0, gpu=1.0), Resources(gpu=2.0), Resources(cpu=8.0, gpu=4.0))
    2
    """
    fit = float(MANY)
    if request.gpu:
        fit = (whole.gpu - taken.gpu + SLACK) / request.gpu
    if request.cpu:
        fit = min(fit, (whole.cpu - taken.cpu + SLACK) / request.cpu)
    if request.memory:
        fit = min(fit, (whole.memory - taken.memory + SLACK) / request.memory)
    return int(fit) if fit >= 1 else 0


def total(spec: JobSpec) -> Resources:
    """What it asks to be started with, all replicas together."""
    found = NOTHING
    for task in spec.tasks:
        found = found + times(task.request, task.replicas)
    return found


def times(request: Resources, count: int) -> Resources:
    return Resources(
        cpu=request.cpu * count, memory=request.memory * count, gpu=request.gpu * count
    )


MANY = 1_000_000
"""Of what asks for nothing, as many as one likes."""
