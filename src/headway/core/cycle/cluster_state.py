"""Observations in, snapshot out: `remember` folds what changed into the loop's tables,
`assemble` hands out a view of them.

The tables are changed in place, so that a cycle costs in proportion to what changed and not
to what exists. They are the loop's own: a snapshot of them is valid until the next fold.
"""

from bisect import bisect_left, insort
from collections.abc import Collection
from dataclasses import replace

from headway.core.estimate.job_size import from_steps
from headway.core.model.job import Estimate, Job, Phase, Replica
from headway.core.model.node import Node
from headway.core.model.report import EMPTY, Report, extend
from headway.core.model.snapshot import Alike, Changes, Observation, Request, Snapshot, Trigger
from headway.core.model.units import (
    NOTHING,
    CoreSeconds,
    JobId,
    NodeId,
    ReplicaId,
    Resources,
    Seconds,
)

NOMINAL = Resources(cpu=0.1, memory=200 * 2**20)
"""What kube-scheduler takes a pod without requests to need."""


class ClusterState:
    """Nodes, unfinished jobs and their replicas, indexed by each other."""

    def __init__(self) -> None:
        self.at: Seconds = 0.0
        self.nodes: dict[NodeId, Node] = {}
        self.jobs: dict[JobId, Job] = {}
        self.replicas: dict[ReplicaId, Replica] = {}
        self.on_node: dict[NodeId, dict[ReplicaId, None]] = {}
        self.of_job: dict[JobId, dict[ReplicaId, None]] = {}
        self.queue: dict[JobId, None] = {}
        self.alike: dict[Alike, list[int]] = {}
        self.keys: dict[NodeId, Alike] = {}
        """Under which kind each node is filed in `alike`."""
        self.asking: dict[NodeId, dict[ReplicaId, Resources]] = {}
        """Of the replicas on a node, those that ask for something."""
        self.stale: dict[NodeId, None] = {}
        """Nodes whose room has to be counted anew before this fold is done."""
        self.order: dict[NodeId, int] = {}
        self.names: list[NodeId] = []
        self.together: dict[JobId, tuple[CoreSeconds, float | None]] = {}
        """Of jobs of several replicas: the work of all of them, also of those that have left, and
        the last step that one has told."""
        self.requests: tuple[Request, ...] = ()
        self.changed_nodes: dict[NodeId, None] = {}
        self.changed_jobs: dict[JobId, None] = {}
        self.ended: list[Job] = []


def remember(history: ClusterState, seen: Observation) -> ClusterState:
    """Fold one observation into the tables, and note what it changed."""
    h = history
    h.at, h.requests = seen.at, seen.requests
    h.changed_nodes, h.changed_jobs, h.ended = {}, {}, []
    if seen.complete:
        _forget_unseen(h, seen)
    for node in seen.nodes:
        _see_node(h, node)
    for name in seen.gone:
        _drop_node(h, name)
    for job in seen.jobs:
        _see_job(h, job)
    for replica in seen.replicas:
        _see_replica(h, replica)
    for name in h.stale:
        _recount(h, name)
    h.stale.clear()
    for report in seen.reports:
        _hear(h, report)
    return h


def assemble(history: ClusterState, trigger: Trigger) -> Snapshot:
    h = history
    changed = Changes(
        nodes=tuple(h.changed_nodes), jobs=tuple(h.changed_jobs), ended=tuple(h.ended)
    )
    return Snapshot(h, h.at, trigger, changed, h.requests)


def _forget_unseen(h: ClusterState, seen: Observation) -> None:
    jobs, replicas = {j.id for j in seen.jobs}, {r.id for r in seen.replicas}
    nodes = {n.id for n in seen.nodes}
    for replica in [r for r in h.replicas if r not in replicas]:
        _drop_replica(h, replica)
    for job in [j for j in h.jobs if j not in jobs]:
        _drop_job(h, job)
    for node in [n for n in h.nodes if n not in nodes]:
        _drop_node(h, node)


def _see_node(h: ClusterState, node: Node) -> None:
    if node.id not in h.order:
        h.order[node.id] = len(h.names)
        h.names.append(node.id)
    if node.id not in h.nodes:
        h.on_node[node.id], h.asking[node.id] = {}, {}
    h.nodes[node.id] = node
    h.changed_nodes[node.id] = h.stale[node.id] = None


def _drop_node(h: ClusterState, name: NodeId) -> None:
    if h.nodes.pop(name, None) is not None:
        _unfile(h, name)
        h.stale.pop(name, None)
        del h.on_node[name], h.asking[name]
        h.changed_nodes[name] = None


def _see_job(h: ClusterState, job: Job) -> None:
    h.changed_jobs[job.id] = None
    if job.phase.ended:
        _drop_job(h, job.id)
        h.ended.append(job)
        return
    old = h.jobs.get(job.id)
    h.jobs[job.id] = job if old is None else _still(job, old)
    h.of_job.setdefault(job.id, {})
    if job.phase is Phase.PENDING:
        h.queue[job.id] = None
    else:
        h.queue.pop(job.id, None)


def _still(job: Job, old: Job) -> Job:
    """What was heard of a job holds beyond a change of phase, unless something newer is told."""
    if job.remaining is not None or (old.remaining is None and old.step_cost is None):
        return job
    return replace(job, remaining=old.remaining, step_cost=old.step_cost)


def _drop_job(h: ClusterState, job: JobId) -> None:
    for replica in list(h.of_job.pop(job, ())):
        _drop_replica(h, replica)
    h.jobs.pop(job, None)
    h.together.pop(job, None)
    h.queue.pop(job, None)


def _see_replica(h: ClusterState, seen: Replica) -> None:
    """A change of share is only noted; one of phase or place changes the node too."""
    if seen.phase.ended or seen.job not in h.jobs:
        _drop_replica(h, seen.id)
        return
    old = h.replicas.get(seen.id)
    h.replicas[seen.id] = seen if old is None or old.track is EMPTY else _with_track(seen, old)
    now = _places(seen)
    if old is not None and old.node == seen.node and old.bound_for == seen.bound_for:
        if old.phase is not seen.phase:
            h.changed_nodes.update(dict.fromkeys(n for n in now if n in h.nodes))
        return
    h.of_job[seen.job][seen.id] = None
    request = h.jobs[seen.job].spec.task(seen.task).request
    for node in dict.fromkeys((*_places(old), *now)) if old else now:
        if node in h.nodes:
            _settle(h, node, seen.id, request if node in now else None)


def _drop_replica(h: ClusterState, replica: ReplicaId) -> None:
    old = h.replicas.pop(replica, None)
    if old is None:
        return
    if old.job in h.of_job:
        h.of_job[old.job].pop(replica, None)
    for node in _places(old):
        if node in h.nodes:
            _settle(h, node, replica, None)


def _settle(h: ClusterState, node: NodeId, replica: ReplicaId, request: Resources | None) -> None:
    """Count a replica in on a node, with what it asks for; or out (None)."""
    h.changed_nodes[node] = h.stale[node] = None
    if request is None:
        h.on_node[node].pop(replica, None)
        h.asking[node].pop(replica, None)
    else:
        h.on_node[node][replica] = None
        if request is not NOTHING:
            h.asking[node][replica] = request


def _with_track(seen: Replica, old: Replica) -> Replica:
    return Replica(
        id=seen.id,
        job=seen.job,
        task=seen.task,
        node=seen.node,
        phase=seen.phase,
        bound_for=seen.bound_for,
        limit=seen.limit,
        weight=seen.weight,
        usage=old.usage,
        attained=old.attained,
        track=old.track,
    )


def _hear(h: ClusterState, report: Report) -> None:
    r = h.replicas.get(report.replica)
    if r is None:
        return
    work = _work(h, r, report)
    h.replicas[r.id] = Replica(
        id=r.id,
        job=r.job,
        task=r.task,
        node=r.node,
        phase=r.phase,
        bound_for=r.bound_for,
        limit=r.limit,
        weight=r.weight,
        usage=report.usage or r.usage,
        attained=r.attained + work,
        track=extend(r.track, report),
    )
    job, heard = h.jobs[r.job], h.replicas[r.id]
    if job.spec.speed is not None:
        h.jobs[r.job] = _paced(job, heard)
        return
    attained, step = heard.attained, heard.track.step
    if len(job.spec.tasks) > 1 or job.spec.tasks[0].most > 1:
        before, told = h.together.get(r.job, (0.0, None))
        attained, step = before + work, told if report.step is None else report.step
        h.together[r.job] = attained, step
    h.jobs[r.job] = _estimated(job, attained, step, work)


def _estimated(job: Job, attained: CoreSeconds, step: float | None, work: CoreSeconds) -> Job:
    """What is left of a job after it has been heard, with so much done by all its replicas."""
    size = from_steps(job.spec, attained, step)
    if size is None and job.spec.expected is not None:
        size = job.spec.expected.work
    left = None if size is None else max(0.0, size.value - attained)
    return Job(
        id=job.id,
        spec=job.spec,
        submitted_at=job.submitted_at,
        phase=job.phase,
        reason=job.reason,
        remaining=None if left is None or size is None else Estimate(value=left, error=size.error),
        step_cost=attained / step if step else None,
        checkpoint_age=job.checkpoint_age,
        truth=None if job.truth is None else max(0.0, job.truth - work),
    )


def _paced(job: Job, r: Replica) -> Job:
    """Of a distributed job the steps tell, not the work of one of its replicas."""
    total, told = job.spec.total_steps, job.spec.expected
    if total is None or told is None or r.track.step is None:
        return job
    left = told.work.value * max(0.0, 1 - r.track.step / total)
    return replace(
        job,
        remaining=Estimate(value=left, error=told.work.error),
        step_cost=told.work.value / total,
    )


def _work(h: ClusterState, r: Replica, report: Report) -> CoreSeconds:
    if report.usage is None or r.node not in h.nodes:
        return 0.0
    return report.usage.cpu * (report.at - report.since) * h.nodes[r.node].speed


def _places(replica: Replica) -> tuple[NodeId, ...]:
    """Where room is kept for it: its node and, in a move, the one it is bound for."""
    here = () if replica.node is None else (replica.node,)
    return here if replica.bound_for is None else (*here, replica.bound_for)


def _recount(h: ClusterState, name: NodeId) -> None:
    """Sum up the room taken anew: adding and subtracting would let rounding errors grow."""
    node, count = h.nodes[name], len(h.on_node[name])
    taken, nominal = requested(h.asking[name].values(), count)
    _unfile(h, name)
    h.nodes[name] = node = with_room(node, taken, nominal, count)
    _file(h, node)


def requested(requests: Collection[Resources], count: int) -> tuple[Resources, Resources]:
    """What some of `count` replicas ask for in all: as it is, and as kube-scheduler counts it."""
    silent = count - len(requests)
    if not requests:
        return NOTHING, Resources(cpu=silent * NOMINAL.cpu, memory=silent * NOMINAL.memory)
    cpu = memory = gpu = 0.0
    nominal_cpu, nominal_memory = silent * NOMINAL.cpu, silent * NOMINAL.memory
    for r in requests:
        cpu += r.cpu
        memory += r.memory
        gpu += r.gpu
        nominal_cpu += r.cpu or NOMINAL.cpu
        nominal_memory += r.memory or NOMINAL.memory
    taken = Resources(cpu=cpu, memory=memory, gpu=gpu)
    return taken, Resources(cpu=nominal_cpu, memory=nominal_memory, gpu=gpu)


def with_room(node: Node, taken: Resources, nominal: Resources, count: int) -> Node:
    return Node(
        id=node.id,
        capacity=node.capacity,
        speed=node.speed,
        rack=node.rack,
        up=node.up,
        taken=taken,
        nominal=nominal,
        count=count,
    )


def alike_key(node: Node) -> Alike:
    c, t, n = node.capacity, node.taken, node.nominal
    return (
        c.cpu, c.memory, c.gpu, t.cpu, t.memory, t.gpu, n.cpu, n.memory, node.count,
        node.speed, node.up, node.rack,
    )  # fmt: skip


def _file(h: ClusterState, node: Node) -> None:
    h.keys[node.id] = key = alike_key(node)
    insort(h.alike.setdefault(key, []), h.order[node.id])


def _unfile(h: ClusterState, name: NodeId) -> None:
    key = h.keys.pop(name, None)
    if key is None:
        return
    members = h.alike[key]
    del members[bisect_left(members, h.order[name])]
    if not members:
        del h.alike[key]
