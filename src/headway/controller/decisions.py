"""Convert decisions of a policy and requests of users to commands.

A decision that the records do not allow is refused with a reason. Requests to suspend, move or
scale a running job are decided by the policy, which gets them with the next observation.
"""

from dataclasses import replace
from typing import assert_never

from headway.controller import lifecycle, transfer
from headway.controller.commands import ApplyShare, Commands
from headway.controller.events import CommandFailed
from headway.controller.phases import Cause, allows
from headway.controller.records import JobRecord, Records
from headway.controller.replica_record import ReplicaRecord
from headway.core.model.decision import Decision, Move, Place, Scale, SetShare, Suspend
from headway.core.model.job import Phase
from headway.core.model.snapshot import Request, Trigger
from headway.core.model.units import NodeId, Seconds

Answer = tuple[str, Commands]
"""Why a decision is refused ("": it is accepted), and the commands that follow."""


def apply(records: Records, decision: Decision, now: Seconds) -> Answer:
    match decision:
        case SetShare():
            return _set_share(records, decision)
        case Place():
            return _place(records, decision, now)
        case Move():
            return _move(records, decision, now)
        case Suspend():
            return _suspend(records, decision, now)
        case Scale():
            return _scale(records, decision, now)
        case _:
            assert_never(decision)


def _set_share(records: Records, d: SetShare) -> Answer:
    r = records.replica(d.replica)
    if r is None or r.phase is not Phase.RUNNING:
        return f"{d.replica} is not running", []
    if not records.is_up(r.node):
        return f"node {r.node} is down", []
    if (r.limit, r.weight) == (d.limit, d.weight):
        return "", []
    r.limit, r.weight = d.limit, d.weight
    records.outbox.replicas[r.id] = r
    return "", [ApplyShare(r.id, r.attempt, d.limit, d.weight)]


def _place(records: Records, d: Place, now: Seconds) -> Answer:
    job = records.job(d.job)
    if job is None or not job.arrived or not allows(job.phase, Cause.PLACE):
        return f"{d.job} is not pending", []
    if d.partial:
        return "this platform starts gangs as a whole", []
    down = next((node for _, node in d.where if not records.is_up(node)), None)
    if down is not None:
        return f"node {down} is down or unknown", []
    return "", lifecycle.place(job, d.where, now, Cause.PLACE)


def _move(records: Records, d: Move, now: Seconds) -> Answer:
    r, job = records.replica(d.replica), records.job(d.replica.job)
    if r is None or job is None:
        return f"{d.replica} is not running", []
    if r.phase is not Phase.RUNNING and not transfer.joins_move(job, r):
        return f"{d.replica} is not running", []
    why = _not_movable(records, job, r, d.to)
    asked, job.asked_to = job.asked_to == d.to, None
    if not asked:
        return why, [] if why else transfer.move(job, r, d.to, now)
    job.move_to = None if why else d.to
    return why, [*job.persist(), *([] if why else transfer.move(job, r, d.to, now))]


def _not_movable(records: Records, job: JobRecord, r: ReplicaRecord, to: NodeId) -> str:
    if r.node == to:
        return f"{r.id} is on {to} already"
    if not records.is_up(to):
        return f"node {to} is down or unknown"
    if not allows(job.phase, Cause.MOVE) or transfer.waits_for_move(job, r):
        return f"{job.id} is {job.phase}"
    return "" if job.can_checkpoint else f"{job.id} cannot save checkpoints"


def _suspend(records: Records, d: Suspend, now: Seconds) -> Answer:
    job = records.job(d.job)
    if job is None or not allows(job.phase, Cause.SUSPEND):
        return f"{d.job} is not running", []
    if not job.can_checkpoint:
        job.paused = False
        return f"{job.id} cannot save checkpoints", job.persist()
    return "", transfer.suspend(job, now)


def _scale(records: Records, d: Scale, now: Seconds) -> Answer:
    job = records.job(d.job)
    if job is None or job.phase is not Phase.RUNNING:
        return f"{d.job} is not running", []
    asked, job.asked_size = job.asked_size, None
    why = _not_scalable(records, job, d)
    if why:
        return why, []
    before = sum(name.task == d.task for name in job.replicas)
    if asked != (d.task, before + len(d.add) - len(d.remove)):
        return "", transfer.scale(job, d.add, d.remove, now)
    job.resize(*asked)
    job.scale_to = asked
    restarts = not job.spec.task(d.task).elastic.one_by_one
    job.grown_from = (d.task, before) if d.add and restarts else None
    return "", [*job.persist(), *transfer.scale(job, d.add, d.remove, now)]


def _not_scalable(records: Records, job: JobRecord, d: Scale) -> str:
    if any(not records.is_up(node) for _, node in d.add):
        return "a node is down or unknown"
    if any(name in job.replicas for name, _ in d.add):
        return "a replica to add exists already"
    if any(name not in job.replicas for name in d.remove):
        return "a replica to remove does not exist"
    if job.chief() in d.remove:
        return f"{job.chief()} is the chief, which cannot be removed"
    return "" if transfer.can_scale(job, d.task) else f"{job.id} cannot save checkpoints"


def not_grown(job: JobRecord, event: CommandFailed) -> CommandFailed:
    """Handle a refused start of a job that restarts with more replicas, as a quota refuses it: it
    continues with as many as before. Return the event with this reason.
    """
    if job.grown_from is None or job.phase is not Phase.STARTING or not event.disrupted:
        return event
    task, before = job.grown_from
    wanted = job.spec.task(task).replicas
    why = f"{event.reason}; it continues with {before} {task} instead of {wanted}"
    job.grown_from = None
    job.resize(task, before)
    return replace(event, reason=why)


def request(records: Records, asked: Request, now: Seconds) -> Commands:
    job = records.job(asked.job)
    if job is None:
        return []
    records.outbox.requests.append(asked)
    records.outbox.triggers.append(Trigger.ASKED)
    if asked.wish == "cancel":
        return lifecycle.cancel(job, "cancelled by a user", now)
    if asked.wish in ("pause", "resume") and not job.phase.ended:
        return _pause(job, asked.wish == "pause" and _can_pause(job))
    if asked.wish == "move":
        job.asked_to = asked.to
    if asked.wish == "scale" and asked.count is not None:
        return _resize(job, asked.task, asked.count)
    return []


def _resize(job: JobRecord, task: str, count: int) -> Commands:
    """Resize a job without replicas: it will start in the new size. The policy decides about
    others.
    """
    bounds = next((t for t in job.spec.tasks if t.name == task), None)
    if bounds is None or not bounds.least <= count <= bounds.most or job.phase.ended:
        return []
    job.asked_size = task, count
    if job.replicas or job.phase is Phase.STOPPING:
        return []
    job.resize(task, count)
    return job.persist()


def _pause(job: JobRecord, paused: bool) -> Commands:
    """Pause or resume a job. A paused job is not in the queue."""
    if paused == job.paused:
        return []
    job.paused = paused
    if paused and job.arrived and allows(job.phase, Cause.PAUSE):
        job.transition(Cause.PAUSE, Phase.PAUSED)
    elif not paused and allows(job.phase, Cause.RESUME):
        job.transition(Cause.RESUME, Phase.PENDING)
        job.outbox.triggers.append(Trigger.ARRIVED)
    return job.persist()


def suspend_by_spec(job: JobRecord, suspended: bool, now: Seconds) -> Commands:
    """Follow `suspend` of the spec. Running replicas are stopped, with their grace period."""
    if suspended and not job.paused and job.replicas and allows(job.phase, Cause.REQUEUE):
        job.paused = True
        return lifecycle.end(job, Cause.REQUEUE, Phase.BACKOFF, "suspended", now)
    return _pause(job, suspended)


def _can_pause(job: JobRecord) -> bool:
    """Return whether a job can be paused. With replicas, it must be suspended first."""
    can_suspend = job.can_checkpoint and job.config.can_suspend
    return not job.replicas or (job.phase is Phase.RUNNING and can_suspend)
