"""Placement by the scores of kube-scheduler: whole numbers, with ties broken at random.

The formulas are those of the plug-ins LeastAllocated, BalancedAllocation and ImageLocality with
their default weights (1 each). Other default plug-ins give the same score to all nodes on which a
pod without affinities fits. Above 100 nodes, kube-scheduler scores only some; here it is always
all.
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b

from headway.core.cycle.free_capacity import NOMINAL
from headway.core.model.job import Job, Task
from headway.core.model.node import Node
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import Cores, NodeId, ReplicaId, Resources
from headway.policy.placement.even import Even, Search

FIRST_IMAGE, LAST_IMAGE = 23 * 2**20, 1000 * 2**20
"""Sizes in bytes that score 0 and 100."""
UNFIT = -1
"""Instead of a score: the pod does not fit."""


@record
class Spread(Even):
    """Whole gangs. The name `spread` stands for `KubeDefault` in the simulator."""

    name: str = "spread"
    release: str = "1.34"

    def search(self, snapshot: Snapshot) -> Search:
        return KubeSearch(snapshot, self.release)


class KubeSearch(Search):
    """Each replica goes to a node with the highest score. Ties are drawn by `Job.draw`. Jobs on a
    real platform have no seed: the first node of the file is taken.
    """

    def __init__(self, snapshot: Snapshot, release: str) -> None:
        super().__init__(snapshot)
        self.release = release
        self.copies: Counter[str] | None = None
        """Number of nodes that have an image."""
        self.scores: dict[tuple[Resources, str], dict[NodeId, tuple[Node, int]]] = {}
        """For each kind of pod: the scores of nodes, as they were then."""

    def choose(self, task: Task, job: Job, replica: ReplicaId) -> Node | None:
        tied = self.highest(task)
        return self._at(tied[draw(job, replica, len(tied))]) if tied else None

    def highest(self, task: Task) -> list[int]:
        """Return the indices of the nodes with the highest score, in the order of the file."""
        known = self.scores.setdefault((task.request, task.image), {})
        highest, tied = UNFIT, list[int]()
        for alike in self._groups(task):
            node = self._at(alike[0])
            before, score = known.get(node.id, (None, UNFIT))
            if before is not node:
                score = self._score(node, task)
                known[node.id] = node, score
            if score > highest:
                highest, tied = score, list(alike)
            elif score == highest != UNFIT:
                tied += alike
        return sorted(tied)

    def _groups(self, task: Task) -> Iterator[list[int]]:
        """Yield the places of nodes in the order of the file, those of one kind together."""
        s, touched = self.snapshot, self.touched
        if task.nodes is not None:
            yield from ([s.order[node.id]] for node in self.named(task.nodes))
            return
        for alike in s.alike.values():
            left = [i for i in alike if s.names[i] not in touched] if touched else alike
            if left:
                yield left
        yield from ([s.order[name]] for name in touched)

    def _at(self, place: int) -> Node:
        name = self.snapshot.names[place]
        return self.touched.get(name) or self.nodes[name]

    def _score(self, node: Node, task: Task) -> int:
        if not (node.up and task.request.fits(node.taken, node.capacity)):
            return UNFIT
        balanced = balanced_1_17 if self.release == "1.17" else balanced_allocation
        score = least_allocated(node, task.request) + balanced(node, task.request)
        return score + self._image_locality(node, task) if task.image else score

    def _image_locality(self, node: Node, task: Task) -> int:
        if self.copies is None:
            self.copies = Counter(name for n in self.nodes.values() for name, _ in n.images)
        size = dict(node.images).get(task.image, 0.0)
        part = int(size * (self.copies[task.image] / len(self.nodes)))
        part = min(max(part, FIRST_IMAGE), LAST_IMAGE)
        return 100 * (part - FIRST_IMAGE) // (LAST_IMAGE - FIRST_IMAGE)


def draw(job: Job, replica: ReplicaId, count: int) -> int:
    """Return a number below `count`: drawn by the seed of the job, or 0 if it has none."""
    if job.draw is None:
        return 0
    task = [t.name for t in job.spec.tasks].index(replica.task)
    seed = f"{job.draw}/{task}/{replica.index}"
    return int.from_bytes(blake2b(seed.encode(), digest_size=8).digest()) % count


def least_allocated(node: Node, request: Resources) -> int:
    """Mean of the free parts of CPU and memory after this pod, each rounded down."""
    cpu, memory = _with(node.nominal, request, NOMINAL)
    there = node.capacity
    parts = [_free(cpu, _milli(there.cpu)), _free(memory, int(there.memory))]
    known = [part for part in parts if part is not None]
    return sum(known) // len(known) if known else 0


def balanced_allocation(node: Node, request: Resources) -> int:
    """100 if this pod leaves the same part of CPU and memory in use. Pods without requests are not
    scored.
    """
    if not request.cpu and not request.memory:
        return 0
    cpu, memory = _with(node.taken, request, Resources())
    there = node.capacity
    if not there.cpu or not there.memory:
        return 100
    parts = min(1.0, cpu / _milli(there.cpu)), min(1.0, memory / int(there.memory))
    return int((1 - abs((parts[0] - parts[1]) / 2)) * 100)


def balanced_1_17(node: Node, request: Resources) -> int:
    """The same in Kubernetes 1.17: the difference of the parts, with a nominal request for pods
    that have none.
    """
    cpu, memory = _with(node.nominal, request, NOMINAL)
    there = node.capacity
    parts = cpu / (_milli(there.cpu) or 1e-9), memory / (int(there.memory) or 1e-9)
    return 0 if max(parts) >= 1 else int((1 - abs(parts[0] - parts[1])) * 100)


def _with(used: Resources, request: Resources, unset: Resources) -> tuple[int, int]:
    """Millicores and bytes after this pod."""
    cpu, memory = request.cpu or unset.cpu, request.memory or unset.memory
    return _milli(used.cpu) + _milli(cpu), round(used.memory) + int(memory)


def _free(used: int, there: int) -> int | None:
    if not there:
        return None
    return max(0, (there - used) * 100 // there)


def _milli(cpu: Cores) -> int:
    return round(cpu * 1000)
