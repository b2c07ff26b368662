"""The state of the cluster: `remember` folds an observation into the tables of the loop, `assemble`
returns a snapshot of them.

The tables are changed in place, so that the cost of a cycle is proportional to the number of
changes. A snapshot is valid until the next observation.
"""

from bisect import bisect_left, insort
from dataclasses import replace

from headway.core.cycle.free_capacity import load_of, with_load
from headway.core.estimate.job_size import from_steps
from headway.core.model.capabilities import ALL, Capabilities
from headway.core.model.job import Estimate, Job, Mode, Phase, Replica
from headway.core.model.node import Node
from headway.core.model.report import (
    BEGIN,
    EMPTY,
    MetricHistory,
    Progress,
    Report,
    Usage,
    extend,
    proceed,
    start_over,
)
from headway.core.model.snapshot import Alike, Changes, Observation, Request, Snapshot, Trigger
from headway.core.model.units import NOTHING, CoreSeconds, JobId, NodeId, ReplicaId, Resources


class ClusterState:
    """Nodes, unfinished jobs and their replicas, indexed by each other."""

    def __init__(self) -> None:
        self.at = 0.0
        self.capabilities: Capabilities = ALL
        self.restricted: dict[JobId, Capabilities] = {}
        self.nodes: dict[NodeId, Node] = {}
        self.jobs: dict[JobId, Job] = {}
        self.replicas: dict[ReplicaId, Replica] = {}
        self.on_node: dict[NodeId, dict[ReplicaId, None]] = {}
        self.of_job: dict[JobId, dict[ReplicaId, None]] = {}
        self.queue: dict[JobId, None] = {}
        self.alike: dict[Alike, list[int]] = {}
        self.keys: dict[NodeId, Alike] = {}
        """The key of each node in `alike`."""
        self.node_requests: dict[NodeId, dict[ReplicaId, Resources]] = {}
        """Requests of the replicas on a node, without those that request nothing."""
        self.stale: dict[NodeId, None] = {}
        """Nodes whose load must be computed again in this cycle."""
        self.order: dict[NodeId, int] = {}
        self.names: list[NodeId] = []
        self.totals: dict[JobId, Progress] = {}
        """Progress of all present and former replicas of a job, for jobs with several replicas."""
        self.former: dict[JobId, dict[ReplicaId, Replica]] = {}
        """Replicas that have stopped while their job has not ended. The job may restart them."""
        self.requests: tuple[Request, ...] = ()
        self.changed_nodes: dict[NodeId, None] = {}
        self.changed_jobs: dict[JobId, None] = {}
        self.ended: list[Job] = []


def remember(s: ClusterState, seen: Observation) -> ClusterState:
    """Update the tables by an observation, and note what changed."""
    s.at, s.requests = seen.at, seen.requests
    s.changed_nodes, s.changed_jobs, s.ended = {}, {}, []
    if seen.capabilities is not None:
        s.capabilities = seen.capabilities
    if seen.complete:
        _drop_unseen(s, seen)
    for node in seen.nodes:
        _update_node(s, node)
    for name in seen.gone:
        _drop_node(s, name)
    for job in seen.jobs:
        _update_job(s, job)
    for replica in seen.replicas:
        _update_replica(s, replica)
    for name in s.stale:
        _sum_up(s, name)
    s.stale.clear()
    for report in seen.reports:
        _add_report(s, report)
    return s


def assemble(s: ClusterState, trigger: Trigger) -> Snapshot:
    nodes, jobs, ended = tuple(s.changed_nodes), tuple(s.changed_jobs), tuple(s.ended)
    return Snapshot(s, trigger, Changes(nodes=nodes, jobs=jobs, ended=ended))


def _drop_unseen(s: ClusterState, seen: Observation) -> None:
    jobs, replicas = {j.id for j in seen.jobs}, {r.id for r in seen.replicas}
    nodes = {n.id for n in seen.nodes}
    for replica in [r for r in s.replicas if r not in replicas]:
        _drop_replica(s, replica)
    for job in [j for j in s.jobs if j not in jobs]:
        _drop_job(s, job)
    for node in [n for n in s.nodes if n not in nodes]:
        _drop_node(s, node)


# -- nodes ---------------------------------------------------------------------------------------


def _update_node(s: ClusterState, node: Node) -> None:
    if node.id not in s.order:
        s.order[node.id] = len(s.names)
        s.names.append(node.id)
    if node.id not in s.nodes:
        s.on_node[node.id], s.node_requests[node.id] = {}, {}
    s.nodes[node.id] = node
    s.changed_nodes[node.id] = s.stale[node.id] = None


def _drop_node(s: ClusterState, name: NodeId) -> None:
    if s.nodes.pop(name, None) is not None:
        _remove_from_index(s, name)
        s.stale.pop(name, None)
        del s.on_node[name], s.node_requests[name]
        s.changed_nodes[name] = None


def _sum_up(s: ClusterState, name: NodeId) -> None:
    count = len(s.on_node[name])
    taken, nominal = load_of(s.node_requests[name].values(), count)
    _remove_from_index(s, name)
    s.nodes[name] = node = with_load(s.nodes[name], taken, nominal, count)
    s.keys[name] = key = alike_key(node)
    insort(s.alike.setdefault(key, []), s.order[name])


def alike_key(node: Node) -> Alike:
    c, t, n = node.capacity, node.taken, node.nominal
    return (
        c.cpu, c.memory, c.gpu, t.cpu, t.memory, t.gpu, n.cpu, n.memory, node.count,
        node.speed, node.up, node.rack, node.images,
    )  # fmt: skip


def _remove_from_index(s: ClusterState, name: NodeId) -> None:
    key = s.keys.pop(name, None)
    if key is None:
        return
    members = s.alike[key]
    del members[bisect_left(members, s.order[name])]
    if not members:
        del s.alike[key]


# -- jobs ----------------------------------------------------------------------------------------


def _update_job(s: ClusterState, job: Job) -> None:
    s.changed_jobs[job.id] = None
    if job.phase.ended:
        _drop_job(s, job.id)
        s.ended.append(job)
        return
    old = s.jobs.get(job.id)
    if old is not None and job.remaining is None and old.remaining is not None:
        job = replace(job, remaining=old.remaining)
    s.jobs[job.id] = job
    s.of_job.setdefault(job.id, {})
    if job.capabilities is not None:
        s.restricted[job.id] = job.capabilities
    elif s.restricted:
        s.restricted.pop(job.id, None)
    if job.phase is Phase.PENDING:
        if old is not None and old.precedence != job.precedence:
            s.queue.pop(job.id, None)
        _enqueue(s, job)
    else:
        s.queue.pop(job.id, None)


def _enqueue(s: ClusterState, job: Job) -> None:
    """Insert a job after the jobs of the same precedence."""
    last = next(reversed(s.queue), None)
    s.queue[job.id] = None
    if last is not None and s.jobs[last].precedence < job.precedence:
        ordered = sorted(s.queue, key=lambda name: s.jobs[name].precedence, reverse=True)
        s.queue = dict.fromkeys(ordered)


def _drop_job(s: ClusterState, job: JobId) -> None:
    s.jobs.pop(job, None)
    for replica in list(s.of_job.pop(job, ())):
        _drop_replica(s, replica)
    s.totals.pop(job, None)
    s.former.pop(job, None)
    s.queue.pop(job, None)
    s.restricted.pop(job, None)


# -- replicas ------------------------------------------------------------------------------------


def _update_replica(s: ClusterState, seen: Replica) -> None:
    """Update a replica. A new share changes only the replica; a new phase or node changes its nodes
    too.
    """
    if seen.phase.ended or seen.job not in s.jobs:
        _drop_replica(s, seen.id)
        return
    old = s.replicas.get(seen.id)
    known = old
    if old is None and seen.job in s.former:
        known = s.former[seen.job].pop(seen.id, None)
    if known is None or known.history is EMPTY:
        s.replicas[seen.id] = seen
    else:
        s.replicas[seen.id] = _with_reports(
            seen, known.usage, known.attained, known.progress, known.history
        )
        if old is not None and old.node is not None and seen.node is None:
            s.replicas[seen.id] = _after_stop(s, s.replicas[seen.id])
    now = _places(seen)
    if old is not None and old.node == seen.node and old.bound_for == seen.bound_for:
        if old.phase is not seen.phase:
            s.changed_nodes.update(dict.fromkeys(n for n in now if n in s.nodes))
        return
    s.of_job[seen.job][seen.id] = None
    request = s.jobs[seen.job].spec.task(seen.task).request
    for node in dict.fromkeys((*_places(old), *now)) if old else now:
        if node in s.nodes:
            _count(s, node, seen.id, request if node in now else None)


def _drop_replica(s: ClusterState, replica: ReplicaId) -> None:
    old = s.replicas.pop(replica, None)
    if old is None:
        return
    if old.job in s.jobs:
        s.of_job[old.job].pop(replica, None)
        if old.history is not EMPTY:
            s.former.setdefault(old.job, {})[replica] = _after_stop(s, old)
    for node in _places(old):
        if node in s.nodes:
            _count(s, node, replica, None)


def _count(s: ClusterState, node: NodeId, replica: ReplicaId, request: Resources | None) -> None:
    """Add a replica to a node. `request`: None to remove it."""
    s.changed_nodes[node] = s.stale[node] = None
    if request is None:
        s.on_node[node].pop(replica, None)
        s.node_requests[node].pop(replica, None)
    else:
        s.on_node[node][replica] = None
        if request is not NOTHING:
            s.node_requests[node][replica] = request


def _places(replica: Replica) -> tuple[NodeId, ...]:
    """Return the nodes on which a replica holds capacity: two during a migration."""
    here = () if replica.node is None else (replica.node,)
    return here if replica.bound_for is None else (*here, replica.bound_for)


# -- reports -------------------------------------------------------------------------------------


def _with_reports(
    r: Replica,
    usage: Usage | None,
    attained: CoreSeconds,
    progress: Progress,
    history: MetricHistory,
) -> Replica:
    """Return the replica with this history. `dataclasses.replace` takes three times as long."""
    return Replica(
        id=r.id,
        job=r.job,
        task=r.task,
        node=r.node,
        phase=r.phase,
        bound_for=r.bound_for,
        limit=r.limit,
        weight=r.weight,
        usage=usage,
        attained=attained,
        progress=progress,
        history=history,
    )


def _add_report(s: ClusterState, report: Report) -> None:
    r = s.replicas.get(report.replica)
    if r is None:
        return
    work = _work(s, r, report)
    history, progress = extend(r.history, report), proceed(r.progress, report, work)
    usage = report.usage or r.usage
    s.replicas[r.id] = r = _with_reports(r, usage, r.attained + work, progress, history)
    spec = s.jobs[r.job].spec
    if spec.speed is None and (len(spec.tasks) > 1 or spec.tasks[0].most > 1):
        s.totals[r.job] = proceed(s.totals.get(r.job, BEGIN), report, work)
    _update_remaining(s, r, work)


def _after_stop(s: ClusterState, r: Replica) -> Replica:
    """Return a replica that has stopped. If its whole job has stopped and has no checkpoint, its
    progress starts over. Otherwise the next report shows the step at which it continues.
    """
    job = s.jobs[r.job]
    if job.spec.checkpoint is not Mode.NONE or job.phase is Phase.RUNNING:
        return r
    r = _with_reports(r, r.usage, r.attained, start_over(r.progress), r.history)
    if r.job in s.totals:
        s.totals[r.job] = start_over(s.totals[r.job])
    _update_remaining(s, r, 0.0)
    return r


def _update_remaining(s: ClusterState, r: Replica, work: CoreSeconds) -> None:
    """Update the remaining work of the job. `work`: work done since the last update."""
    job = s.jobs[r.job]
    if job.spec.speed is not None:
        s.jobs[r.job] = _distributed(job, r)
    else:
        s.jobs[r.job] = _estimated(job, s.totals.get(r.job, r.progress), work)


def _estimated(job: Job, progress: Progress, work: CoreSeconds) -> Job:
    size = from_steps(job.spec, progress)
    if size is None and job.spec.expected is not None:
        size = job.spec.expected.work
    left = None if size is None else max(0.0, size.value - progress.done)
    return Job(
        id=job.id,
        spec=job.spec,
        submitted_at=job.submitted_at,
        phase=job.phase,
        reason=job.reason,
        remaining=None if left is None or size is None else Estimate(value=left, error=size.error),
        capabilities=job.capabilities,
        truth=None if job.truth is None else max(0.0, job.truth - work),
    )


def _distributed(job: Job, r: Replica) -> Job:
    """Return the job with the remaining work by its steps: the work of one replica does not measure
    the progress of a distributed job.
    """
    total, expected, step = job.spec.total_steps, job.spec.expected, r.progress.step
    if total is None or expected is None or step is None:
        return job
    left = expected.work.value * max(0.0, 1 - step / total)
    return replace(job, remaining=Estimate(value=left, error=expected.work.error))


def _work(s: ClusterState, r: Replica, report: Report) -> CoreSeconds:
    if report.usage is None or r.node not in s.nodes:
        return 0.0
    return report.usage.cpu * (report.at - report.since) * s.nodes[r.node].speed
