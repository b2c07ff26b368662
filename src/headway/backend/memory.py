"""A platform in memory, for tests: replicas are records, which follow commands and the test.

Everything but persistence takes effect at the next `poll`, so that tests can see actions in
progress.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from headway.backend.base import MetricsInFiles
from headway.backend.usage import UsageSample
from headway.backend.worker import EventQueue
from headway.controller import commands, events
from headway.controller.events import Event, Loaded
from headway.controller.job_state import Checkpoint, JobState, ReplicaState
from headway.core.model.capabilities import Capabilities
from headway.core.model.job import Phase
from headway.core.model.node import Node
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds, Where

EXIT_CODES = {commands.Stop: 143, commands.Kill: 137, commands.Release: 0}


@dataclass(slots=True)
class _Process:
    node: NodeId
    running: bool = True
    code: int | None = None
    saves: int = 0
    limit: Cores | None = None
    weight: float = 1.0

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(str(self.saves), verified=True) if self.saves else Checkpoint()


@dataclass(slots=True)
class MemoryPlatform(MetricsInFiles):
    """A second platform with the same fields is what survives a crash."""

    machines: dict[NodeId, Node]
    states: dict[JobId, JobState] = field(default_factory=dict)
    processes: dict[tuple[ReplicaId, int], _Process] = field(default_factory=dict)
    events: EventQueue = field(default_factory=EventQueue)
    kind: ClassVar = "memory"
    capabilities: ClassVar = Capabilities()
    enforcement: ClassVar = ("memory", "records")
    _pending: list[Event] = field(default_factory=list)

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> "MemoryPlatform":
        return cls({n.id: n for n in nodes})

    def nodes(self) -> list[Node]:
        return list(self.machines.values())

    def load(self) -> Loaded:
        found = (_found(name, n, p) for (name, n), p in self.processes.items())
        return events.Loaded(dict(self.states), tuple(found))

    def refusal(self, job: JobId, where: Where) -> str:
        del job, where
        return ""

    def execute(self, command: commands.Command) -> list[Event]:
        match command:
            case commands.Persist(job=job, version=version, state=state):
                self.states[job] = state
                return [events.Persisted(job, version)]
            case commands.Admit(job=job):
                return [events.Admitted(job)]
            case commands.Start(replicas=replicas):
                for a in replicas:
                    self.processes.setdefault((a.replica, a.attempt), _Process(a.node))
                    self._pending.append(events.ReplicaRunning(a.replica, a.attempt))
                    self._pending.append(events.ReplicaReported(a.replica, a.attempt))
            case commands.Stop() | commands.Kill() | commands.Release():
                self._exit(command.replica, command.attempt, EXIT_CODES[type(command)])
            case commands.Remove(replica=name, attempt=attempt):
                self.processes.pop((name, attempt), None)
                self._pending.append(events.Removed(name, attempt))
            case commands.RequestCheckpoint(replica=name, attempt=attempt, ask=ask):
                self._save(name, attempt, ask)
            case commands.ApplyShare(replica=name, attempt=attempt, limit=limit, weight=weight):
                p = self.processes[name, attempt]
                p.limit, p.weight = limit, weight
                return [events.ShareInEffect(name, attempt, limit, weight)]
            case commands.DeleteJob(job=job):
                return [events.JobDeleted(job, "its TTL has expired")]
            case commands.CancelCheckpoint():
                pass
        return []

    def poll(self, timeout: Seconds) -> list[Event]:
        pending, self._pending = self._pending, []
        return pending or self.events.wait(timeout)

    def read(self, replica: ReplicaId, before: UsageSample | None) -> UsageSample | None:
        """Return None: records use nothing."""
        del replica, before
        return None

    def close(self) -> None:
        self.events.close()

    @property
    def settled(self) -> bool:
        """Whether no event is pending."""
        return not self._pending

    def host(self, job: JobId, where: Sequence[tuple[ReplicaId, NodeId]]) -> None:
        """Add a job that runs already when Headway starts."""
        replicas = [ReplicaState(replica=name, node=node, attempt=1) for name, node in where]
        gang = tuple(name for name, _ in where)
        self.states[job] = JobState(
            phase=Phase.RUNNING, attempt=1, gang=gang, replicas=tuple(replicas)
        )
        self.processes |= {(name, 1): _Process(node) for name, node in where}

    def exit(self, replica: ReplicaId) -> None:
        """Let a replica exit with code 0."""
        for attempt in range(1, self.states[replica.job].attempt + 1):
            self._exit(replica, attempt, 0)

    def _exit(self, name: ReplicaId, attempt: int, code: int) -> None:
        p = self.processes.get((name, attempt))
        if p is None or not p.running:
            return
        p.running, p.code = False, code
        p.saves += code == EXIT_CODES[commands.Stop]
        self._pending.append(_exited(name, attempt, p))

    def _save(self, name: ReplicaId, attempt: int, ask: bool) -> None:
        p = self.processes[name, attempt]
        self._pending.append(events.CheckpointRead(name, attempt, p.checkpoint))
        if ask and p.running:
            p.saves += 1
            self._pending.append(events.CheckpointRead(name, attempt, p.checkpoint))


def _exited(name: ReplicaId, attempt: int, p: _Process) -> events.ReplicaExited:
    return events.ReplicaExited(name, attempt, code=p.code or 0, checkpoint=p.checkpoint)


def _found(name: ReplicaId, attempt: int, p: _Process) -> events.ReplicaFound:
    exited = None if p.running else _exited(name, attempt, p)
    return events.ReplicaFound(name, attempt, p.running, exited, p.limit, p.weight)
