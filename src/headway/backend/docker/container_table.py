"""The containers of a run, as tracked by the platform."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.backend import memory_admission
from headway.backend.checkpoints import newest
from headway.backend.docker import cpu_limits
from headway.backend.docker.container import ATTEMPT, REPLICA, RUN, ContainerState
from headway.backend.docker.engine import Engine
from headway.backend.docker.file_sync import FileSync
from headway.backend.docker.log_follower import LogFollower
from headway.backend.docker.stats import ByGroup, Gauge
from headway.backend.exit_reason import KILLED, exit_reason, is_permanent
from headway.backend.usage import UsageSample
from headway.controller import commands, events
from headway.core.model.job import Mode
from headway.core.model.units import Bytes, Cores, CoreSeconds, NodeId, ReplicaId, Seconds


@dataclass(slots=True, eq=False)
class ContainerRecord:
    """One attempt of a replica as a container.

    The engine's worker sets `id`, `original`, `gauge`, `log` and `sync`. The thread of the loop
    sets all other fields.
    """

    replica: ReplicaId
    attempt: int
    engine: Engine
    folder: Path
    records: Path
    name: str
    """Name or id: the engine accepts both."""
    mode: Mode = Mode.NONE
    """How the job saves checkpoints."""
    adopted: bool = False
    start: commands.Start | None = None
    """Command that starts it; None: it runs."""
    id: str = ""
    original: Mapping[str, Any] = field(default_factory=dict)
    """Its limits (`HostConfig`) at the start or at its adoption."""
    gauge: Gauge | None = None
    log: LogFollower | None = None
    sync: FileSync | None = None
    """For containers that cannot access the folder of the replica."""
    requested_memory: Bytes = 0.0
    declared_memory: Bytes | None = None
    memory_limit: Bytes = 0.0
    sample: UsageSample = field(default_factory=UsageSample)
    """Last sample of its usage."""
    stopping: bool = False
    """Whether `Stop` or `Kill` was sent."""
    inspecting: bool = False
    syncing: bool = False
    removing: bool = False

    @property
    def node(self) -> NodeId:
        return self.engine.name

    def share(self, seen: ContainerState) -> tuple[Cores | None, float]:
        """Return the present limit and weight."""
        return cpu_limits.share(seen.host, self.engine.capacity.cpu)

    @property
    def running(self) -> events.ReplicaRunning:
        return events.ReplicaRunning(self.replica, self.attempt)

    def exited(
        self, seen: ContainerState | None, *, disrupted: bool = False, at: Seconds | None = None
    ) -> events.ReplicaExited:
        """Return the event of its exit. `seen`: None if it was removed. `disrupted`: whether its
        engine was down meanwhile.
        """
        if seen is None or seen.state == "created":
            code, reason, disrupted = KILLED, "container was removed", False
        elif disrupted and seen.code:
            code = seen.code
            reason = f"the engine of node {self.node} stopped, and its containers with it"
        else:
            code, disrupted = seen.code, False
            reason = exit_reason(code, self.folder, oom_killed=seen.oom)
            if code == KILLED and not seen.oom and seen.host.get("Memory"):
                # An engine may not notice that a container ran out of memory.
                reason += ", perhaps because it exceeded its memory limit"
        return events.ReplicaExited(
            replica=self.replica,
            attempt=self.attempt,
            code=code,
            reason=reason,
            permanent=is_permanent(code, reason),
            disrupted=disrupted,
            checkpoint=newest(self.folder, self.mode),
            at=at,
        )

    def unfollow(self) -> None:
        """Stop copying the output. It continues at the same position when it is followed again."""
        if self.log is not None:
            self.log.close()
            self.log = None

    def close(self) -> None:
        self.unfollow()
        if self.gauge is not None:
            with suppress(OSError):  # its cgroup may be removed: keep the last sample
                self.sample = self.gauge.read(None)
            self.gauge.close()
            self.gauge = None


class ContainerTable:
    def __init__(self, run: str) -> None:
        self._run = run
        self.current: dict[ReplicaId, ContainerRecord] = {}
        """Running or starting attempt of each replica."""
        self.ended: dict[tuple[ReplicaId, int], ContainerRecord] = {}
        """Attempts to be removed."""

    def add(self, c: ContainerRecord) -> None:
        self.ended.pop((c.replica, c.attempt), None)
        self.current[c.replica] = c

    def get(self, replica: ReplicaId, attempt: int) -> ContainerRecord | None:
        c = self.current.get(replica)
        return c if c is not None and c.attempt == attempt else None

    def newest(self, replica: ReplicaId) -> ContainerRecord | None:
        """Return the current attempt, else the last ended one."""
        ended = (c for c in reversed(self.ended.values()) if c.replica == replica)
        return self.current.get(replica) or next(ended, None)

    def is_current(self, c: ContainerRecord) -> bool:
        return self.current.get(c.replica) is c

    def end(self, c: ContainerRecord) -> None:
        """Note that a container has exited or will be removed."""
        if self.is_current(c):
            del self.current[c.replica]
        if not c.adopted:
            self.ended[c.replica, c.attempt] = c
        c.close()

    def of(self, engine: Engine) -> list[ContainerRecord]:
        return [c for c in self.current.values() if c.engine is engine]

    def about(self, engine: Engine, actor: Mapping[str, Any]) -> ContainerRecord | None:
        """Return the container of an event of the engine."""
        attributes = actor["Attributes"]
        if attributes.get(RUN) == self._run:
            attempt = str(attributes.get(ATTEMPT, ""))  # other containers can have these labels
            replica = ReplicaId(attributes.get(REPLICA, ""))
            return self.get(replica, int(attempt)) if attempt.isdecimal() else None
        return next((c for c in self.of(engine) if c.id == actor["ID"]), None)

    def enlarged(self, engine: Engine) -> Iterator[tuple[ContainerRecord, Bytes]]:
        """Yield containers without a declared memory limit whose limit can be raised now."""
        for c in self.of(engine):
            if c.adopted or c.declared_memory or c.start is not None:
                continue
            others = (x.requested_memory for x in self.of(engine) if x is not c)
            limit = memory_admission.memory_limit(None, engine.node(), others)
            if limit > c.memory_limit:
                yield c, limit

    def used(self, engines: Collection[Engine]) -> dict[tuple[ReplicaId, int], CoreSeconds] | None:
        """Return the CPU time of each container of these engines; None: a cgroup cannot be read."""
        found = {}
        for c in self.current.values():
            if c.engine in engines:
                if not isinstance(c.gauge, ByGroup):
                    return None
                with suppress(OSError):  # it has just ended
                    found[c.replica, c.attempt] = c.gauge.read(c.sample).cpu
        return found
