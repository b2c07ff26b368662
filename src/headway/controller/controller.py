"""The job lifecycle on every live platform: decisions, events and deadlines in, commands out.

The controller performs no IO and reads no clock. `apply`, `handle` and `tick` change the records
and return commands for the platform. `next_deadline` returns when to call `tick`. A command that
depends on a state is returned after this state is persisted: by the `handle` of `Persisted`.
"""

from dataclasses import replace
from itertools import count
from math import inf
from typing import assert_never

from headway.controller import commands as cmd
from headway.controller import decisions, events, lifecycle, transfer
from headway.controller.agenda import Agenda
from headway.controller.commands import Attempt, Commands
from headway.controller.config import Config
from headway.controller.cordons import Cordons
from headway.controller.phases import Cause
from headway.controller.records import JobRecord, Outbox, Records
from headway.controller.recovery import restore
from headway.controller.removals import Removals
from headway.controller.replica_record import ReplicaRecord
from headway.core.model.decision import Decision
from headway.core.model.job import JobSpec, Phase
from headway.core.model.node import Node
from headway.core.model.snapshot import Request, Trigger
from headway.core.model.units import JobId, Seconds

DEFAULTS = Config()


def _with_nodes(spec: JobSpec, now: JobSpec) -> JobSpec:
    """With the nodes that its tasks may use now."""
    nodes = {task.name: task.nodes for task in now.tasks}
    return replace(spec, tasks=tuple(replace(t, nodes=nodes[t.name]) for t in spec.tasks))


class Controller:
    def __init__(self, config: Config = DEFAULTS) -> None:
        self.config, self.records = config, Records()
        self.jobs, self.nodes, self.outbox = (
            self.records.jobs,
            self.records.nodes,
            self.records.outbox,
        )
        self._agenda, self._numbers = Agenda(self.records), count()
        self.cordons = Cordons(self.records, config.review_pending)
        self.observed_at: Seconds = 0.0
        self._removals = Removals(config)
        self._successors: dict[JobId, list[events.JobSeen | events.JobEvent]] = {}
        """Events of new jobs with the name of a deleted job of which something is left."""

    def add(self, new: events.NewJob) -> JobRecord:
        job = JobRecord(new, self.outbox, self.config, next(self._numbers))
        self.jobs[job.id] = job
        self.records.touched.add(job.id)
        return job

    def load(self, loaded: events.Loaded, now: Seconds) -> Commands:
        """Restore the added jobs from what an earlier process left."""
        found = {(f.replica, f.attempt): f for f in loaded.replicas}
        commands: Commands = []
        exits: list[events.ReplicaExited] = []
        for job in self.jobs.values():
            state = loaded.states.get(job.id)
            if state is not None:
                self.records.touched.add(job.id)
                more, ended = restore(job, state, found, now)
                commands += more
                exits += ended
        commands += self._ended(exits, now)
        return self._removals.tracked([*commands, *(cmd.Remove(*orphan) for orphan in found)], now)

    @property
    def finished(self) -> bool:
        """Whether every job has ended durably and its remains are removed."""
        return not self._removals and not self._agenda.current().unfinished

    @property
    def arriving(self) -> bool:
        """Whether a restarted replica has not reported yet."""
        return bool(self._agenda.current().arriving)

    def forget(self, name: JobId, now: Seconds) -> Commands:
        """Forget an ended job, which was reported for the last time. A new job can use its name."""
        del self.jobs[name]
        self.records.touched.add(name)
        return self._removals.tracked(self._succeed(name, now), now)

    def learn_total(self, name: JobId, total_steps: float) -> None:
        """Store the number of steps that a training script has announced."""
        job = self.jobs[name]
        job.spec = replace(job.spec, total_steps=total_steps)
        job.mark_dirty()

    def apply(self, decision: Decision, now: Seconds) -> decisions.Answer:
        return decisions.apply(self.records, decision, now)

    def request(self, asked: Request, now: Seconds) -> Commands:
        return decisions.request(self.records, asked, now)

    def cancel(self, reason: str, now: Seconds, *, force: bool = False) -> Commands:
        """Cancel every job. `force`: kill at once, and abandon replicas on nodes that are down."""
        self.outbox.triggers.append(Trigger.ASKED)
        commands: Commands = []
        for job in self.jobs.values():
            self.records.touched.add(job.id)
            commands += lifecycle.cancel(job, reason, now)
            for r in list(job.replicas.values()) if force else ():
                r.deadline, r.stop_failed = now, False
                if not self.records.is_up(r.node):
                    job.reason = f"{reason}; node {r.node} is down: {r.id.name} may still run there"
                    gone = events.ReplicaExited(r.id, r.attempt, code=lifecycle.KILLED)
                    commands += self.handle(gone, now)
        return commands

    def handle(self, event: events.Event, now: Seconds) -> Commands:
        return self._removals.tracked(self._handle(event, now), now)

    def _handle(self, event: events.Event, now: Seconds) -> Commands:
        match event:
            case events.Persisted(job=name, version=version):
                job = self.records.job(name)
                return job.confirmed(version) if job else []
            case events.Removed(replica=replica, attempt=attempt):
                self._removals.done(replica, attempt)
                return self._succeed(replica.job, now)
            case Attempt():
                return self._replica_event(event, now)
            case events.CommandFailed():
                return self._failed(event, now)
            case events.NodeChanged(node=node, exists=exists):
                self.cordons.exists(node.id, exists=exists)
                return self._node_changed(node, now)
            case events.JobSeen():
                return self._seen(event, now)
            case _:
                return self._job_event(event, now)

    def _job_event(self, event: events.JobEvent, now: Seconds) -> Commands:
        if event.job in self._successors:
            self._successors[event.job].append(event)
            return []
        job = self.records.job(event.job)
        if job is None:
            return []
        if isinstance(event, events.JobDeleted):
            job.deleted, job.delete_at = True, inf
        if job.phase.ended:
            return []
        match event:
            case events.Admitted():
                return [] if job.arrived else lifecycle.arrive(job)
            case events.JobChanged(spec=spec):
                job.spec = _with_nodes(job.spec, spec) if job.replicas else spec
                job.mark_dirty()
                self.outbox.triggers.append(Trigger.NODE if job.replicas else Trigger.ARRIVED)
                return []
            case events.JobRejected(reason=reason):
                return lifecycle.end(job, Cause.FAIL, Phase.FAILED, reason, now)
            case events.JobSuspended(suspended=suspended):
                return decisions.suspend_by_spec(job, suspended, now)
            case events.JobRequested(request=request):
                return decisions.request(self.records, request, now)
            case events.JobRestricted(capabilities=capabilities):
                job.capabilities = capabilities
                job.mark_dirty()
                return []
            case events.JobDeleted(reason=reason):
                return lifecycle.cancel(job, reason, now)
            case _:
                assert_never(event)

    def _seen(self, event: events.JobSeen, now: Seconds) -> Commands:
        known = self.jobs.get(event.job.id)
        if known is not None and not (known.phase.ended or known.target is Phase.CANCELLED):
            return []
        if known is not None or event.job.id in self._removals:  # attempts have the same names
            self._successors[event.job.id] = [event]
            return []
        job = self.add(event.job)
        if event.state is not None:
            commands, exits = restore(job, event.state, {}, now)
            return [*commands, *self._ended(exits, now)]
        if event.job.node is None:
            return []
        lifecycle.arrive(job)  # an adopted job runs already and needs no decision
        return lifecycle.place(job, ((job.chief(), event.job.node),), now, Cause.PLACE)

    def _succeed(self, name: JobId, now: Seconds) -> Commands:
        """Add the new job of this name if nothing is left of the one before it."""
        if name in self.jobs or name in self._removals:
            return []
        waiting = self._successors.pop(name, [])
        return [command for event in waiting for command in self._handle(event, now)]

    def _ended(self, exits: list[events.ReplicaExited], now: Seconds) -> Commands:
        """Handle exits, successful ones first: a job whose chief has succeeded has succeeded."""
        successes_first = sorted(exits, key=lambda e: e.code != 0)
        return [command for event in successes_first for command in self.handle(event, now)]

    def _replica_event(self, event: events.ReplicaEvent, now: Seconds) -> Commands:
        job, r = self.records.job(event.job), self.records.replica(event.replica)
        t = r.transfer if r is not None else None
        if job is not None and r is not None and t is not None and t.reserved == event.attempt:
            return transfer.reservation(job, r, t, event, now)
        if job is None or r is None or r.attempt != event.attempt:
            orphan = isinstance(event, events.ReplicaRunning)
            return [cmd.Remove(event.replica, event.attempt)] if orphan else []
        match event:
            case events.ReplicaPrepared():
                return lifecycle.prepared(job, r, now)
            case events.ReplicaRunning():
                return lifecycle.running(job, r, now)
            case events.ReplicaExited():
                return self._exited(job, r, event, now)
            case events.ReplicaReported():
                return transfer.arrived(job, r)
            case events.ReplicaWaiting():
                lifecycle.note_waiting(r, event, now, self.config)
            case events.CheckpointRead(checkpoint=checkpoint):
                return transfer.checkpoint_read(job, r, checkpoint, now)
            case events.ShareInEffect(limit=limit, weight=weight):
                lifecycle.share_in_effect(job, r, limit, weight)
            case events.ReplicaNotice(notice=notice):
                self.outbox.notices[r.id] = notice
                self.outbox.to_measure[r.node] = None
            case _:
                assert_never(event)
        return []

    def _exited(
        self, job: JobRecord, r: ReplicaRecord, event: events.ReplicaExited, now: Seconds
    ) -> Commands:
        at = now if event.at is None else max(event.at, job.started_at or 0.0)
        if r.transfer is not None and r.transfer.stopping:
            return transfer.exited(job, r, r.transfer, event, at)
        if event.disrupted and r.transfer is not None and transfer.can_follow(job, r.transfer):
            return transfer.follow(job, r, r.transfer, event, at)
        commands = lifecycle.exited(job, r, event, at)
        if job.phase in (Phase.MIGRATING, Phase.SUSPENDING) and not transfer.under_way(job):
            commands += transfer.resume(job, Cause.ARRIVE)
        return commands

    def _failed(self, event: events.CommandFailed, now: Seconds) -> Commands:
        """Handle a failed command. Only commands that are always needed are repeated."""
        command, retry_at = event.command, now + self.config.retry_command
        job = self.records.job(command.job)
        if job is None:
            return []
        match command:
            case cmd.Persist():
                job.persist_at = retry_at
            case cmd.Admit() if job.arrived:
                pass  # the job was cancelled meanwhile
            case cmd.Admit() if event.permanent:
                return lifecycle.end(job, Cause.FAIL, Phase.FAILED, event.reason, now)
            case cmd.Admit():
                job.admit_at = retry_at
            case cmd.Start(replicas=replicas) | cmd.Proceed(replicas=replicas):
                return lifecycle.start_failed(job, replicas, decisions.not_grown(job, event), now)
            case cmd.Reserve(replicas=replicas):
                return transfer.not_reserved(job, replicas[0], event.reason)
            case cmd.DeleteJob():
                job.delete_at = inf if job.deleted else retry_at
            case Attempt():
                r = job.replicas.get(command.replica)
                if r is not None and r.attempt == command.attempt:
                    self._replica_command_failed(r, command, event.reason, now)
            case _:
                assert_never(command)
        return []

    def _replica_command_failed(
        self, r: ReplicaRecord, command: cmd.ReplicaCommand, reason: str, now: Seconds
    ) -> None:
        """Handle a failed command to a replica. `Kill` and others are repeated at a deadline."""
        match command:
            case cmd.Stop():
                r.stop_failed, r.deadline = True, now + self.config.retry_command
            case cmd.ApplyShare():
                r.limit, r.weight = r.in_effect
                self.outbox.replicas[r.id] = r
                self.outbox.notices[r.id] = f"its share was not set: {reason}"
                self.outbox.to_measure[r.node] = None  # a report carries the notice
            case cmd.RequestCheckpoint() if r.transfer is not None:
                r.deadline = now

    def _node_changed(self, node: Node, now: Seconds) -> Commands:
        """Store the state of a node. Gangs that were starting on a lost node return to
        the queue.
        """
        if node.id in self.records.drained:
            node = replace(node, cordoned=True)
        self.nodes[node.id] = node
        self.cordons.changed(node, now)
        self.outbox.nodes[node.id] = self.outbox.to_measure[node.id] = None
        self.outbox.triggers.append(Trigger.NODE)
        commands: Commands = []
        for job in self.jobs.values() if not node.up else ():
            here = [r for r in job.replicas.values() if r.node == node.id and not r.running]
            if here and job.phase is Phase.STARTING:
                self.records.touched.add(job.id)
                reason = f"node {node.id} was lost before {here[0].id.name} started"
                commands += lifecycle.requeue(job, reason, now)
            elif any(r.transfer is not None for r in job.replicas.values()):
                self.records.touched.add(job.id)
                commands += transfer.target_lost(job, node.id)
        return commands

    def next_deadline(self) -> Seconds:
        times = [self._removals.next()]
        agenda = self._agenda.current()
        if agenda.pending:
            times.append(self.observed_at + self.config.review_pending)
        return min([*times, agenda.next(), self.cordons.next()])

    def tick(self, now: Seconds) -> Commands:
        commands: Commands = []
        self.cordons.ask(now)
        for job in self._agenda.current().take_due(now):
            commands += self._due(job, now)
        repeated, given_up = self._removals.take_due(now)
        commands += repeated
        for name in given_up:
            commands += self._succeed(name, now)
        if self._agenda.current().pending and self.observed_at + self.config.review_pending <= now:
            self.outbox.triggers.append(Trigger.NODE)
        return self._removals.tracked(commands, now)

    def _due(self, job: JobRecord, now: Seconds) -> Commands:
        commands = lifecycle.due(job, now)
        for r in list(job.replicas.values()):
            if r.deadline > now or job.replicas.get(r.id) is not r:  # it has ended with its gang
                continue
            if r.transfer is not None and r.running and not r.transfer.stopping:
                commands += transfer.overdue(job, r, r.transfer, now)
            else:
                commands += lifecycle.overdue(job, r, now)
        return commands

    def take_outbox(self, now: Seconds) -> Outbox:
        """Return what changed since the last call."""
        self.observed_at = now
        return self.outbox.take()
