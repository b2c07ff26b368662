"""The records of the controller: one for each job, and all of them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import TYPE_CHECKING

from headway.controller.commands import (
    Assignment,
    Command,
    Commands,
    Persist,
    Release,
    Remove,
    Reserve,
    Start,
    Stop,
)
from headway.controller.config import Config
from headway.controller.events import NewJob
from headway.controller.job_state import (
    JobFields,
    JobState,
)
from headway.controller.phases import Cause, check_transition
from headway.controller.replica_record import ReplicaRecord
from headway.core.estimate.step_rate import SERVER
from headway.core.model.capabilities import Capabilities
from headway.core.model.job import Job, JobSpec, Mode, Phase, Task
from headway.core.model.snapshot import Request, Trigger
from headway.core.model.units import JobId, NodeId, ReplicaId, Seconds, Where

if TYPE_CHECKING:
    from headway.core.model.node import Node


PERSISTED = tuple(f.name for f in fields(JobFields))
ADOPTED = Capabilities(migrate=False, suspend=False, scale=False)
"""Capabilities for adopted jobs."""


@dataclass(slots=True)
class Outbox:
    """What the next observation reports, and why the loop must run."""

    jobs: dict[JobId, None] = field(default_factory=dict)
    replicas: dict[ReplicaId, ReplicaRecord] = field(default_factory=dict)
    nodes: dict[NodeId, None] = field(default_factory=dict)
    to_measure: dict[NodeId, None] = field(default_factory=dict)
    """Nodes whose replicas the next observation measures."""
    notices: dict[ReplicaId, str] = field(default_factory=dict)
    """Facts about a replica, for `explain`."""
    requests: list[Request] = field(default_factory=list)
    triggers: list[Trigger] = field(default_factory=list)

    def take(self) -> "Outbox":
        """Return the content, and empty the outbox."""
        taken = replace(self)
        for each in fields(self):
            setattr(self, each.name, type(getattr(self, each.name))())
        return taken


class JobRecord(JobFields):
    def __init__(self, new: NewJob, outbox: Outbox, config: Config, number: int) -> None:
        super().__init__()
        self.new, self.spec, self.outbox, self.config = new, new.spec, outbox, config
        self.id, self.number = new.id, number
        self.asked_to: NodeId | None = None
        """Target of a requested move that the policy has not decided yet."""
        self.asked_size: tuple[str, int] | None = None
        """Task and number of a requested scaling that the policy has not decided yet."""
        self.arrived = False
        """Whether it was admitted to the queue."""
        self.admit_at: Seconds = new.submitted_at
        """When to send `Admit`."""
        self.requeues = 0
        """Number of consecutive interruptions by the cluster."""
        self.retry_at: Seconds = inf
        self.replace_at: Seconds = inf
        """When to request replacements of replicas that were lost to the cluster."""
        self.delete_at: Seconds = inf
        """When to send `DeleteJob`."""
        self.deleted = False
        """Whether it was deleted on the platform."""
        self.capabilities = ADOPTED if new.adopted else None
        """Capabilities for this job; None: those of the platform."""
        self.avoided: dict[NodeId, Seconds] = {}
        """Nodes that the job does not use, and the time until then."""
        self.replicas: dict[ReplicaId, ReplicaRecord] = {}
        self.version = self.persisted = 0
        self.persist_at: Seconds = inf
        """When to repeat a `Persist` that failed."""
        self._waiting: list[tuple[int, Command]] = []

    @property
    def idle_phase(self) -> Phase:
        """Phase of this job while it has no replicas."""
        return Phase.PAUSED if self.paused else Phase.PENDING

    @property
    def outcome(self) -> str:
        """Phase in results. An adopted job is released, not cancelled."""
        released = self.new.adopted and self.phase is Phase.CANCELLED
        return "released" if released else self.phase.value

    @property
    def can_checkpoint(self) -> bool:
        """Whether it can be stopped without losing its progress."""
        return self.spec.checkpoint is not Mode.NONE and not self.new.adopted

    @property
    def finished(self) -> bool:
        """Whether it has ended durably."""
        return self.finished_at is not None and self.persisted == self.version

    def finish(self, at: Seconds | None) -> None:
        self.finished_at = at
        if at is not None and self.new.ttl is not None and not self.deleted:
            self.delete_at = at + self.new.ttl

    def transition(self, cause: Cause, to: Phase) -> None:
        check_transition(self.phase, cause, to)
        self.phase = to
        if to not in (Phase.RUNNING, Phase.MIGRATING):
            self.move_to = self.scale_to = None
            self.short_of, self.replace_at = None, inf
        self.mark_dirty()

    def mark_dirty(self) -> None:
        self.outbox.jobs[self.id] = None

    def set_replica(self, r: ReplicaRecord, phase: Phase) -> None:
        r.phase = phase
        self.outbox.replicas[r.id] = r
        self.outbox.to_measure[r.node] = None

    def persist(self, *then: Command) -> Commands:
        """Persist the state. The commands `then` follow when it is durable."""
        self.version += 1
        self._waiting += [(self.version, command) for command in then]
        return [Persist(self.id, self.version, self.state())]

    def after_persist(self, *then: Command) -> Commands:
        """Return commands that follow when the present state is durable."""
        if self.persisted == self.version:
            return list(then)
        self._waiting += [(self.version, command) for command in then]
        return []

    def confirmed(self, version: int) -> Commands:
        self.persisted = max(self.persisted, version)
        ready = [c for v, c in self._waiting if v <= self.persisted]
        self._waiting = [(v, c) for v, c in self._waiting if v > self.persisted]
        for start in [c for c in ready if isinstance(c, Start)]:
            for each in start.replicas:
                self.replicas[each.replica].started = True
        return ready

    def stop_is_unsent(self, replica: ReplicaId) -> bool:
        """Whether the `Stop` of a replica waits until the state is durable."""
        stops = [c for _, c in self._waiting if isinstance(c, Stop | Release)]
        return any(c.replica == replica for c in stops)

    def withdraw_starts(self) -> Commands:
        """Forget replicas whose `Start` has not been sent. Return commands that remove what their
        attempts have reserved.
        """
        self._waiting = [(v, c) for v, c in self._waiting if not isinstance(c, Start | Reserve)]
        unsent = [r for r in self.replicas.values() if not r.started]
        for r in unsent:
            del self.replicas[r.id]
            self.set_replica(r, Phase.CANCELLED)
        moved = [r for r in unsent if r.transfer is not None and self.config.reserves]
        return [Remove(r.id, r.attempt) for r in moved]

    def state(self) -> JobState:
        return JobState(
            movable=self.spec.checkpoint is self.new.spec.checkpoint,
            replicas=tuple(r.state() for r in self.replicas.values()),
            **{name: getattr(self, name) for name in PERSISTED},
        )

    def restore(self, state: JobState) -> None:
        """Restore everything but the replicas from a persisted state."""
        for name in PERSISTED:
            setattr(self, name, getattr(state, name))
        for task, count in self.sizes:
            self.resize(task, count)
        self.arrived, self.admit_at = True, inf
        self.replace_at = 0.0 if self.short_of else inf
        self.finish(state.finished_at)
        if not state.movable:
            self.not_movable()
        self.mark_dirty()
        self.outbox.triggers.append(Trigger.ARRIVED)

    def chief(self) -> ReplicaId:
        return chief(self.id, [t.name for t in self.spec.tasks])

    def by_rank(self, gang: Iterable[ReplicaId]) -> tuple[ReplicaId, ...]:
        """Sort by rank: parameter servers, then the chief, then in the order of the tasks."""
        chief, tasks = self.chief(), [t.name for t in self.spec.tasks]

        def rank(name: ReplicaId) -> tuple[bool, bool, int, int]:
            return name.task != SERVER, name != chief, tasks.index(name.task), name.index

        return tuple(sorted(gang, key=rank))

    def start(self, where: Where, now: Seconds, reserved: int = 0) -> Start:
        """Add records of replicas that start now, with one attempt number: a new one, or
        `reserved`, the attempt that holds their capacity. Return the command.
        """
        self.attempt += not reserved
        added = []
        for name, node in where:
            r = ReplicaRecord(name, node, reserved or self.attempt)
            r.deadline = now + self.config.start_timeout
            r.limit = self.spec.task(name.task).limit
            self.replicas[name] = r
            self.set_replica(r, Phase.STARTING)
            added.append(r)
        return self.start_command(added)

    def start_command(self, replicas: Iterable[ReplicaRecord]) -> Start:
        assigned = [Assignment(r.id, r.attempt, r.node, self.gang.index(r.id)) for r in replicas]
        assigned.sort(key=lambda a: a.rank)
        return Start(self.id, tuple(assigned), self.gang)

    def resize(self, task: str, count: int) -> None:
        """Set the number of replicas with which the job starts."""
        self.sizes = (*(size for size in self.sizes if size[0] != task), (task, count))
        tasks = (replace(t, replicas=count) if t.name == task else t for t in self.spec.tasks)
        self.spec = replace(self.spec, tasks=tuple(tasks))
        self.mark_dirty()

    def not_movable(self) -> None:
        """Note that the job cannot save checkpoints: it is not moved or suspended again."""
        self.spec = replace(self.spec, checkpoint=Mode.NONE)
        self.mark_dirty()

    def to_core(self, nodes: Iterable[NodeId] = (), drained: Iterable[NodeId] = ()) -> Job:
        """Convert for the loop. `nodes`: all nodes; `drained`: nodes that no job uses."""
        avoided = {*self.avoided, *drained}
        return Job(
            id=self.id,
            spec=_without(self.spec, nodes, avoided) if avoided else self.spec,
            submitted_at=self.new.submitted_at,
            phase=self.phase,
            reason=self.reason,
            capabilities=self.capabilities,
        )


def _without(spec: JobSpec, nodes: Iterable[NodeId], avoided: Collection[NodeId]) -> JobSpec:
    """Return the spec without the avoided nodes."""
    known = tuple(nodes)

    def usable(task: Task) -> Task:
        allowed = known if task.nodes is None else task.nodes
        return replace(task, nodes=tuple(n for n in allowed if n not in avoided))

    return replace(spec, tasks=tuple(usable(t) for t in spec.tasks))


class Records:
    def __init__(self) -> None:
        self.jobs: dict[JobId, JobRecord] = {}
        self.nodes: dict[NodeId, Node] = {}
        self.drained: dict[NodeId, None] = {}
        """Nodes that a user has drained."""
        self.outbox = Outbox()
        self.touched: set[JobId] = set()
        """Jobs that may have changed since the last update of the agenda."""

    def job(self, name: JobId) -> JobRecord | None:
        """Return a job that may be changed by the caller."""
        self.touched.add(name)
        return self.jobs.get(name)

    def to_core(self, name: JobId) -> Job:
        return self.jobs[name].to_core(self.nodes, self.drained)

    def replica(self, name: ReplicaId) -> ReplicaRecord | None:
        job = self.job(name.job)
        return job.replicas.get(name) if job else None

    def is_up(self, node: NodeId) -> bool:
        return node in self.nodes and self.nodes[node].up


def chief(job: JobId, names: Sequence[str]) -> ReplicaId:
    """Return the replica whose success ends the job: `chief`, else `main`, else `worker` 0."""
    lead = next((n for n in ("chief", "main", "worker") if n in names), names[0])
    return ReplicaId.of(job, lead, 0)
