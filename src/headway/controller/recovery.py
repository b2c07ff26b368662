"""Restore jobs after a restart of Headway: compare persisted states with existing replicas."""

from headway.controller.commands import Commands, Stop
from headway.controller.events import ReplicaExited, ReplicaFound
from headway.controller.job_state import JobState, ReplicaState
from headway.controller.lifecycle import KILLED, backoff, stop
from headway.controller.phases import Cause
from headway.controller.records import JobRecord
from headway.controller.replica_record import ReplicaRecord, Stage, Transfer
from headway.controller.transfer import resume, under_way
from headway.core.model.job import Phase
from headway.core.model.snapshot import Request, Trigger
from headway.core.model.units import ReplicaId, Seconds

Found = dict[tuple[ReplicaId, int], ReplicaFound]


def restore(
    job: JobRecord, state: JobState, found: Found, now: Seconds
) -> tuple[Commands, list[ReplicaExited]]:
    """Restore a record. Return the commands that follow, and the exits that happened meanwhile.

    Entries of `found` for present attempts of the job are removed.
    """
    job.restore(state)
    if job.phase is Phase.BACKOFF:
        job.retry_at = now + backoff(job)
    exits: list[ReplicaExited] = []
    missing: list[ReplicaRecord] = []
    commands: Commands = []
    for each in state.replicas:
        there = found.pop((each.replica, each.attempt), None)
        r = _replica(job, each, there)
        _keep_room(r, found)
        if there is not None and there.exited is not None:
            exits.append(there.exited)
        elif there is not None and there.running:
            commands += _continue(job, r, now)
        elif each.starting and not each.leaving and not each.stopping:
            missing.append(r)
        else:
            lost = "disappeared while Headway was not running"
            exits.append(ReplicaExited(replica=r.id, attempt=r.attempt, code=KILLED, reason=lost))
    if missing:
        for r in missing:
            r.started, r.deadline = True, now + job.config.start_timeout
        commands.append(job.start_command(missing))
    return [*commands, *_phase(job)], exits


def _replica(job: JobRecord, state: ReplicaState, found: ReplicaFound | None) -> ReplicaRecord:
    r = ReplicaRecord(state.replica, state.node, state.attempt, started=True)
    r.limit = job.spec.task(r.id.task).limit
    r.came_from = state.came_from
    if found is not None and found.running:
        r.running = True
        r.limit, r.weight = r.in_effect = found.limit, found.weight
    phase = Phase.RUNNING if r.running else Phase.STARTING
    if state.stopping:
        r.transfer = Transfer(state.to, Stage.STOPPING, state.baseline, state.reserved)
        phase = job.phase
    elif state.leaving:
        phase = Phase.STOPPING
    elif job.phase in (Phase.MIGRATING, Phase.SUSPENDING) and state.starting:
        r.transfer = Transfer(r.node, Stage.ARRIVING)
        phase = job.phase
    job.replicas[r.id] = r
    job.set_replica(r, phase)
    return r


def _keep_room(r: ReplicaRecord, found: Found) -> None:
    """Keep the reservation of a replica that is being stopped, if it still exists. Reservations of
    other replicas are orphans.
    """
    if r.transfer is None or not r.transfer.reserved:
        return
    there = found.get((r.id, r.transfer.reserved))
    if there is not None and not there.running and there.exited is None:
        del found[r.id, r.transfer.reserved]
    else:
        r.transfer.reserved = 0


def _continue(job: JobRecord, r: ReplicaRecord, now: Seconds) -> Commands:
    """Continue a running replica: stop it, or wait for its report, as before the restart."""
    if r.transfer is not None:
        r.deadline = now + job.spec.grace
        if r.transfer.stopping:
            return [Stop(r.id, r.attempt, job.spec.grace)]
    elif r.phase is Phase.STOPPING or job.phase is Phase.STOPPING:
        return [stop(job, r, now)]
    return []


def _phase(job: JobRecord) -> Commands:
    """Correct the phase after a crash between two steps."""
    if job.phase in (Phase.MIGRATING, Phase.SUSPENDING) and not under_way(job):
        return resume(job, Cause.ARRIVE)
    if job.phase is Phase.STARTING and all(r.running for r in job.replicas.values()):
        job.transition(Cause.RUN, Phase.RUNNING)
        job.grown_from = None
        return job.persist()
    if job.phase is Phase.RUNNING and (again := _begun(job)):
        job.outbox.requests.append(again)
        job.outbox.triggers.append(Trigger.ASKED)
    return []


def _begun(job: JobRecord) -> Request | None:
    """Return a request of a user that was not completed."""
    job.asked_to, job.asked_size = job.move_to, job.scale_to
    if job.paused:
        return Request(job=job.id, wish="pause")
    if job.move_to:
        return Request(job=job.id, wish="move", to=job.move_to)
    if job.scale_to:
        return Request(job=job.id, wish="scale", task=job.scale_to[0], count=job.scale_to[1])
    return None
