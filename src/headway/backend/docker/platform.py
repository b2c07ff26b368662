"""Docker engines as a platform: each engine is a node, each attempt of a replica a container.

Calls to an engine run in its worker, and their results return to the loop's thread as closures.
Containers carry run, replica and attempt as labels and in their name, so that the next process
finds them and no attempt is started twice.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

from headway.backend.checkpoints import CheckpointWatch
from headway.backend.clock import Clock
from headway.backend.docker import (
    container_events,
    container_spec,
    operations,
    recovery,
    transport,
)
from headway.backend.docker.adopt import LabelWatch
from headway.backend.docker.container import ContainerState
from headway.backend.docker.container_table import ContainerRecord, ContainerTable
from headway.backend.docker.engine import Engine
from headway.backend.job_store import JobStore
from headway.backend.usage import UsageSample
from headway.backend.worker import EventQueue, Worker
from headway.controller.commands import (
    Admit,
    ApplyShare,
    Assignment,
    CancelCheckpoint,
    Command,
    DeleteJob,
    Kill,
    Persist,
    Release,
    Remove,
    ReplicaCommand,
    RequestCheckpoint,
    Start,
    Stop,
)
from headway.controller.events import (
    Admitted,
    CommandFailed,
    Event,
    Loaded,
    NodeChanged,
    Persisted,
    Removed,
    ReplicaExited,
    ReplicaNotice,
    ShareInEffect,
)
from headway.controller.job_state import JobState
from headway.core.model.capabilities import Capabilities
from headway.core.model.job import Mode
from headway.core.model.node import Node
from headway.core.model.units import JobId, NodeId, ReplicaId, Seconds
from headway.errors import BackendError, Declined, Unreachable
from headway.spec.runnable import RunnableJob


class DockerPlatform:
    kind: ClassVar = "docker"
    capabilities: ClassVar = Capabilities(
        shares=True, migrate=True, suspend=True, scale=True, adopt=True
    )

    def __init__(
        self,
        folder: Path,
        engines: Sequence[Engine],
        jobs: dict[JobId, RunnableJob],
        clock: Clock,
        label: str = "",
    ) -> None:
        """`label`: foreign containers with it are adopted when they start."""
        self.run, self.jobs, self.clock = folder.name, jobs, clock
        self.events, self.store = EventQueue(), JobStore(folder)
        self._disk = Worker("job store", self.events)
        self.engines = {e.name: e for e in engines}
        self.containers = ContainerTable(self.run)
        self.checkpoints = CheckpointWatch()
        self.label_watch = LabelWatch(label, jobs, clock)
        self._transport_at: Seconds = 0.0
        for engine in engines:
            engine.begin(
                self.events,
                connected=partial(self._connected, engine),
                lost=partial(self._lost, engine),
                event=partial(self._happened, engine),
            )

    @property
    def enforcement(self) -> tuple[str, str]:
        versions = ", ".join(dict.fromkeys(e.version for e in self.engines.values()))
        return "docker", f"Docker {versions} (CPU sets, quotas and shares)"

    def nodes(self) -> list[Node]:
        return [e.node() for e in self.engines.values()]

    def load(self) -> Loaded:
        states, found = self.store.load(self.jobs), []
        expected = {(r.replica, r.attempt) for s in states.values() for r in s.replicas}
        for engine, replica, attempt, seen in recovery.containers(self.engines, self.run):
            c = self._record(replica, attempt, engine)
            c.memory_limit, c.name = float(seen.host.get("Memory") or 0), seen.name
            exit_ = None
            if seen.running and (replica, attempt) in expected:
                (c.folder / "ask").unlink(missing_ok=True)
                operations.follow(c, seen)
                self.containers.add(c)
            elif seen.state != "created" and not seen.running and (replica, attempt) in expected:
                operations.fetch_rest(c, seen)
                at = None if seen.finished is None else seen.finished - self.clock.began
                exit_ = container_events.exited(c, seen, self._mode(c), at=at)
                self.containers.end(c)
            else:
                self.containers.end(c)
            found.append(container_events.found(c, seen, exit_))
        return Loaded(states, tuple(found))

    def refusal(self, job: JobId, where: Sequence[tuple[ReplicaId, NodeId]]) -> str:
        del job
        down = [n for _, n in where if n in self.engines and not self.engines[n].up]
        return f"the engine of node {down[0]} does not answer" if down else ""

    # -- commands --------------------------------------------------------------------------------

    def execute(self, command: Command) -> list[Event]:
        match command:
            case Persist(job=job, version=version, state=state):
                self._disk.do(
                    partial(_save, self.store, job, state),
                    lambda _: [Persisted(job, version)],
                    lambda error: [CommandFailed(command, error.message)],
                )
                return []
            case Admit(job=job):
                return [Admitted(job)]
            case Start():
                return [event for a in command.replicas for event in self._start(command, a)]
            case DeleteJob():
                return []
            case Remove():
                return self._remove(command)
            case _:
                return self._to_container(command)

    def _to_container(self, command: ReplicaCommand) -> list[Event]:
        c = self.containers.get(command.replica, command.attempt)
        if c is None:
            return [CommandFailed(command, "not running")]
        match command:
            case RequestCheckpoint():
                return [self.checkpoints.request(command, c.folder, self._mode(c))]
            case CancelCheckpoint():
                self.checkpoints.cancel(command, c.folder)
            case _ if not c.engine.up:
                return [CommandFailed(command, f"the engine of node {c.node} does not answer")]
            case Stop():
                self._signal(c, command, "SIGTERM")
            case Kill():
                self._signal(c, command, "SIGKILL")
            case Release():
                self._release(c, command)
            case ApplyShare(limit=limit, weight=weight):
                set_ = ShareInEffect(c.replica, c.attempt, limit, weight)
                c.engine.worker.do(
                    partial(operations.set_share, c, c.engine.capacity.cpu, limit, weight),
                    lambda _: [set_],
                    lambda error: [CommandFailed(command, error.message)],
                )
        return []

    def _signal(self, c: ContainerRecord, command: Stop | Kill, signal: str) -> None:
        def failed(error: BackendError) -> Iterable[Event]:
            if isinstance(error, Declined):  # not running: its exit was missed
                self._examine(c)
            return [CommandFailed(command, error.message)]

        c.stopping = True
        c.engine.worker.do(partial(operations.kill, c, signal), failed=failed)

    def _release(self, c: ContainerRecord, command: Release) -> None:
        def released(_: object) -> Iterable[Event]:
            self._end(c)
            return [ReplicaExited(replica=c.replica, attempt=c.attempt, code=0)]

        def failed(error: BackendError) -> Iterable[Event]:
            if isinstance(error, Declined):  # it has exited
                return released(error)
            return [CommandFailed(command, error.message)]

        restore = partial(operations.restore_share, c, c.engine.capacity.cpu)
        c.engine.worker.do(restore, released, failed)

    def _remove(self, command: Remove) -> list[Event]:
        key = command.replica, command.attempt
        current = self.containers.get(*key)
        if current is not None:  # an orphan, or a part of a gang that failed to start
            self._end(current)
        c = self.containers.ended.get(key)
        if c is None:
            return [Removed(*key)]
        if c.removing:
            return []
        if not c.engine.up:
            return [CommandFailed(command, f"the engine of node {c.node} does not answer")]

        def removed(_: None) -> Iterable[Event]:
            self.containers.ended.pop(key, None)
            c.close()
            return [Removed(*key)]

        def failed(error: BackendError) -> Iterable[Event]:
            c.removing = False
            return [CommandFailed(command, error.message)]

        c.removing = True
        c.engine.worker.do(partial(operations.remove, c), removed, failed)
        return []

    # -- starts ----------------------------------------------------------------------------------

    def _start(self, command: Start, a: Assignment) -> list[Event]:
        known = self.containers.get(a.replica, a.attempt)
        if known is not None:
            return [container_events.running(known)] if known.start is None else []
        if a.node not in self.engines:  # a resumed run may have other engines
            return [CommandFailed(command, f"node {a.node} does not exist", disrupted=True)]
        c = self._record(a.replica, a.attempt, self.engines[a.node])
        c.start = command
        try:
            container_spec.prepare(c.folder, a.attempt)
        except OSError as error:
            return [CommandFailed(command, str(error))]
        if c.foreign:
            launch = partial(operations.attach, c)
        else:
            job, others = self.jobs[a.replica.job], self.containers.current.values()
            body = container_spec.create_body(self.run, job, c, a, command.gang, others)
            launch = partial(operations.launch, c, body)
        self.containers.add(c)
        c.engine.worker.do(
            launch, partial(self._started, c), partial(self._not_started, c, command)
        )
        return []

    def _record(self, replica: ReplicaId, attempt: int, engine: Engine) -> ContainerRecord:
        job = self.jobs.get(replica.job)
        name = container_spec.container_name(self.run, replica, attempt)
        c = ContainerRecord(replica, attempt, engine, self.store.replica(replica), name)
        if job is not None and job.adopted is not None:
            c.name, c.foreign = str(job.adopted), True
        elif job is not None:
            c.requested_memory = job.spec.task(replica.task).request.memory
            c.declared_memory = job.commands[replica.task].memory
        return c

    def _started(self, c: ContainerRecord, seen: ContainerState) -> list[Event]:
        if not self.containers.is_current(c):
            return []  # it is being removed
        c.start = None
        if not seen.running:
            self._examine(c)
        share = [container_events.present_share(c, seen)] if c.foreign else []
        return [*share, container_events.running(c)]

    def _not_started(self, c: ContainerRecord, command: Start, error: BackendError) -> list[Event]:
        if not self.containers.is_current(c):
            return []
        if isinstance(error, Unreachable):  # it is looked for when the engine answers again
            c.engine.reconnect()
            return []
        self._end(c)
        permanent = isinstance(error, Declined) and error.status in (
            operations.BAD_REQUEST,
            operations.NOT_FOUND,
        )
        return [CommandFailed(command, error.message, permanent=permanent)]

    # -- state of containers ---------------------------------------------------------------------

    def _examine(self, c: ContainerRecord, *, disrupted: bool = False) -> None:
        """Report whether it runs or how it has exited."""
        if c.inspecting:
            return

        def failed(_: BackendError) -> Iterable[Event]:
            c.inspecting = False
            c.engine.reconnect()
            return ()

        c.inspecting = True
        examined = partial(self._examined, c, disrupted)
        c.engine.worker.do(partial(operations.examine, c), examined, failed)

    def _examined(
        self, c: ContainerRecord, disrupted: bool, seen: ContainerState | None
    ) -> list[Event]:
        c.inspecting = False
        if not self.containers.is_current(c):
            return []
        start, c.start = c.start, None
        if start is not None and (seen is None or seen.state == "created"):
            self._end(c)
            lost = f"the engine of node {c.node} did not answer"
            return [CommandFailed(start, lost, disrupted=True)]
        events: list[Event] = [container_events.running(c)]
        if seen is None or not seen.running:
            self._end(c)
            exit_ = container_events.exited(c, seen, self._mode(c), disrupted=disrupted)
            events = [exit_] if start is None else [*events, exit_]
        return events

    def _end(self, c: ContainerRecord) -> None:
        self.checkpoints.cancel(CancelCheckpoint(c.replica, c.attempt), c.folder)
        self.containers.end(c)
        if c.foreign:
            self.label_watch.released.add(c.name)
        for other, limit in self.containers.enlarged(c.engine):
            other.memory_limit = limit
            other.engine.worker.do(partial(operations.set_memory, other, limit))

    def _mode(self, c: ContainerRecord) -> Mode:
        job = self.jobs.get(c.replica.job)
        return job.spec.checkpoint if job else Mode.NONE

    # -- engines ---------------------------------------------------------------------------------

    def _connected(self, engine: Engine) -> list[Event]:
        """Events may have been missed: compare everything."""
        was_up, engine.up = engine.up, True
        self.label_watch.compare(engine)
        for c in self.containers.of(engine):
            self._examine(c, disrupted=not was_up)
        back = [NodeChanged(engine.node()), *self._notices(engine, "its engine answers again")]
        return [] if was_up else back

    def _lost(self, engine: Engine, why: BackendError) -> list[Event]:
        engine.up = False
        for c in self.containers.of(engine):
            c.unfollow()
        notice = f"the engine of node {engine.name} does not answer: {why.message}"
        return [*self._notices(engine, notice), NodeChanged(engine.node())]

    def _notices(self, engine: Engine, notice: str) -> list[Event]:
        return [ReplicaNotice(c.replica, c.attempt, notice) for c in self.containers.of(engine)]

    def _happened(self, engine: Engine, event: dict[str, Any]) -> list[Event]:
        action, actor = event["Action"], event["Actor"]
        if action == "start":
            if self.label_watch.matches(actor["Attributes"]):
                call = partial(engine.client.get, f"/containers/{actor['ID']}/json")
                engine.worker.do(call, partial(self.label_watch.started, engine))
        elif (c := self.containers.about(engine, actor)) is not None:
            self._examine(c)
        return []

    # -- events ----------------------------------------------------------------------------------

    def poll(self, timeout: Seconds) -> list[Event]:
        wait = self.checkpoints.timeout(min(timeout, transport.INTERVAL))
        events = self.events.wait(wait)
        now = monotonic()
        if now >= self._transport_at:
            self._transport_at = now + transport.INTERVAL
            for engine in self.engines.values():
                engine.ping(now)
            for c in self.containers.current.values():
                events += transport.refresh(c)
        return [*events, *self.checkpoints.changed()]

    def read(self, replica: ReplicaId, before: UsageSample | None) -> UsageSample | None:
        c = self.containers.newest(replica)
        if c is None:
            return before
        if c.gauge is not None:
            c.sample = c.gauge.read(before)
        return c.sample

    def close(self) -> None:
        for c in [*self.containers.current.values(), *self.containers.ended.values()]:
            c.close()
        for engine in self.engines.values():
            engine.close()
        self._disk.close()
        self.events.close()


def _save(store: JobStore, job: JobId, state: JobState) -> None:
    try:
        store.save(job, state)
    except OSError as error:
        raise BackendError(f"state of job {job} was not stored: {error.strerror}") from None
