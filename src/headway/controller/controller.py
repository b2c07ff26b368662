"""The job lifecycle on every live platform: decisions, events and deadlines in, commands out.

It performs no IO and reads no clock. `apply`, `handle` and `tick` change the records and return
commands for the platform; `next_deadline` says when to call `tick`. What a command depends on is
persisted first: the command is returned by the `handle` that gets the `Persisted`.
"""

from dataclasses import replace
from math import inf
from typing import assert_never

from headway.controller import decisions, lifecycle, requests, transfer
from headway.controller.commands import (
    Admit,
    ApplyShare,
    Command,
    DeleteJob,
    Persist,
    Remove,
    RequestCheckpoint,
    Start,
    Stop,
)
from headway.controller.events import (
    Admitted,
    CheckpointRead,
    CommandFailed,
    Event,
    JobChanged,
    JobDeleted,
    JobRejected,
    JobSeen,
    Loaded,
    NewJob,
    NodeChanged,
    Persisted,
    Removed,
    ReplicaExited,
    ReplicaNotice,
    ReplicaReported,
    ReplicaRunning,
    ReplicaWaiting,
    ShareInEffect,
)
from headway.controller.phases import Cause
from headway.controller.records import Config, JobRecord, News, Records, ReplicaRecord
from headway.controller.recovery import restore
from headway.core.model.decision import Decision
from headway.core.model.job import Phase
from headway.core.model.node import Node
from headway.core.model.snapshot import Request, Trigger
from headway.core.model.units import JobId, NodeId, ReplicaId, Seconds

DEFAULTS = Config()


class Controller:
    def __init__(self, config: Config = DEFAULTS) -> None:
        self.config, self.records = config, Records()
        self.jobs, self.nodes, self.news = self.records.jobs, self.records.nodes, self.records.news
        self.observed_at: Seconds = 0.0
        self._removals: dict[tuple[ReplicaId, int], tuple[Seconds, Seconds]] = {}
        """Attempts that are being removed: when to try again, and when to give up."""
        self._successors: dict[JobId, JobSeen] = {}
        """Jobs that have the name of a deleted one that has not ended yet."""

    # -- jobs ------------------------------------------------------------------------------------

    def add(self, new: NewJob) -> JobRecord:
        job = self.jobs[new.id] = JobRecord(new, self.news, self.config)
        return job

    def load(self, loaded: Loaded, now: Seconds) -> list[Command]:
        """Continue what an earlier process left of the jobs that were added."""
        found = {(f.replica, f.attempt): f for f in loaded.replicas}
        commands: list[Command] = []
        exits: list[ReplicaExited] = []
        for job in self.jobs.values():
            state = loaded.states.get(job.id)
            if state is not None:
                more, ended = restore(job, state, found, now)
                commands += more
                exits += ended
        for event in _successes_first(exits):
            commands += self.handle(event, now)
        return self._track([*commands, *(Remove(*orphan) for orphan in found)], now)

    @property
    def finished(self) -> bool:
        """Every job has ended durably, and nothing is left of it."""
        return not self._removals and all(
            j.finished_at is not None and j.persisted == j.version for j in self.jobs.values()
        )

    def forget(self, name: JobId, now: Seconds) -> list[Command]:
        """An ended job was reported for the last time: a new one may have its name."""
        del self.jobs[name]
        successor = self._successors.pop(name, None)
        return self.handle(successor, now) if successor else []

    def learn_total(self, name: JobId, total_steps: float) -> None:
        """The script has announced how many steps it will take."""
        job = self.jobs[name]
        job.spec = replace(job.spec, total_steps=total_steps)
        job.mark_dirty()

    # -- decisions and requests ------------------------------------------------------------------

    def apply(self, decision: Decision, now: Seconds) -> tuple[str, list[Command]]:
        """Why it is refused ("": it is not), and what to do."""
        return decisions.apply(self.records, decision, now)

    def request(self, asked: Request, now: Seconds) -> list[Command]:
        return requests.request(self.records, asked, now)

    def cancel(self, reason: str, now: Seconds, *, force: bool = False) -> list[Command]:
        """Cancel every job. `force`: kill at once, and abandon replicas on nodes that are down."""
        self.news.triggers.append(Trigger.ASKED)
        commands: list[Command] = []
        for job in self.jobs.values():
            commands += lifecycle.cancel(job, reason, now)
            for r in list(job.replicas.values()) if force else ():
                r.deadline, r.stop_failed = now, False
                if not self.records.is_up(r.node):
                    job.reason = f"{reason}; node {r.node} is down: {r.id.name} may still run there"
                    gone = ReplicaExited(replica=r.id, attempt=r.attempt, code=lifecycle.KILLED)
                    commands += self.handle(gone, now)
        return commands

    # -- events ----------------------------------------------------------------------------------

    def handle(self, event: Event, now: Seconds) -> list[Command]:
        match event:
            case Persisted(job=name, version=version):
                job = self.jobs.get(name)
                return self._track(job.confirmed(version) if job else [], now)
            case ReplicaRunning() | ReplicaExited() | ReplicaReported() | ReplicaWaiting():
                return self._track(self._replica_event(event, now), now)
            case CheckpointRead() | ShareInEffect() | ReplicaNotice():
                return self._track(self._replica_event(event, now), now)
            case Removed(replica=name, attempt=attempt):
                self._removals.pop((name, attempt), None)
                return []
            case CommandFailed():
                return self._track(self._failed(event, now), now)
            case NodeChanged(node=node):
                return self._node_changed(node, now)
            case _:
                return self._job_event(event, now)

    def _job_event(
        self, event: JobSeen | Admitted | JobChanged | JobRejected | JobDeleted, now: Seconds
    ) -> list[Command]:
        if isinstance(event, JobSeen):
            return self._seen(event, now)
        job = self.jobs.get(event.job)
        if job is None:
            return []
        job.deleted = job.deleted or isinstance(event, JobDeleted)
        if job.phase.ended:
            return []
        match event:
            case Admitted():
                return [] if job.arrived else lifecycle.arrive(job)
            case JobChanged(spec=spec):
                if not job.replicas:
                    job.spec = spec
                    job.mark_dirty()
                    self.news.triggers.append(Trigger.ARRIVED)
                return []
            case JobRejected(reason=reason):
                job.arrived = True
                return lifecycle.end(job, Cause.FAIL, Phase.FAILED, reason, now)
            case JobDeleted(reason=reason):
                return lifecycle.cancel(job, reason, now)
            case _:
                assert_never(event)

    def _seen(self, event: JobSeen, now: Seconds) -> list[Command]:
        known = self.jobs.get(event.job.id)
        if known is not None:
            if known.phase.ended or known.target is Phase.CANCELLED:
                self._successors[known.id] = event
            return []
        job = self.add(event.job)
        if event.state is not None:
            commands, exits = restore(job, event.state, {}, now)
            return [*commands, *(c for e in _successes_first(exits) for c in self.handle(e, now))]
        if event.job.node is not None:
            return self._adopt(job, event.job.node, now)
        return []

    def _adopt(self, job: JobRecord, node: NodeId, now: Seconds) -> list[Command]:
        """It runs already: no decision is needed to start it."""
        lifecycle.arrive(job)
        where = ((job.chief(), node),)
        return lifecycle.place(job, where, now, Cause.PLACE)

    def _replica_event(
        self,
        event: ReplicaRunning
        | ReplicaExited
        | ReplicaReported
        | ReplicaWaiting
        | ReplicaNotice
        | CheckpointRead
        | ShareInEffect,
        now: Seconds,
    ) -> list[Command]:
        job, r = self.jobs.get(event.replica.job), self.records.replica(event.replica)
        if job is None or r is None or r.attempt != event.attempt:
            orphan = isinstance(event, ReplicaRunning)
            return [Remove(event.replica, event.attempt)] if orphan else []
        match event:
            case ReplicaRunning():
                return lifecycle.running(job, r, now)
            case ReplicaExited():
                return self._exited(job, r, event, now)
            case ReplicaReported():
                return transfer.arrived(job, r)
            case ReplicaWaiting(reason=reason):
                lifecycle.waits(r, reason, now, self.config)
            case CheckpointRead(checkpoint=checkpoint):
                return transfer.checkpoint_read(job, r, checkpoint, now)
            case ShareInEffect(limit=limit, weight=weight):
                lifecycle.share_in_effect(job, r, limit, weight)
            case ReplicaNotice(notice=notice):
                self.news.notices[r.id] = notice
                self.news.disturbed[r.node] = None
            case _:
                assert_never(event)
        return []

    def _exited(
        self, job: JobRecord, r: ReplicaRecord, event: ReplicaExited, now: Seconds
    ) -> list[Command]:
        at = now if event.at is None else event.at
        if r.transfer is not None and r.transfer.stopping:
            return transfer.exited(job, r, r.transfer, event, at)
        commands = lifecycle.exited(job, r, event, at)
        if job.phase in (Phase.MIGRATING, Phase.SUSPENDING) and not transfer.under_way(job):
            commands += transfer.resume(job, Cause.ARRIVE)
        return commands

    def _failed(self, event: CommandFailed, now: Seconds) -> list[Command]:
        """A command was not carried out. The next decision may differ; nothing is repeated but
        what must become true.
        """
        match event.command:
            case Persist(job=name):
                self.jobs[name].persist_at = now + self.config.retry_command
            case Admit(job=name):
                job = self.jobs[name]
                if event.permanent:
                    job.arrived = True
                    return lifecycle.end(job, Cause.FAIL, Phase.FAILED, event.reason, now)
                job.admitting, job.admit_at = False, now + self.config.retry_command
            case Start(job=name, replicas=replicas):
                current = [
                    a.replica
                    for a in replicas
                    if (r := self.records.replica(a.replica)) is not None and r.attempt == a.attempt
                ]
                if name not in self.jobs:
                    return []
                return lifecycle.start_failed(self.jobs[name], tuple(current), event, now)
            case DeleteJob(job=name) if name in self.jobs:
                job = self.jobs[name]
                job.deleting, job.delete_at = False, now + self.config.retry_command
            case Stop() | ApplyShare() | RequestCheckpoint():
                self._replica_command_failed(event.command, event.reason, now)
            case _:
                pass  # its deadline repeats it
        return []

    def _replica_command_failed(
        self, command: Stop | ApplyShare | RequestCheckpoint, reason: str, now: Seconds
    ) -> None:
        r = self.records.replica(command.replica)
        if r is None or r.attempt != command.attempt:
            return
        match command:
            case Stop():
                r.stop_failed, r.deadline = True, now + self.config.retry_command
            case ApplyShare():
                r.limit, r.weight = r.in_effect
                self.news.replicas[r.id] = r
                self.news.notices[r.id] = f"its share was not set: {reason}"
            case RequestCheckpoint():
                r.deadline = now if r.transfer is not None else r.deadline
            case _:
                assert_never(command)

    def _node_changed(self, node: Node, now: Seconds) -> list[Command]:
        """Gangs that were about to start on a lost node return to the queue."""
        self.nodes[node.id] = node
        self.news.nodes[node.id] = None
        self.news.triggers.append(Trigger.NODE)
        commands: list[Command] = []
        for job in self.jobs.values() if not node.up else ():
            here = [r for r in job.replicas.values() if r.node == node.id and not r.running]
            if here and job.phase is Phase.STARTING:
                reason = f"node {node.id} was lost before {here[0].id.name} started"
                commands += lifecycle.requeue(job, reason, now)
        return commands

    # -- deadlines -------------------------------------------------------------------------------

    def next_deadline(self) -> Seconds:
        times = [at for at, _ in self._removals.values()]
        for job in self.jobs.values():
            times += lifecycle.deadlines(job)
        if self._any_pending():
            times.append(self.observed_at + self.config.review_pending)
        return min(times, default=inf)

    def tick(self, now: Seconds) -> list[Command]:
        """Do what is due."""
        commands: list[Command] = []
        for job in list(self.jobs.values()):
            commands += self._due(job, now)
        for key, (at, until) in list(self._removals.items()):
            if until <= now:
                del self._removals[key]
            elif at <= now:
                commands.append(Remove(*key))
        if self._any_pending() and self.observed_at + self.config.review_pending <= now:
            self.news.triggers.append(Trigger.NODE)
        return self._track(commands, now)

    def _due(self, job: JobRecord, now: Seconds) -> list[Command]:
        commands = lifecycle.due(job, now)
        for r in list(job.replicas.values()):
            if r.deadline is None or r.deadline > now:
                continue
            if r.transfer is not None and r.running and not r.transfer.stopping:
                commands += transfer.overdue(job, r, r.transfer)
            else:
                commands += lifecycle.overdue(job, r, now)
        return commands

    def _any_pending(self) -> bool:
        return any(j.arrived and j.phase is Phase.PENDING for j in self.jobs.values())

    def _track(self, commands: list[Command], now: Seconds) -> list[Command]:
        """Removals are repeated until they are confirmed."""
        for c in commands:
            if isinstance(c, Remove):
                _, until = self._removals.get(
                    (c.replica, c.attempt), (now, now + self.config.removal_timeout)
                )
                self._removals[c.replica, c.attempt] = now + self.config.retry_removal, until
        return commands

    # -- what the loop is told ---------------------------------------------------------------------

    def take_news(self, now: Seconds) -> News:
        """What changed since the last call."""
        self.observed_at = now
        return self.news.take()


def _successes_first(exits: list[ReplicaExited]) -> list[ReplicaExited]:
    """A job whose chief has succeeded has succeeded, whatever became of the others meanwhile."""
    return sorted(exits, key=lambda e: e.code != 0)
