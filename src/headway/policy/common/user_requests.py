"""Turn user requests into decisions, so that they are in the journal."""

from headway.core.model.decision import CALM, Decision, Move, Plan, Scale, Suspend
from headway.core.model.job import Replica, Task
from headway.core.model.serialization import record
from headway.core.model.snapshot import Request, Snapshot
from headway.core.model.units import JobId, ReplicaId
from headway.policy.common.node_search import NodeSearch

REASON = "requested by a user"


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
        return [Move(replica=r, to=request.to, reason=REASON) for r in _to_move(s, request.job)]
    if request.wish == "scale" and request.job in s.jobs and can.scale and not pending:
        tasks = s.jobs[request.job].spec.tasks
        return [
            _scale(s, request.job, t, request.count or 0) for t in tasks if t.name == request.task
        ]
    return []


def _to_move(s: Snapshot, job: JobId) -> list[ReplicaId]:
    """A replica that moves with its whole gang is first: the others then move in the same restart,
    also independent ones, which could move alone.
    """

    def alone(r: Replica) -> tuple[bool, int]:
        return s.jobs[job].spec.task(r.task).elastic.one_by_one, r.id.index

    return [r.id for r in sorted(s.of(job), key=alone)]


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
