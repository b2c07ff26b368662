"""`even`: jobs spread evenly over the nodes, by requests, always in the same way.

The reference world of `headway` uses it, and every policy that does not place jobs itself. It
considers requests and not usage, and never migrates. `spread` is kube-scheduler, which breaks ties
at random.
"""

from collections.abc import Sequence

from headway.core.model.decision import CALM, Place, Plan
from headway.core.model.job import Job, Task, gang
from headway.core.model.node import Node
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import NodeId, ReplicaId, Resources, Where
from headway.policy.common.node_search import NodeSearch
from headway.policy.common.reservation import held_at, held_by, reserved_now, until_fits

WHY = "the least requested node where it fits"
Wanted = tuple[Resources, tuple[NodeId, ...] | None]


@record
class Even:
    """Whole gangs. The name `even` stands for `EvenByPod` in the simulator."""

    name: str = "even"
    listens: bool = False
    reserve: bool = False
    """Reserve capacity for the first job that does not fit, so that it is not overtaken forever."""

    def begin(self) -> None:
        return None

    def search(self, snapshot: Snapshot) -> "Search":
        return Search(snapshot)

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        return (
            self.search(snapshot).plan(WHY, reserve=self.reserve) if snapshot.queue else CALM
        ), memory


class Search(NodeSearch):
    """Places the jobs of the queue, each replica on the node with the highest rank."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.full: set[Wanted] = set()
        """What has not fitted in this cycle, and therefore will not later in it."""

    def plan(self, reason: str, *, reserve: bool = False) -> Plan:
        """Place each pending job that fits, in the order of the queue. `reserve`: those behind the
        first that does not fit start only where they do not delay it.
        """
        places: list[Place] = []
        for job in self.snapshot.waiting:
            where = self.place(job)
            if where:
                places.append(Place(job=job.id, where=where, reason=reason))
            elif reserve:
                reserve = not self._reserve(job, places)
        return Plan(decisions=tuple(places)) if places else CALM

    def _reserve(self, job: Job, placed: Sequence[Place]) -> bool:
        """Take the part of its place that is free now. The rest becomes free when jobs end, which
        is assumed to be in the order of arrival. Return whether it fits then.
        """
        s = self.snapshot
        active = (held_by(s, s.placed(name)) for name in s.jobs if name not in s.queue)
        releases = [*active, *(held_at(s.jobs[p.job].spec, p.where) for p in placed)]
        found = until_fits(self, job, releases, _place_anew)
        if found is None:
            return False
        count, where = found
        nodes = {node for _, node in where}
        later = [r for some in releases[:count] for r in some if r.node in nodes]
        for node, amount in reserved_now(job.spec, where, later):
            self.take(node, amount)
        return True

    def place(self, job: Job) -> Where:
        """Return a node for each replica of the gang, or nothing."""
        wanted = gang(job)
        if len(wanted) == 1:
            return self.place_some(job, wanted)
        where = self._place_all(job, wanted)
        if where or len(job.spec.tasks) == 1:
            return where
        # Small replicas can block large ones: try the large ones first.
        largest_first = sorted(wanted, key=lambda r: _size(job, r), reverse=True)
        found = dict(self._place_all(job, largest_first))
        return tuple((replica, found[replica]) for replica in wanted) if found else ()

    def _place_all(self, job: Job, wanted: Sequence[ReplicaId]) -> Where:
        """Place all of these in this order, or none."""
        before = dict(self.touched), set(self.full)
        where = self.place_some(job, wanted)
        if len(where) == len(wanted):
            return where
        self.touched, self.full = before
        return ()

    def place_some(self, job: Job, wanted: Sequence[ReplicaId]) -> Where:
        """Place those of these that fit."""
        where = []
        for replica in wanted:
            task = job.spec.task_of(replica)
            node = None
            if not self.full or _wanted(task) not in self.full:
                node = self.choose(task, job, replica)
            if node is None:
                self.full.add(_wanted(task))
            else:
                self.take(node.id, task.request)
                where.append((replica, node.id))
        return tuple(where)

    def choose(self, task: Task, job: Job, replica: ReplicaId) -> Node | None:  # noqa: ARG002
        """Return the node for a replica, or None if it fits on none."""
        return self.best(task)

    def cannot_fit(self, job: Job) -> bool:
        """Return whether no replica of the job fits, by what has not fitted before."""
        return self.full.issuperset(map(_wanted, job.spec.tasks))


def _place_anew(search: Search, job: Job, _fewer: bool) -> Where | None:
    """Place a job in capacity that was not free before."""
    search.full = set()
    return search.place(job) or None


def _wanted(task: Task) -> Wanted:
    """Return a key: replicas with the same key fit on the same nodes."""
    return task.request, task.nodes


def _size(job: Job, replica: ReplicaId) -> tuple[float, ...]:
    request = job.spec.task_of(replica).request
    return request.gpu, request.cpu, request.memory
