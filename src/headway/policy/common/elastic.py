"""Add and remove replicas of running jobs: removed from jobs above their minimum when another has
waited too long, added where capacity is idle. Chief, parameter servers and worker 0 are never
removed.
"""

from collections.abc import Iterable, Iterator

from headway.core.model.decision import Scale
from headway.core.model.job import Job, Phase, Replica, Task
from headway.core.model.node import Node
from headway.core.model.units import JobId, NodeId, ReplicaId, Resources, Seconds
from headway.policy.common.gang_placement import FIXED, elastic_task
from headway.policy.common.queue_pass import QueuePass
from headway.policy.common.rate_model import layout_of, left, rate
from headway.policy.common.reservation import Release, Reserved, held_by, until_fits

FASTER = 1.001
"""A worker that speeds up its job by less than this factor is not added."""


def scalable(queue: QueuePass, job: Job) -> Task | None:
    """Return the elastic task of a job that can be scaled now."""
    task = elastic_task(job.spec)
    if task is None or job.phase is not Phase.RUNNING or not queue.snapshot.can(job.id).scale:
        return None
    there = queue.snapshot.placed(job.id)
    return task if all(r.phase is Phase.RUNNING for r in there) else None


def donors(queue: QueuePass) -> list[Job]:
    """Return the jobs with more replicas than they need, in order of arrival. Most have not while
    many are pending, so that the index is tested first.
    """
    s = queue.snapshot
    some = [job for job in queue.active() if len(s.of_job[job.id]) > _minimum(job)]
    return [job for job in some if len(s.placed(job.id)) > _minimum(job)]


def _minimum(job: Job) -> int:
    return sum(t.least if t.name not in FIXED else t.replicas for t in job.spec.tasks)


def home(queue: QueuePass, job: Job) -> list[NodeId]:
    """Return the nodes that workers communicate with: of fixed tasks, or of the first replica."""
    there = queue.snapshot.placed(job.id)
    fixed = [r.node for r in there if r.task in FIXED and r.node]
    return list(dict.fromkeys(fixed)) or [r.node for r in there[:1] if r.node]


def spare(queue: QueuePass, job: Job) -> list[Replica]:
    """Return the replicas above the minimum, in the order of removal: first those alone on their
    node, last those beside the parameter server (DRAGON, phase 1).
    """
    task = scalable(queue, job)
    if task is None:
        return []
    there = [r for r in queue.snapshot.placed(job.id) if r.task == task.name]
    near = home(queue, job)
    beside = [r.node for r in there]
    removable = [r for r in there if r.id.index != 0]
    removable.sort(key=lambda r: (r.node in near, beside.count(r.node), -r.id.index))
    return removable[: max(0, len(there) - task.least)]


def shrink(
    queue: QueuePass,
    job: Job,
    givers: Iterable[Job],
    *,
    needed: Job,
    tidy: bool = True,
    restart: Seconds | None = None,
) -> Reserved | None:
    """Remove workers of other jobs until `needed` fits; all that it takes, or none. `tidy`: only on
    the nodes where it will start. `restart`: the cost of a change, if it is weighed.
    """
    s = queue.snapshot
    offered: list[Release] = []

    def offers() -> Iterator[tuple[Release]]:
        """One by one, because a few are usually enough."""
        for giver in givers:
            for release in held_by(s, spare(queue, giver)):
                offered.append(release)
                yield (release,)

    found = until_fits(queue.free, needed, offers(), queue.place)
    if found is None:
        return None
    count, where = found
    nodes = {node for _, node in where}
    taken: dict[JobId, list[ReplicaId]] = {}
    for release in offered[:count]:
        if not tidy or release.node in nodes:
            taken.setdefault(s.replicas[release.replica].job, []).append(release.replica)
    if restart is not None and not _worth(queue, job, taken, restart):
        return None
    why = f"makes room for {job.id}, which has waited too long"
    for giver, names in taken.items():
        task = names[0].task
        queue.decisions.append(Scale(job=giver, task=task, remove=tuple(names), reason=why))
    return Reserved(job=job.id, where=where, awaits=tuple(taken))


def _worth(
    queue: QueuePass, job: Job, taken: dict[JobId, list[ReplicaId]], restart: Seconds
) -> bool:
    """Return whether the job gains more than the others lose. Without the change it would start
    when enough active jobs are predicted to have ended; jobs without a prediction do not count.
    """
    starts = queue.predict(job)
    if starts is None or starts.at is None:
        return True
    s, loss = queue.snapshot, 0.0
    for giver, names in taken.items():
        there, end = s.placed(giver), queue.end_of(s.jobs[giver])
        now = rate(s.jobs[giver], layout_of(s, there))
        then = rate(s.jobs[giver], layout_of(s, [r for r in there if r.id not in names]))
        if end is not None and then > 0:
            loss += (end - queue.now) * (now / then - 1) + restart
    return starts.at - queue.now > loss


def _fits(node: Node, task: Task) -> bool:
    allowed = task.nodes is None or node.id in task.nodes
    return node.up and allowed and task.request.fits(node.taken, node.capacity)


class Growth:
    """Adds workers to running jobs, one each in turn, while they fit (DRAGON, phase 3)."""

    def __init__(
        self, queue: QueuePass, *, near: str = "first", weigh: bool, restart: Seconds
    ) -> None:
        """`near`: add workers beside the parameter server `first`, `only` there, or `off`."""
        self.queue, self.free = queue, queue.free
        self.near, self.weigh, self.restart = near, weigh, restart
        self.added: dict[JobId, list[tuple[ReplicaId, NodeId]]] = {}
        self.full: set[Resources] = set()

    def grow(self, jobs: Iterable[Job], why: str) -> list[JobId]:
        able = [(job, task) for job in jobs if (task := scalable(self.queue, job))]
        while able:
            able = [(job, task) for job, task in able if self._add_one(job, task)]
        return self.decide(why)

    def add(self, job: Job, task: Task, most: int) -> None:
        """Add up to `most` workers to one job."""
        for _ in range(most):
            if not self._add_one(job, task):
                break

    def speed_up(self, job: Job, task: Task) -> float:
        """Return the relative gain in rate by one more worker, per requested core."""
        node = self._node(job, task)
        now, then = self._rates(job, [node.id] if node else [])
        return (then / now - 1) / (task.request.cpu or 1.0) if now else 0.0

    def decide(self, why: str) -> list[JobId]:
        """Decide the additions that pay off; return their jobs."""
        grown = []
        for name, add in self.added.items():
            job = self.queue.snapshot.jobs[name]
            if self._pays_off(job, add):
                task = add[0][0].task
                self.queue.decisions.append(Scale(job=name, task=task, add=tuple(add), reason=why))
                grown.append(name)
        return grown

    def _add_one(self, job: Job, task: Task) -> bool:
        s, added = self.queue.snapshot, self.added.get(job.id, [])
        there = [r.id for r in s.placed(job.id) if r.task == task.name]
        there += [name for name, _ in added]
        if len(there) >= task.most or task.request in self.full:
            return False
        node = self._node(job, task)
        if node is None or (self.weigh and not self._faster(job, node)):
            return False
        names = (ReplicaId.of(job.id, task.name, i) for i in range(task.most))
        name = next(name for name in names if name not in there)
        self.added.setdefault(job.id, []).append((name, node.id))
        self.free.take(node.id, task.request)
        return True

    def _node(self, job: Job, task: Task) -> Node | None:
        """Prefer the node of the parameter server, of another worker, its rack, then any node."""
        near = [] if self.near == "off" else home(self.queue, job)
        own = []
        if self.near == "first":
            own = [r.node for r in self.queue.snapshot.placed(job.id) if r.node]
        for name in dict.fromkeys((*near, *own)):
            node = self.free.node(name)
            if node and _fits(node, task):
                return node
        if self.near == "only":
            return None
        if task.nodes is not None:
            nodes = [n for n in self.free.named(task.nodes) if _fits(n, task)]
        else:
            nodes = self.free.able([task.request], 1)
            if not nodes:
                self.full.add(task.request)
        order, known = self.queue.snapshot.order, self.queue.snapshot.nodes
        racks = {known[name].rack for name in near if name in known}
        return min(nodes, key=lambda n: (n.rack not in racks, order[n.id]), default=None)

    def _rates(self, job: Job, add: Iterable[NodeId]) -> tuple[float, float]:
        """Return the rate now, and with workers added on these nodes."""
        s = self.queue.snapshot
        now = layout_of(s, s.placed(job.id))
        task = elastic_task(job.spec)
        name = task.name if task else ""
        return rate(job, now), rate(job, [*now, *((name, s.nodes[n], None) for n in add)])

    def _faster(self, job: Job, node: Node) -> bool:
        added = [n for _, n in self.added.get(job.id, ())]
        _, before = self._rates(job, added)
        _, after = self._rates(job, [*added, node.id])
        return after > FASTER * before or before == after == 0

    def _pays_off(self, job: Job, add: list[tuple[ReplicaId, NodeId]]) -> bool:
        """Return whether it saves more time than the restart costs."""
        work = left(job)
        now, then = self._rates(job, [node for _, node in add])
        if not self.weigh or work is None or now <= 0 or then <= 0:
            return True
        return work / now - work / then > self.restart
