"""Turn user requests into decisions, so that they are in the journal."""

from dataclasses import replace

from headway.core.model.decision import CALM, Decision, Move, Plan, Scale, Suspend
from headway.core.model.job import Phase, Replica, Task
from headway.core.model.serialization import record
from headway.core.model.snapshot import Request, Snapshot
from headway.core.model.units import JobId, NodeId, ReplicaId
from headway.policy.common.node_search import NodeSearch

REASON = "requested by a user"
REPLACED = "in place of a replica that the cluster took"


@record
class UserRequests:
    """First in a chain: no other policy decides about the same job in the same cycle."""

    name: str = "user-requests"
    listens: bool = False

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        found = dict.fromkeys(d for r in snapshot.requests for d in _decisions(r, snapshot))
        return (Plan(decisions=tuple(found)) if found else CALM), memory


def _decisions(request: Request, s: Snapshot) -> list[Decision]:
    """The backend handles requests that need no decision: resume, and what a pending job needs."""
    can = s.can(request.job)
    pending = request.job in s.jobs and not s.placed(request.job)
    if request.wish == "pause" and can.suspend:
        return [] if pending else [Suspend(job=request.job, reason=REASON)]
    if request.wish == "move" and request.to is not None and can.migrate:
        away = _to_move(s, request.job, request.to)
        return [Move(replica=r, to=request.to, reason=REASON) for r in away]
    if request.wish == "leave" and request.to is not None and can.migrate:
        return _leave(s, request.job, request.to)
    if request.wish in ("scale", "replace") and _can_scale(request, s):
        tasks = s.jobs[request.job].spec.tasks
        found = [
            _scale(s, request.job, t, request.count or 0) for t in tasks if t.name == request.task
        ]
        if request.wish == "scale":
            return list(found)
        return [replace(scale, reason=REPLACED) for scale in found if scale.add]
    return []


def _to_move(s: Snapshot, job: JobId, to: NodeId) -> list[ReplicaId]:
    """The replicas that are not there yet, or all, so that the refusal says that they are. One that
    moves with its whole gang is first: the others then move in the same restart, also independent
    ones, which could move alone.
    """

    def alone(r: Replica) -> tuple[bool, int]:
        return s.jobs[job].spec.task(r.task).elastic.one_by_one, r.id.index

    away = [r for r in s.of(job) if r.node != to] or s.of(job)
    return [r.id for r in sorted(away, key=alone)]


def _leave(s: Snapshot, job: JobId, node: NodeId) -> list[Decision]:
    """Move its replicas off a cordoned node, each to the least requested other one that
    has room.
    """
    free, found = NodeSearch(s), list[Decision]()
    open_ = [n.id for n in s.nodes.values() if n.up and not n.cordoned]
    for r in s.of(job):
        if r.node != node or r.phase is not Phase.RUNNING:
            continue
        task = s.jobs[job].spec.task(r.task)
        usable = tuple(n for n in open_ if task.nodes is None or n in task.nodes)
        to = free.best(replace(task, nodes=usable))
        if to is not None:
            free.take(to.id, task.request)
            found.append(Move(replica=r.id, to=to.id, reason=f"node {node} is drained"))
    return found


def _can_scale(request: Request, s: Snapshot) -> bool:
    return request.job in s.jobs and s.can(request.job).scale and bool(s.placed(request.job))


def _scale(s: Snapshot, job: JobId, task: Task, count: int) -> Scale:
    """Remove the replicas with the highest index, or add those with the lowest free one, each on
    the least requested node. Where none has room, the decision is refused with the reason.
    """
    there = sorted((r.id for r in s.placed(job) if r.task == task.name), key=lambda r: r.index)
    names = (ReplicaId.of(job, task.name, i) for i in range(max(count, task.most)))
    missing = [name for name in names if name not in there][: max(0, count - len(there))]
    free, add = NodeSearch(s), []
    for name in missing:
        node = free.best(task)
        to = node.id if node else (task.nodes or s.names)[0]
        free.take(to, task.request)
        add.append((name, to))
    return Scale(
        job=job, task=task.name, add=tuple(add), remove=tuple(there[count:]), reason=REASON
    )
