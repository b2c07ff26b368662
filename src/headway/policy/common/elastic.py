"""Replicas that come and go while a job runs: taken from those who have more than they need for
one that waits too long, added where room is idle. Chief, parameter servers and worker 0 are never
taken.
"""

from collections.abc import Iterable, Iterator

from headway.core.model.decision import Scale
from headway.core.model.job import Job, Phase, Replica, Task
from headway.core.model.node import Node
from headway.core.model.units import JobId, NodeId, ReplicaId, Resources, Seconds
from headway.policy.common.free_capacity import FIXED, Release, elastic, of
from headway.policy.common.queue_pass import Cycle
from headway.policy.common.rate_model import crew_of, left, rate
from headway.policy.common.reservation import Reserved, until_fits

FASTER = 1.001
"""A worker that adds less than this is not worth its room."""


def ready(cycle: Cycle, job: Job) -> Task | None:
    """Its elastic task, if it may be scaled now."""
    task = elastic(job.spec)
    if task is None or job.phase is not Phase.RUNNING:
        return None
    there = cycle.snapshot.placed(job.id)
    return task if all(r.phase is Phase.RUNNING for r in there) else None


def rich(cycle: Cycle) -> list[Job]:
    """Jobs that have more replicas than they need, in order of arrival. A quick look: most of
    them have not, where many wait.
    """
    s = cycle.snapshot
    known = [job for job in cycle.under_way() if len(s.of_job[job.id]) > _least(job)]
    return [job for job in known if len(s.placed(job.id)) > _least(job)]


def _least(job: Job) -> int:
    tasks = job.spec.tasks
    return sum(t.least if t.name not in FIXED else t.replicas for t in tasks)


def home(cycle: Cycle, job: Job) -> list[NodeId]:
    """The nodes that its other replicas talk to: of its parameter servers, else of its first."""
    there = cycle.snapshot.placed(job.id)
    fixed = [r.node for r in there if r.task in FIXED and r.node]
    return list(dict.fromkeys(fixed)) or [r.node for r in there[:1] if r.node]


def index(name: ReplicaId) -> int:
    return name.index


def spare(cycle: Cycle, job: Job) -> list[Replica]:
    """What a job can do without, in the order in which it gives: the lonely first, those beside
    the parameter server last (DRAGON, phase 1).
    """
    task = ready(cycle, job)
    if task is None:
        return []
    there = [r for r in cycle.snapshot.placed(job.id) if r.task == task.name]
    near = home(cycle, job)
    beside = [r.node for r in there]
    free = [r for r in there if index(r.id) != 0]
    free.sort(key=lambda r: (r.node in near, beside.count(r.node), -index(r.id)))
    return free[: max(0, len(there) - task.least)]


def shrink(
    cycle: Cycle,
    job: Job,
    givers: Iterable[Job],
    *,
    needed: Job,
    tidy: bool = True,
    restart: Seconds | None = None,
) -> Reserved | None:
    """Take workers from others until the job has room; all of it or nothing. `tidy`: only on the
    nodes where it will start. `restart`: what a change costs a job, where that is weighed.
    """
    s = cycle.snapshot
    offered: list[Release] = []

    def offers() -> Iterator[tuple[Release]]:
        """Asked for one by one: mostly a few are enough."""
        for giver in givers:
            for release in of(s, spare(cycle, giver)):
                offered.append(release)
                yield (release,)

    found = until_fits(cycle.room, needed, offers(), cycle.place)
    if found is None:
        return None
    count, where = found
    nodes = {node for _, node in where}
    taken: dict[JobId, list[ReplicaId]] = {}
    for release in offered[:count]:
        if not tidy or release.node in nodes:
            taken.setdefault(s.replicas[release.replica].job, []).append(release.replica)
    if restart is not None and not _worth(cycle, job, taken, restart):
        return None
    for giver, names in taken.items():
        scaled = elastic(s.jobs[giver].spec)
        assert scaled is not None  # noqa: S101 - it gave
        why = f"{job.id} has waited too long"
        cycle.decisions.append(Scale(job=giver, task=scaled.name, remove=tuple(names), reason=why))
    return cycle.hold(job, where, list(taken))


def _worth(cycle: Cycle, job: Job, taken: dict[JobId, list[ReplicaId]], restart: Seconds) -> bool:
    """Does the one gain more than the others lose? It would otherwise start when enough of those
    who run are predicted to have ended; who is not predictable does not count.
    """
    starts = cycle.predict(job)
    if starts is None or starts.at is None:
        return True
    s, loss = cycle.snapshot, 0.0
    for giver, names in taken.items():
        there, end = s.placed(giver), cycle.ends(s.jobs[giver])
        now = rate(s.jobs[giver], crew_of(s, there))
        then = rate(s.jobs[giver], crew_of(s, [r for r in there if r.id not in names]))
        if end is not None and then > 0:
            loss += (end - cycle.now) * (now / then - 1) + restart
    return starts.at - cycle.now > loss


def _takes(node: Node, task: Task) -> bool:
    """Has it room for one more of these, and may they go there?"""
    may = task.nodes is None or node.id in task.nodes
    return node.up and may and task.request.fits(node.taken, node.capacity)


class Growth:
    """Workers for those who run, one each in turn, while there is room (DRAGON, phase 3)."""

    def __init__(self, cycle: Cycle, *, near: bool, weigh: bool, restart: Seconds) -> None:
        self.cycle, self.room = cycle, cycle.room
        self.near, self.weigh, self.restart = near, weigh, restart
        self.added: dict[JobId, list[tuple[ReplicaId, NodeId]]] = {}
        self.full: set[Resources] = set()

    def grow(self, jobs: Iterable[Job], why: str) -> list[JobId]:
        """One each in turn."""
        able = [(job, task) for job in jobs if (task := ready(self.cycle, job))]
        while able:
            able = [(job, task) for job, task in able if self._one_more(job, task)]
        return self.decide(why)

    def add(self, job: Job, task: Task, most: int) -> None:
        """Up to so many for one job."""
        for _ in range(most):
            if not self._one_more(job, task):
                break

    def speed_up(self, job: Job, task: Task) -> float:
        """Part that one more worker adds to a job's speed, for each core that it asks for."""
        node = self._node(job, task)
        now, then = self._crews(job, [node.id] if node else [])
        return (then / now - 1) / (task.request.cpu or 1.0) if now else 0.0

    def decide(self, why: str) -> list[JobId]:
        """Those that really get some."""
        grown = []
        for name, add in self.added.items():
            job = self.cycle.snapshot.jobs[name]
            if self._pays(job, add):
                task = elastic(job.spec)
                assert task is not None  # noqa: S101 - it has grown
                self.cycle.decisions.append(
                    Scale(job=name, task=task.name, add=tuple(add), reason=why)
                )
                grown.append(name)
        return grown

    def _one_more(self, job: Job, task: Task) -> bool:
        s, added = self.cycle.snapshot, self.added.get(job.id, [])
        there = [r.id for r in s.placed(job.id) if r.task == task.name]
        there += [name for name, _ in added]
        if len(there) >= task.most or task.request in self.full:
            return False
        node = self._node(job, task)
        if node is None or (self.weigh and not self._faster(job, node)):
            return False
        name = next(
            n for i in range(task.most) if (n := ReplicaId.of(job.id, task.name, i)) not in there
        )
        self.added.setdefault(job.id, []).append((name, node.id))
        self.room.take(node.id, task.request)
        return True

    def _node(self, job: Job, task: Task) -> Node | None:
        """Beside the parameter server, beside its other workers, in its rack, then anywhere."""
        near = home(self.cycle, job) if self.near else []
        own = [r.node for r in self.cycle.snapshot.placed(job.id) if r.node] if self.near else []
        for name in dict.fromkeys((*near, *own)):
            node = self.room.at(name)
            if node and _takes(node, task):
                return node
        if task.nodes is not None:
            nodes = [n for name in task.nodes if (n := self.room.at(name)) and _takes(n, task)]
        else:
            nodes = self.room.able([task.request], 1)
            if not nodes:
                self.full.add(task.request)
        order, known = self.cycle.snapshot.order, self.cycle.snapshot.nodes
        racks = {known[name].rack for name in near if name in known}
        return min(nodes, key=lambda n: (n.rack not in racks, order[n.id]), default=None)

    def _crews(self, job: Job, add: Iterable[NodeId]) -> tuple[float, float]:
        """Work a second as it is, and with these added."""
        s = self.cycle.snapshot
        now = crew_of(s, s.placed(job.id))
        task = elastic(job.spec)
        name = task.name if task else ""
        return rate(job, now), rate(job, [*now, *((name, s.nodes[n], None) for n in add)])

    def _faster(self, job: Job, node: Node) -> bool:
        added = [n for _, n in self.added.get(job.id, ())]
        _, before = self._crews(job, added)
        _, after = self._crews(job, [*added, node.id])
        return after > FASTER * before or before == after == 0

    def _pays(self, job: Job, add: list[tuple[ReplicaId, NodeId]]) -> bool:
        """Does it gain more than stopping and starting again costs?"""
        work = left(job)
        now, then = self._crews(job, [node for _, node in add])
        if not self.weigh or work is None or now <= 0 or then <= 0:
            return True
        return work / now - work / then > self.restart
