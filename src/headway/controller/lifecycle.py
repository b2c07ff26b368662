"""Start, run, exit, retry, end: the lifecycle of a job that is not being moved.

Each function changes the record of one job and returns the commands that follow. A command that
depends on a durable state is returned through `JobRecord.persist`.
"""

from collections.abc import Sequence
from math import inf

from headway.controller import commands as cmd
from headway.controller.commands import Command, Commands
from headway.controller.config import Config
from headway.controller.events import CommandFailed, ReplicaExited, ReplicaWaiting
from headway.controller.phases import Cause, allows
from headway.controller.records import JobRecord
from headway.controller.replica_record import ReplicaRecord
from headway.core.model.job import Mode, Phase
from headway.core.model.snapshot import Request, Trigger
from headway.core.model.units import Cores, Seconds, Where

KILLED = 137
"""Exit code of a replica that disappeared."""


def arrive(job: JobRecord) -> Commands:
    job.arrived, job.admit_at = True, inf
    job.transition(Cause.ADMIT, job.idle_phase)
    job.outbox.triggers.append(Trigger.ARRIVED)
    return job.persist() if job.paused else []


def place(job: JobRecord, where: Where, now: Seconds, cause: Cause, *then: Command) -> Commands:
    """Start a whole gang with one attempt number."""
    job.gang = job.by_rank(name for name, _ in where)
    job.transition(cause, Phase.STARTING)
    job.started_at = now if job.started_at is None else job.started_at
    job.outbox.triggers.append(Trigger.STARTED)
    return job.persist(*then, job.start(where, now))


def prepared(job: JobRecord, r: ReplicaRecord, now: Seconds) -> Commands:
    """Start the training when the last replica of the gang holds its node."""
    if r.prepared or r.running or r.phase is Phase.STOPPING:
        return []
    r.prepared, r.waiting_for, r.unschedulable = True, "", False
    r.deadline = now + job.config.start_timeout
    waiting = [each for each in job.replicas.values() if not each.running]
    if not all(each.prepared for each in waiting):
        return []
    return [cmd.Proceed(job.id, job.start_command(waiting).replicas)]


def running(job: JobRecord, r: ReplicaRecord, now: Seconds) -> Commands:
    if r.running or r.phase is Phase.STOPPING:
        return []
    r.running, r.waiting_for = True, ""
    r.deadline = inf
    job.outbox.to_measure[r.node] = None
    job.outbox.triggers.append(Trigger.STARTED)
    commands: Commands = []
    if r.limit is not None and r.in_effect[0] != r.limit:
        commands.append(cmd.ApplyShare(r.id, r.attempt, r.limit, r.weight))
    if r.transfer is not None:
        r.deadline = now + job.spec.grace  # to report
        return commands
    job.set_replica(r, Phase.RUNNING)
    if job.phase is Phase.STARTING and not _run_if_all_run(job):
        return commands
    return [*commands, *job.persist()]


def _run_if_all_run(job: JobRecord) -> bool:
    """Change to running if each replica runs or has already exited with code 0."""
    if not all(r.running for r in job.replicas.values()):
        return False
    job.requeues, job.reason, job.grown_from = 0, "", None
    job.transition(Cause.RUN, Phase.RUNNING)
    return True


def share_in_effect(job: JobRecord, r: ReplicaRecord, limit: Cores | None, weight: float) -> None:
    """Note the share in effect. Before the replica runs, this is its share at the start."""
    r.in_effect = limit, weight
    if not r.running:
        r.limit, r.weight = limit, weight
    job.outbox.replicas[r.id] = r


def exited(job: JobRecord, r: ReplicaRecord, event: ReplicaExited, now: Seconds) -> Commands:
    """Handle the exit of a replica that is not in a transfer."""
    leaving = r.phase is Phase.STOPPING
    remove = drop(job, r, event)
    if job.phase is Phase.STOPPING:
        if job.target is Phase.BACKOFF and _completed(job, r, event):  # no retry
            job.target, job.reason = Phase.SUCCEEDED, ""
            return job.persist(*remove) if job.replicas else finish_stopping(job, now, *remove)
        if job.replicas:
            return job.after_persist(*remove)
        return finish_stopping(job, now, *remove)
    if leaving:  # scaled away
        return job.persist(*remove)
    if job.new.adopted:
        return [] if job.replicas else _end_adopted(job, event, now)
    if event.code and _can_continue_without(job, r):
        return _restart_or_replace(job, r, event, now, *remove)
    if event.disrupted:
        return requeue(job, event.reason, now, *remove)
    if event.code == 0:
        if r.id == job.chief():
            return end(job, Cause.SUCCEED, Phase.SUCCEEDED, "", now, *remove)
        if job.phase is Phase.STARTING:
            _run_if_all_run(job)
        return job.persist(*remove)
    reason = event.reason or f"exited with code {event.code}"
    return fail(job, _named(job, r, reason), now, *remove, permanent=event.permanent)


def _completed(job: JobRecord, r: ReplicaRecord, event: ReplicaExited) -> bool:
    """Return whether a chief has completed its work although it was asked to stop. A script that
    saves on SIGTERM may exit with code 0 too.
    """
    of_itself = job.spec.checkpoint is not Mode.SIGTERM or job.stop_is_unsent(r.id)
    return r.id == job.chief() and event.code == 0 and of_itself


def _can_continue_without(job: JobRecord, *lost: ReplicaRecord) -> bool:
    """Return whether a job continues without these replicas: if replicas of their tasks start and
    stop one by one, and the chief and the minimum of replicas are left.
    """
    able = job.config.can_scale and job.failures < job.spec.backoff_limit
    if not able or job.phase is not Phase.RUNNING or job.chief() not in job.replicas:
        return False
    stay = (r for r in job.replicas.values() if r.phase is not Phase.STOPPING and r not in lost)
    left = [r.id.task for r in stay]
    tasks = (job.spec.task(r.id.task) for r in lost)
    return all(t.elastic.one_by_one and left.count(t.name) >= t.least for t in tasks)


def _restart_or_replace(
    job: JobRecord, r: ReplicaRecord, event: ReplicaExited, now: Seconds, *then: Command
) -> Commands:
    """Restart an independent replica on its node. If the cluster has ended it, request a
    replacement instead: the policy chooses the node.
    """
    reason = event.reason or f"exited with code {event.code}"
    if event.disrupted:
        _note_shortage(job, r.id.task, 1, now)
        return _continue_without(job, [r], reason, *then)
    job.failures += 1
    _note(job, f"{r.id.name} is restarted: {reason}")
    return job.persist(*then, job.start(((r.id, r.node),), now))


def _note_shortage(job: JobRecord, task: str, lost: int, now: Seconds) -> None:
    """Note how many replicas the task had, so that replacements are requested."""
    left = sum(r.id.task == task and r.phase is not Phase.STOPPING for r in job.replicas.values())
    before = job.short_of[1] if job.short_of and job.short_of[0] == task else 0
    job.short_of, job.replace_at = (task, max(before, left + lost)), now


def _request_replacement(job: JobRecord, short_of: tuple[str, int], now: Seconds) -> None:
    """Request replacements from the policy; repeat this while replicas are missing."""
    task, count = short_of
    job.replace_at = now + job.config.review_pending
    if sum(name.task == task for name in job.replicas) >= count:
        job.short_of, job.replace_at = None, inf
    elif job.phase is Phase.RUNNING:
        wish = Request(job=job.id, wish="replace", task=task, count=count)
        job.outbox.requests.append(wish)
        job.outbox.triggers.append(Trigger.ASKED)


def _continue_without(
    job: JobRecord, lost: Sequence[ReplicaRecord], reason: str, *then: Command
) -> Commands:
    names = [r.id for r in lost]
    job.gang = tuple(name for name in job.gang if name not in names)
    said = ", ".join(name.name for name in names)
    _note(job, f"the job continues without {said}: {reason}")
    return job.persist(*then)


def _note(job: JobRecord, notice: str) -> None:
    chief = job.replicas[job.chief()]
    job.outbox.notices[chief.id] = notice
    job.outbox.to_measure[chief.node] = None


def drop(job: JobRecord, r: ReplicaRecord, event: ReplicaExited) -> Commands:
    """Drop an exited replica; the loop gets it once more. Return commands that remove what it left,
    and its reservation on another node.
    """
    del job.replicas[r.id]
    if event.code == 0 and r.came_from is not None:  # it ended before its first report
        job.moves += 1
    job.set_replica(r, Phase.SUCCEEDED if event.code == 0 else Phase.FAILED)
    job.outbox.triggers.append(Trigger.FINISHED)
    return [] if job.new.adopted else [cmd.Remove(r.id, r.attempt), *unreserve(r)]


def unreserve(r: ReplicaRecord) -> Commands:
    """Remove the reservation of a replica on another node."""
    held = r.transfer.reserved if r.transfer is not None else 0
    return [cmd.Remove(r.id, held)] if held else []


def start_failed(
    job: JobRecord, replicas: tuple[cmd.Assignment, ...], event: CommandFailed, now: Seconds
) -> Commands:
    """Handle replicas that did not start. The rest of the gang is stopped, unless it
    can continue.
    """
    known = [(job.replicas.get(a.replica), a.attempt) for a in replicas]
    absent = [r for r, attempt in known if r and r.attempt == attempt and not r.running]
    if not absent:
        return []
    commands: Commands = [cmd.Remove(r.id, r.attempt) for r in absent]
    for r in absent:
        del job.replicas[r.id]
        job.set_replica(r, Phase.FAILED)
    if job.phase is Phase.STOPPING:
        if job.replicas:
            return job.after_persist(*commands)
        return finish_stopping(job, now, *commands)
    reason = f"could not be started: {event.reason}"
    if _can_continue_without(job, *absent):
        job.failures += not event.disrupted
        if event.disrupted:
            _note_shortage(job, absent[0].id.task, len(absent), now + job.config.review_pending)
        return _continue_without(job, absent, reason, *commands)
    if event.disrupted:
        return requeue(job, reason, now, *commands)
    return fail(job, reason, now, *commands, permanent=event.permanent)


def _named(job: JobRecord, r: ReplicaRecord, reason: str) -> str:
    """Prefix a reason by the name of the replica if the job has several."""
    return f"replica {r.id.name}: {reason}" if len(job.gang) > 1 else reason


def _end_adopted(job: JobRecord, event: ReplicaExited, now: Seconds) -> Commands:
    if event.code == 0:
        return end(job, Cause.SUCCEED, Phase.SUCCEEDED, "", now)
    return end(job, Cause.FAIL, Phase.FAILED, event.reason, now)


def fail(
    job: JobRecord, reason: str, now: Seconds, *then: Command, permanent: bool = False
) -> Commands:
    """Count a failure. Retry later unless it was the last attempt."""
    job.failures += 1
    last = permanent or job.failures > job.spec.backoff_limit or job.new.adopted
    if last and job.failures > 1:
        reason += f" (attempt {job.failures} of {job.spec.backoff_limit + 1})"
    return end(job, Cause.FAIL, Phase.FAILED if last else Phase.BACKOFF, reason, now, *then)


def requeue(job: JobRecord, reason: str, now: Seconds, *then: Command) -> Commands:
    """Stop the remaining replicas and retry later. Not counted as a failure."""
    job.requeues += 1
    return end(job, Cause.REQUEUE, Phase.BACKOFF, reason, now, *then)


def end(
    job: JobRecord, cause: Cause, target: Phase, reason: str, now: Seconds, *then: Command
) -> Commands:
    """Stop all replicas; then the phase becomes `target`. The commands `then` follow when this is
    durable.
    """
    job.transition(cause, Phase.STOPPING)
    job.arrived, job.admit_at = True, inf
    job.target, job.reason = target, reason
    job.retry_at, job.restart_as = inf, ()
    stops = job.withdraw_starts()
    commands: Commands = []
    for r in job.replicas.values():
        if r.transfer is not None and r.transfer.saving:
            commands.append(cmd.CancelCheckpoint(r.id, r.attempt))
        stops += unreserve(r)
        r.transfer, r.came_from = None, None
        stops.append(stop(job, r, now))
    if not job.replicas:
        return finish_stopping(job, now, *stops, *then)
    return [*commands, *job.persist(*stops, *then)]


def stop(job: JobRecord, r: ReplicaRecord, now: Seconds) -> Command:
    """Ask a replica to exit within its grace period. Adopted replicas are released instead."""
    job.set_replica(r, Phase.STOPPING)
    r.deadline = now + job.spec.grace
    if job.new.adopted:
        return cmd.Release(r.id, r.attempt)
    return cmd.Stop(r.id, r.attempt, job.spec.grace)


def finish_stopping(job: JobRecord, now: Seconds, *then: Command) -> Commands:
    """Change to the target phase: all replicas have stopped."""
    target = job.target or Phase.BACKOFF
    job.target = None
    if target is Phase.BACKOFF:
        job.retry_at = now + backoff(job)
    else:
        job.finish(now)
        job.outbox.triggers.append(Trigger.FINISHED)
    job.transition(Cause.STOPPED, target)
    return job.persist(*then)


def backoff(job: JobRecord) -> Seconds:
    """Return the delay until a retry. It doubles with each consecutive failure or interruption."""
    doublings = min(30, max(0, job.failures + job.requeues - 1))
    return min(job.config.longest_backoff, job.config.first_backoff * 2.0**doublings)


def retry(job: JobRecord) -> Commands:
    job.retry_at = inf
    job.transition(Cause.RETRY, job.idle_phase)
    job.outbox.triggers.append(Trigger.ARRIVED)
    return job.persist()


def cancel(job: JobRecord, reason: str, now: Seconds) -> Commands:
    if not allows(job.phase, Cause.CANCEL) or job.target is Phase.CANCELLED:
        return []
    if job.new.adopted and job.replicas:
        reason = "released; its processes continue to run"
    return end(job, Cause.CANCEL, Phase.CANCELLED, reason, now)


def next_deadline(job: JobRecord) -> Seconds:
    """Return the earliest deadline of a job."""
    times = [r.deadline for r in job.replicas.values()]
    times += job.retry_at, job.persist_at, job.admit_at, job.delete_at, job.replace_at
    return min(_limit_at(job), *times, *job.avoided.values())


def due(job: JobRecord, now: Seconds) -> Commands:
    """Carry out what is due for the job itself."""
    commands: Commands = []
    if job.admit_at <= now:
        job.admit_at = inf
        commands.append(cmd.Admit(job.id))
    if job.retry_at <= now:
        commands += retry(job)
    if job.persist_at <= now:
        job.persist_at = inf
        commands += job.persist()
    if job.replace_at <= now and job.short_of:
        _request_replacement(job, job.short_of, now)
    if job.delete_at <= now:
        job.delete_at = inf
        commands.append(cmd.DeleteJob(job.id))
    if any(until <= now for until in job.avoided.values()):
        job.avoided = {node: until for node, until in job.avoided.items() if until > now}
        job.mark_dirty()
        job.outbox.triggers.append(Trigger.NODE)
    if _limit_at(job) <= now:
        why = f"exceeded its time limit of {job.new.time_limit:g} s"
        commands += end(job, Cause.FAIL, Phase.FAILED, why, now)
    return commands


def _limit_at(job: JobRecord) -> Seconds:
    if job.new.time_limit is None or job.started_at is None or not allows(job.phase, Cause.FAIL):
        return inf
    return job.started_at + job.new.time_limit


def note_waiting(r: ReplicaRecord, event: ReplicaWaiting, now: Seconds, config: Config) -> None:
    """Note why the platform cannot start a replica yet; "": it can now."""
    if r.running or r.phase is Phase.STOPPING:
        return
    if not event.reason:
        r.deadline = now + config.start_timeout
    elif not r.waiting_for or r.unschedulable != event.unschedulable:
        patience = config.unschedulable_timeout if event.unschedulable else config.stuck_timeout
        r.deadline = now + patience
    r.waiting_for, r.unschedulable = event.reason, event.unschedulable


def overdue(job: JobRecord, r: ReplicaRecord, now: Seconds) -> Commands:
    """Handle the deadline of a replica that has not exited, or not started, in time."""
    if r.phase is Phase.STOPPING or (r.transfer is not None and r.transfer.stopping):
        r.deadline = now + job.config.kill_interval
        if job.stop_is_unsent(r.id):
            return []
        if r.stop_failed:
            r.stop_failed, r.deadline = False, now + job.spec.grace
            return [cmd.Stop(r.id, r.attempt, job.spec.grace)]
        return [cmd.Release(r.id, r.attempt) if job.new.adopted else cmd.Kill(r.id, r.attempt)]
    r.deadline = inf
    if r.unschedulable:
        job.avoided[r.node] = now + job.config.avoid_node
        return requeue(job, _named(job, r, f"unschedulable: {r.waiting_for}"), now)
    why = r.waiting_for or f"not running after {job.config.start_timeout:g} s"
    if _can_continue_without(job, r):
        job.failures += 1
        return _continue_without(job, [r], f"did not start: {why}", stop(job, r, now))
    return fail(job, _named(job, r, f"did not start: {why}"), now)
