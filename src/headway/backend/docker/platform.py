"""The Docker platform: each engine is a node, each attempt of a replica a container.

Calls to an engine run in its worker. Their results return to the thread of the loop as closures.
Names and labels of containers contain run, replica and attempt. So the next process finds them, and
no attempt is started twice.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

from headway.backend.base import MetricsInFiles
from headway.backend.checkpoints import CheckpointWatch
from headway.backend.claims import Claims, Ports, ports_of
from headway.backend.clock import Clock
from headway.backend.docker import container, container_spec, operations
from headway.backend.docker.addresses import addresses, hosts_of
from headway.backend.docker.adopt import LabelWatch
from headway.backend.docker.container_table import ContainerRecord, ContainerTable
from headway.backend.docker.engine import Engine
from headway.backend.foreign_load import ForeignLoad
from headway.backend.job_store import JobStore, prepare
from headway.backend.replica_env import port_env
from headway.backend.usage import UsageSample
from headway.backend.worker import EventQueue, Worker
from headway.controller import commands, events
from headway.core.model.capabilities import Capabilities
from headway.core.model.node import Node
from headway.core.model.units import JobId, NodeId, ReplicaId, Seconds, Where
from headway.errors import BackendError, Declined, Unreachable
from headway.metrics import job_files
from headway.spec.runnable import RunnableJob

PERMANENT = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)
"""Status of an engine that declines a container permanently."""


class DockerPlatform(MetricsInFiles):
    kind: ClassVar = "docker"
    capabilities: ClassVar = Capabilities(adopt=True)
    foreign: ForeignLoad | None = None
    """Foreign load of the engines on this machine."""

    def __init__(
        self,
        folder: Path,
        engines: Sequence[Engine],
        jobs: dict[JobId, RunnableJob],
        clock: Clock,
        label: str = "",
    ) -> None:
        """`label`: containers with it are adopted when they start."""
        self.run, self.jobs, self.clock = folder.name, jobs, clock
        self.events, self.store = EventQueue(), JobStore(folder)
        self._disk = Worker("job store", self.events)
        self.engines = {e.name: e for e in engines}
        self.addresses = addresses(engines)
        self.containers = ContainerTable(self.run)
        self.checkpoints = CheckpointWatch()
        self._claims = Claims()
        self.ports = Ports(folder, self._claims)
        self.label_watch = LabelWatch(label, jobs, clock)
        self._refresh_at: Seconds = 0.0
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

    def load(self) -> events.Loaded:
        states, found = self.store.load(self.jobs, repair=True), []
        rebooted = self.store.rebooted()
        expected = {(r.replica, r.attempt) for s in states.values() for r in s.replicas}
        for c, seen in self._left():
            c.memory_limit, c.name = float(seen.host.get("Memory") or 0), seen.name
            is_expected, exit_ = (c.replica, c.attempt) in expected, None
            if is_expected and seen.running:
                job_files.remove_file(c.folder, "ask")
                operations.follow(c, seen)
                self.containers.add(c)
            else:
                if is_expected and seen.state != "created":
                    operations.fetch_rest(c, seen)
                    at = None if seen.finished is None else self.clock.at(seen.finished)
                    exit_ = c.exited(seen, disrupted=rebooted and c.engine.local, at=at)
                self.containers.end(c)
            found.append(
                events.ReplicaFound(c.replica, c.attempt, seen.running, exit_, *c.share(seen))
            )
        return events.Loaded(states, tuple(found))

    def _left(self) -> Iterable[tuple[ContainerRecord, container.ContainerState]]:
        """Return the containers of an earlier process. Nodes that share an engine find them only
        once.
        """
        left: dict[str, tuple[ContainerRecord, container.ContainerState]] = {}
        for engine in self.engines.values():
            for seen in engine.containers(f"{container.RUN}={self.run}", stopped=True):
                labels = seen.labels
                attempt = labels.get(container.ATTEMPT, "")
                if attempt.isdecimal() and seen.id not in left:
                    host = self.engines.get(NodeId(labels.get(container.NODE, "")), engine)
                    replica = ReplicaId(labels.get(container.REPLICA, ""))
                    left[seen.id] = self._record(replica, int(attempt), host), seen
        return left.values()

    def refusal(self, job: JobId, where: Where) -> str:
        del job
        down = [n for _, n in where if n in self.engines and not self.engines[n].up]
        return f"the engine of node {down[0]} does not answer" if down else ""

    def execute(self, command: commands.Command) -> list[events.Event]:
        match command:
            case commands.Start():
                return [event for a in command.replicas for event in self._start(command, a)]
            case commands.Remove():
                return self._remove(command)
            case commands.OfJob():
                return self.store.execute(command, self._disk)
            case _:
                return self._to_container(command)

    def _to_container(self, command: commands.ReplicaCommand) -> list[events.Event]:
        c = self.containers.get(command.replica, command.attempt)
        if c is None:
            return [events.CommandFailed(command, "not running")]
        match command:
            case commands.RequestCheckpoint():
                return [self.checkpoints.request(command, c.folder, c.mode)]
            case commands.CancelCheckpoint():
                self.checkpoints.cancel(c.replica, c.folder)
            case _ if not c.engine.up:
                why = f"the engine of node {c.node} does not answer"
                return [events.CommandFailed(command, why)]
            case commands.Stop():
                self._signal(c, command, "SIGTERM")
            case commands.Kill():
                self._signal(c, command, "SIGKILL")
            case commands.Release():
                self._release(c, command)
            case commands.ApplyShare(limit=limit, weight=weight):
                set_ = events.ShareInEffect(c.replica, c.attempt, limit, weight)
                c.engine.worker.do(
                    partial(operations.set_share, c, limit, weight),
                    lambda _: [set_],
                    lambda error: [events.CommandFailed(command, error.message)],
                )
        return []

    def _signal(
        self, c: ContainerRecord, command: commands.Stop | commands.Kill, signal: str
    ) -> None:
        def failed(error: BackendError) -> Iterable[events.Event]:
            if isinstance(error, Declined):  # not running: the event of its exit was missed
                self._examine(c)
            return [events.CommandFailed(command, error.message)]

        c.stopping = True
        c.engine.worker.do(partial(operations.kill, c, signal), failed=failed)

    def _release(self, c: ContainerRecord, command: commands.Release) -> None:
        def released(_: object) -> Iterable[events.Event]:
            self._end(c)
            return [events.ReplicaExited(replica=c.replica, attempt=c.attempt, code=0)]

        def failed(error: BackendError) -> Iterable[events.Event]:
            if isinstance(error, Declined):  # it has exited
                return released(error)
            return [events.CommandFailed(command, error.message)]

        c.engine.worker.do(partial(operations.restore_share, c), released, failed)

    def _remove(self, command: commands.Remove) -> list[events.Event]:
        key = command.replica, command.attempt
        current = self.containers.get(*key)
        if current is not None:  # an orphan, or a part of a gang that failed to start
            self._end(current)
        c = self.containers.ended.get(key)
        if c is None:
            return [events.Removed(*key)]
        if c.removing:
            return []
        if not c.engine.up:
            return [events.CommandFailed(command, f"the engine of node {c.node} does not answer")]

        def removed(_: None) -> Iterable[events.Event]:
            self.containers.ended.pop(key, None)
            c.close()
            return [events.Removed(*key)]

        def failed(error: BackendError) -> Iterable[events.Event]:
            c.removing = False
            return [events.CommandFailed(command, error.message)]

        c.removing = True
        c.engine.worker.do(partial(operations.remove, c), removed, failed)
        return []

    def _start(self, command: commands.Start, a: commands.Assignment) -> list[events.Event]:
        known = self.containers.get(a.replica, a.attempt)
        if known is not None:
            return [known.running] if known.start is None else []
        if a.node not in self.engines:  # a resumed run may have other engines
            return [events.CommandFailed(command, f"node {a.node} does not exist", disrupted=True)]
        c = self._record(a.replica, a.attempt, self.engines[a.node])
        c.start = command
        try:
            prepare(c.folder, a.attempt)
        except OSError as error:
            return [events.CommandFailed(command, str(error))]
        if c.adopted:
            launch = partial(operations.attach, c)
        else:
            job = self.jobs[a.replica.job]
            others = (x.requested_memory for x in self.containers.of(c.engine))
            ours = port_env(
                a.replica, a.attempt,
                folder=str(c.folder),
                gang=command.gang,
                spec=job.spec,
                first=ports_of(self.ports, job, {r.job for r in self.containers.current}),
                hosts=hosts_of(self.addresses, command, self.containers.current.values()),
            )  # fmt: skip
            body = container_spec.create_body(self.run, job, c, a, others, ours)
            launch = partial(operations.launch, c, body)
        self.containers.add(c)
        c.engine.worker.do(
            launch, partial(self._started, c), partial(self._not_started, c, command)
        )
        return []

    def _record(self, replica: ReplicaId, attempt: int, engine: Engine) -> ContainerRecord:
        job = self.jobs.get(replica.job)
        name = container_spec.container_name(self.run, replica, attempt)
        folder, records = self.store.replica(replica), self.store.records(replica)
        c = ContainerRecord(replica, attempt, engine, folder, records, name)
        if job is None:
            return c
        c.mode = job.spec.checkpoint
        if job.adopted is not None:
            c.name, c.adopted = str(job.adopted), True
        else:
            c.requested_memory = job.spec.task(replica.task).request.memory
            c.declared_memory = job.commands[replica.task].memory
        return c

    def _started(self, c: ContainerRecord, seen: container.ContainerState) -> list[events.Event]:
        if not self.containers.is_current(c):
            return []  # it is being removed
        c.start = None
        if not seen.running:
            self._examine(c)
        if not c.adopted:
            return [c.running]
        return [events.ShareInEffect(c.replica, c.attempt, *c.share(seen)), c.running]

    def _not_started(
        self, c: ContainerRecord, command: commands.Start, error: BackendError
    ) -> list[events.Event]:
        if not self.containers.is_current(c):
            return []
        if isinstance(error, Unreachable):  # it is examined when the engine answers again
            c.engine.reconnect()
            return []
        self._end(c)
        permanent = isinstance(error, Declined) and error.status in PERMANENT
        return [events.CommandFailed(command, error.message, permanent=permanent)]

    def _examine(self, c: ContainerRecord, *, disrupted: bool = False) -> None:
        """Inspect a container, and report that it runs or has exited."""
        if c.inspecting:
            return

        def failed(_: BackendError) -> Iterable[events.Event]:
            c.inspecting = False
            c.engine.reconnect()
            return ()

        c.inspecting = True
        examined = partial(self._examined, c, disrupted)
        c.engine.worker.do(partial(operations.examine, c), examined, failed)

    def _examined(
        self, c: ContainerRecord, disrupted: bool, seen: container.ContainerState | None
    ) -> list[events.Event]:
        c.inspecting = False
        if not self.containers.is_current(c):
            return []
        start, c.start = c.start, None
        if start is not None and (seen is None or seen.state == "created"):
            self._end(c)
            lost = f"the engine of node {c.node} did not answer"
            return [events.CommandFailed(start, lost, disrupted=True)]
        if seen is not None and seen.running:
            return [c.running]
        self._end(c)
        exit_ = c.exited(seen, disrupted=disrupted)
        return [exit_] if start is None else [c.running, exit_]

    def _end(self, c: ContainerRecord) -> None:
        self.checkpoints.cancel(c.replica, c.folder)
        self.containers.end(c)
        if c.adopted:
            self.label_watch.released.add(c.name)
        for other, limit in self.containers.enlarged(c.engine):
            other.memory_limit = limit
            other.engine.worker.do(partial(operations.set_memory, other, limit))

    def _connected(self, engine: Engine) -> list[events.Event]:
        """Compare all containers after a connection: events may have been missed."""
        was_up, engine.up = engine.up, True
        self.label_watch.compare(engine)
        for c in self.containers.of(engine):
            self._examine(c, disrupted=not was_up)
        if was_up:
            return []
        back = self._notices(engine, "its engine answers again")
        return [events.NodeChanged(engine.node()), *back]

    def _lost(self, engine: Engine, why: BackendError) -> list[events.Event]:
        engine.up = False
        for c in self.containers.of(engine):
            c.unfollow()
        notice = f"the engine of node {engine.name} does not answer: {why.message}"
        return [*self._notices(engine, notice), events.NodeChanged(engine.node())]

    def _notices(self, engine: Engine, notice: str) -> list[events.Event]:
        return [
            events.ReplicaNotice(c.replica, c.attempt, notice) for c in self.containers.of(engine)
        ]

    def _happened(self, engine: Engine, event: dict[str, Any]) -> list[events.Event]:
        action, actor = event["Action"], event["Actor"]
        if action == "start":
            if self.label_watch.matches(actor["Attributes"]):
                started = partial(self.label_watch.started, engine)
                engine.worker.do(partial(engine.container, actor["ID"]), started)
        elif (c := self.containers.about(engine, actor)) is not None:
            self._examine(c)
        return []

    def poll(self, timeout: Seconds) -> list[events.Event]:
        wait = self.checkpoints.timeout(min(timeout, operations.REFRESH))
        found = self.events.wait(wait)
        now = monotonic()
        if now >= self._refresh_at:
            self._refresh_at = now + operations.REFRESH
            for engine in self.engines.values():
                engine.ping(now)
            for c in self.containers.current.values():
                found += operations.refresh(c)
        for name, load in (self.foreign.changes(self.clock()) if self.foreign else {}).items():
            self.engines[name].foreign = load
            found.append(events.NodeChanged(self.engines[name].node()))
        return [*found, *self.checkpoints.changed()]

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
        self._claims.close()
        self._disk.close()
        self.events.close()
