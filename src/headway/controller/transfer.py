"""Checkpoint, stop, start again: moves between nodes, suspension, scaling by restart.

  reserving ─reserved─▶ requested ─▶ saving ──newer checkpoint──▶ stopping ──exit──▶ arriving
      └──no capacity, or no checkpoint in time: it keeps running     │     first report: running
                                        nothing saved: restarted on the same node

Platforms that can reserve (`Config.reserves`) reserve capacity for a replica that moves: the next
attempt waits on the target node until the present one has exited. It is removed if the transfer is
given up. On other platforms, a move begins with the checkpoint.

Only the chief of a job with `checkpoint: sdk` is asked to save. With `sigterm`, the replica is
stopped at once. When a whole gang is stopped, the others wait until the chief has saved. A gang is
moved as a whole, because its replicas know each other by address.
"""

from dataclasses import replace
from math import inf

from headway.controller import lifecycle
from headway.controller.commands import (
    ApplyShare,
    Assignment,
    CancelCheckpoint,
    Command,
    Commands,
    RequestCheckpoint,
    Reserve,
    Stop,
)
from headway.controller.events import (
    ReplicaEvent,
    ReplicaExited,
    ReplicaPrepared,
    ReplicaRunning,
    ReplicaWaiting,
)
from headway.controller.job_state import Checkpoint
from headway.controller.phases import Cause
from headway.controller.records import JobRecord
from headway.controller.replica_record import ReplicaRecord, Stage, Transfer
from headway.core.model.job import Elastic, Mode, Phase
from headway.core.model.snapshot import Trigger
from headway.core.model.units import NodeId, ReplicaId, Seconds, Where

STOPPED_AS_ASKED = (0, 143)
"""Exit codes of a script that handles SIGTERM and has had time to save."""


def move(job: JobRecord, r: ReplicaRecord, to: NodeId, now: Seconds) -> Commands:
    """Move a replica. An independent replica moves alone, any other one with its gang."""
    joins = joins_move(job, r)
    alone = not joins and _moves_alone(job, r)
    job.transition(Cause.MOVE, Phase.MIGRATING)
    if not alone:
        where = job.restart_as or tuple((x.id, x.node) for x in job.replicas.values())
        job.restart_as = tuple((name, to if name == r.id else node) for name, node in where)
        stops = [] if joins else _stop_gang(job, Phase.MIGRATING, now)
        r.transfer = replace(r.transfer or Transfer(to), to=to)  # capacity is held there
        job.set_replica(r, Phase.MIGRATING)
        return stops or job.persist()
    if not job.config.reserves:
        return _begin(job, r, Transfer(to), Phase.MIGRATING, now)
    job.attempt += 1
    job.not_moved = ""
    r.transfer = Transfer(to, Stage.RESERVING, reserved=job.attempt)
    r.deadline = now + job.config.reserve_timeout
    job.set_replica(r, Phase.MIGRATING)
    there = Assignment(r.id, job.attempt, to, job.gang.index(r.id))
    return job.persist(Reserve(job.id, (there,), job.gang))


def joins_move(job: JobRecord, r: ReplicaRecord) -> bool:
    """Return whether its gang restarts in any case, because another replica of it moves."""
    moves = any(x.transfer and x.transfer.to for x in job.replicas.values())
    return moves and r.id in dict(job.restart_as)


def waits_for_move(job: JobRecord, r: ReplicaRecord) -> bool:
    """Return whether its gang cannot restart yet, because an independent replica of it moves."""
    return under_way(job) and not joins_move(job, r) and not _moves_alone(job, r)


def _moves_alone(job: JobRecord, r: ReplicaRecord) -> bool:
    elastic = job.spec.task(r.id.task).elastic
    return len(job.replicas) == 1 or (elastic.one_by_one and r.id != job.chief())


def _is_whole(job: JobRecord) -> bool:
    """Return whether the whole gang is being stopped, and not only one replica moved."""
    return job.phase is Phase.SUSPENDING or bool(job.restart_as)


def reservation(
    job: JobRecord, r: ReplicaRecord, t: Transfer, event: ReplicaEvent, now: Seconds
) -> Commands:
    """Handle an event of the attempt that reserves capacity on the target."""
    match event:
        case ReplicaPrepared() if t.stage is Stage.RESERVING:
            return _begin(job, r, t, Phase.MIGRATING, now)
        case ReplicaWaiting(reason=reason, unschedulable=unschedulable):
            _note_waiting(job, r, t, now, reason, unschedulable=unschedulable)
        case ReplicaExited(reason=reason):
            return no_room(job, r, t, reason or "its reservation has ended")
        case ReplicaRunning():
            return no_room(job, r, t, "its reservation did not wait for the checkpoint")
        case _:
            pass
    return []


def _note_waiting(
    job: JobRecord, r: ReplicaRecord, t: Transfer, now: Seconds, reason: str, *, unschedulable: bool
) -> None:
    if t.stage is Stage.RESERVING and (reason, unschedulable) != (t.waiting_for, t.unschedulable):
        c = job.config
        stuck = c.unschedulable_timeout if unschedulable else c.stuck_timeout
        r.deadline = now + (stuck if reason else c.reserve_timeout)
        t.waiting_for, t.unschedulable = reason, unschedulable


def not_reserved(job: JobRecord, there: Assignment, why: str) -> Commands:
    """Handle a failed `Reserve`."""
    r = job.replicas.get(there.replica)
    t = r.transfer if r is not None else None
    if r is None or t is None or t.reserved != there.attempt:
        return []
    return no_room(job, r, t, why)


def no_room(job: JobRecord, r: ReplicaRecord, t: Transfer, why: str) -> Commands:
    """Handle a reservation that is refused or lost. The move is given up, unless the replica is
    being stopped already: then it starts on the target without a reservation.
    """
    if t.leaves:
        return _give_up(job, r, t, f"not moved to {t.to}: {why}", Cause.NO_ROOM)
    removal = lifecycle.unreserve(r)
    t.reserved = 0
    return job.persist(*removal)


def suspend(job: JobRecord, now: Seconds) -> Commands:
    job.transition(Cause.SUSPEND, Phase.SUSPENDING)
    return _stop_gang(job, Phase.SUSPENDING, now)


def scale(job: JobRecord, add: Where, remove: tuple[ReplicaId, ...], now: Seconds) -> Commands:
    """Scale a job: start and stop single replicas if the task allows it, else restart the gang."""
    job.short_of, job.replace_at = None, inf
    tasks = {name.task for name, _ in add} | {name.task for name in remove}
    if all(job.spec.task(t).elastic.one_by_one for t in tasks):
        return _join_and_leave(job, add, remove, now)
    stay = tuple((r.id, r.node) for r in job.replicas.values() if r.id not in remove)
    job.restart_as = (*stay, *add)
    job.transition(Cause.MOVE, Phase.MIGRATING)
    return _stop_gang(job, Phase.MIGRATING, now)


def can_scale(job: JobRecord, task: str) -> bool:
    """Return whether a task can be scaled. A restart, also one by torchrun, needs a checkpoint."""
    return job.can_checkpoint or job.spec.task(task).elastic is Elastic.INDEPENDENT


def _join_and_leave(
    job: JobRecord, add: Where, remove: tuple[ReplicaId, ...], now: Seconds
) -> Commands:
    stops = [lifecycle.stop(job, job.replicas[name], now) for name in remove]
    remaining = [n for n in job.gang if n not in remove]
    job.gang = job.by_rank([*remaining, *(name for name, _ in add)])
    job.scale_to = None
    return job.persist(*stops, *([job.start(add, now)] if add else ()))


def _stop_gang(job: JobRecord, phase: Phase, now: Seconds) -> Commands:
    first = job.replicas.get(job.chief()) or next(iter(job.replicas.values()))
    commands: Commands = []
    for r in job.replicas.values():
        if r is not first:
            r.transfer = Transfer(None, Stage.WAITING)
            job.set_replica(r, phase)
            commands += _normal_weight(r)
    return [*_begin(job, first, Transfer(None), phase, now), *commands]


def _begin(job: JobRecord, r: ReplicaRecord, t: Transfer, phase: Phase, now: Seconds) -> Commands:
    """Request the checkpoint of a replica."""
    job.not_moved = ""
    r.transfer, t.stage = t, Stage.REQUESTED
    r.deadline = now + job.spec.grace
    job.set_replica(r, phase)
    return [*_normal_weight(r), RequestCheckpoint(r.id, r.attempt, _is_asked(job, r))]


def _normal_weight(r: ReplicaRecord) -> Commands:
    """Raise a small weight to 1, so that the checkpoint is saved soon."""
    if r.weight >= 1:
        return []
    r.weight = 1.0
    return [ApplyShare(r.id, r.attempt, r.limit, r.weight)]


def _is_asked(job: JobRecord, r: ReplicaRecord) -> bool:
    return job.spec.checkpoint is Mode.SDK and r.id == job.chief()


def checkpoint_read(
    job: JobRecord, r: ReplicaRecord, checkpoint: Checkpoint, now: Seconds
) -> Commands:
    t = r.transfer
    if t is None or not t.saving:
        return []
    if t.stage is Stage.REQUESTED:
        t.baseline = checkpoint
        if _is_asked(job, r):
            t.stage = Stage.SAVING
            return []
        return _stop(job, r, t, now)
    return _stop(job, r, t, now) if checkpoint.mark != t.baseline.mark else []


def _stop(job: JobRecord, r: ReplicaRecord, t: Transfer, now: Seconds) -> Commands:
    """Stop a replica that has saved, or will save on SIGTERM, and those that wait for it."""
    stops = []
    for x, its in ((r, t), *_waiting_for(job)):
        its.stage = Stage.STOPPING
        x.deadline = now + job.spec.grace
        stops.append(Stop(x.id, x.attempt, job.spec.grace))
    return [CancelCheckpoint(r.id, r.attempt), *job.persist(*stops)]


def _waiting_for(job: JobRecord) -> list[tuple[ReplicaRecord, Transfer]]:
    """Return the replicas of a gang that wait until its chief has saved."""
    others = [(x, x.transfer) for x in job.replicas.values() if _is_whole(job)]
    return [(x, its) for x, its in others if its and its.stage is Stage.WAITING]


def overdue(job: JobRecord, r: ReplicaRecord, t: Transfer, now: Seconds) -> Commands:
    """Handle the deadline of a replica without capacity, new checkpoint or first report."""
    if t.arriving:
        return arrived(job, r)
    if t.stage is Stage.RESERVING:
        if t.unschedulable and t.to is not None:
            job.avoided[t.to] = now + job.config.avoid_node
        why = t.waiting_for or f"no capacity within {job.config.reserve_timeout:g} s"
        return no_room(job, r, t, why)
    why = f"no new checkpoint within {job.spec.grace:g} s; it keeps running where it is"
    return _give_up(job, r, t, why, Cause.SAVE_FAILED)


def _give_up(job: JobRecord, r: ReplicaRecord, t: Transfer, why: str, cause: Cause) -> Commands:
    """End a transfer. The replica keeps running on its node."""
    withdrawn: Commands = [CancelCheckpoint(r.id, r.attempt)] if t.saving else []
    removal = lifecycle.unreserve(r)
    for x, _ in ((r, t), *_waiting_for(job)):
        _end_transfer(job, x)
    job.outbox.notices[r.id] = job.not_moved = why
    job.restart_as = ()
    return [*withdrawn, *resume(job, cause, *removal)]


def target_lost(job: JobRecord, node: NodeId) -> Commands:
    """Give up moves to a lost node."""
    moving = [(r, t) for r in job.replicas.values() if (t := r.transfer)]
    there = [(r, t) for r, t in moving if t.to == node]
    if there and job.restart_as:
        there = moving  # a whole gang: giving up the saving replica ends it for all
    why = f"not moved to {node}: node {node} was lost"
    return [c for r, t in there if t.leaves for c in _give_up(job, r, t, why, Cause.NO_ROOM)]


def arrived(job: JobRecord, r: ReplicaRecord) -> Commands:
    """Handle the first report after a restart: the capacity on the previous node is free."""
    if r.transfer is None or not r.transfer.arriving:
        return []
    if r.came_from is not None:
        job.outbox.to_measure[r.came_from] = None
        r.came_from = None
        job.moves += 1
    if job.not_moved:
        job.outbox.notices[r.id] = job.not_moved
        job.outbox.to_measure[r.node] = None
    _end_transfer(job, r)
    return resume(job, Cause.ARRIVE)


def _end_transfer(job: JobRecord, r: ReplicaRecord) -> None:
    r.transfer, r.deadline = None, inf
    job.set_replica(r, Phase.RUNNING)


def resume(job: JobRecord, cause: Cause, *then: Command) -> Commands:
    """Change to running if no transfer of the job remains."""
    job.outbox.triggers.append(Trigger.STARTED)
    if not under_way(job):
        # Requests that have not succeeded have failed.
        job.paused, job.move_to, job.scale_to = False, None, None
        job.transition(cause, Phase.RUNNING)
    return job.persist(*then)


def under_way(job: JobRecord) -> bool:
    return any(x.transfer for x in job.replicas.values())


def exited(
    job: JobRecord, r: ReplicaRecord, t: Transfer, event: ReplicaExited, now: Seconds
) -> Commands:
    """Handle the exit of a replica that was stopped for a transfer."""
    chief, whole, to = r.id == job.chief(), _is_whole(job), t.to or r.node
    saved = not chief or _saved(job, t, event)
    finished = event.code == 0 and (not saved or job.spec.checkpoint is Mode.SDK)
    reserved = 0
    if saved and not finished:
        reserved, t.reserved = t.reserved, 0
    remove = lifecycle.drop(job, r, event)
    if finished and chief:
        return lifecycle.end(job, Cause.SUCCEED, Phase.SUCCEEDED, "", now, *remove)
    if saved and whole:
        job.moves += to != r.node
        return job.persist(*remove) if job.replicas else _released(job, remove, now)
    if finished:
        return resume(job, Cause.ARRIVE, *remove)
    if not saved:
        job.not_movable()
        if whole and len(job.gang) > 1:
            job.paused = False
            why = "its chief exited without a new checkpoint; restarting from the last one"
            return lifecycle.requeue(job, why, now, *remove)
        job.restart_as = ()
        job.not_moved = _not_saved(t, event)
    where = to if saved else r.node
    return _restart(job, r, job.start(((r.id, where),), now, reserved), remove)


def can_follow(job: JobRecord, t: Transfer) -> bool:
    """Return whether a replica can continue in its reservation: only if it is the whole gang."""
    return bool(t.reserved) and t.leaves and len(job.gang) == 1


def follow(
    job: JobRecord, r: ReplicaRecord, t: Transfer, event: ReplicaExited, now: Seconds
) -> Commands:
    """Continue a replica in its reservation, from the newest checkpoint: the cluster has ended it
    before it was asked to stop.
    """
    reserved, t.reserved = t.reserved, 0
    remove = lifecycle.drop(job, r, event)
    where = ((r.id, t.to or r.node),)
    return _restart(job, r, job.start(where, now, reserved), remove)


def _saved(job: JobRecord, t: Transfer, event: ReplicaExited) -> bool:
    """Return whether a chief has saved a new checkpoint. With the SDK, a chief is stopped after it
    has saved. Without it, only the exit code shows whether a newer checkpoint is complete.
    """
    newest, sdk = event.checkpoint, job.spec.checkpoint is Mode.SDK
    if sdk and t.stopping:
        return True
    return newest.mark != t.baseline.mark and (
        sdk or newest.verified or event.code in STOPPED_AS_ASKED
    )


def _not_saved(t: Transfer, event: ReplicaExited) -> str:
    if event.checkpoint.mark == t.baseline.mark:
        return "exited without a new checkpoint; restarted from the last one"
    return f"exited with code {event.code}, which means not saved (143 and 0 mean saved); restarted"


def _released(job: JobRecord, remove: Commands, now: Seconds) -> Commands:
    """Start a stopped gang in its new size or place, or return it to the queue."""
    if job.restart_as:
        where, job.restart_as = job.restart_as, ()
        return lifecycle.place(job, where, now, Cause.RELEASE, *remove)
    job.transition(Cause.RELEASE, job.idle_phase)
    return job.persist(*remove)


def _restart(job: JobRecord, old: ReplicaRecord, start: Command, remove: Commands) -> Commands:
    new = job.replicas[old.id]
    new.transfer = Transfer(new.node, Stage.ARRIVING)
    new.came_from = old.node if new.node != old.node else None
    job.set_replica(new, job.phase)
    return job.persist(*remove, start)
