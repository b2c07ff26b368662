"""A replica as a container."""

from typing import TYPE_CHECKING, Any

from headway.backend import state
from headway.backend.state import Work
from headway.backend.usage import UsageSample
from headway.core.model.units import Bytes, Cores, NodeId, ReplicaId, Seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headway.backend.docker.engine import Engine
    from headway.backend.docker.file_sync import FileSync
    from headway.backend.docker.log_follower import LogFollower
    from headway.backend.docker.stats import Gauge


class Member(state.Member):
    def __init__(self, name: ReplicaId, work: Work, node: NodeId, engine: "Engine") -> None:
        super().__init__(name, work, node)
        self.engine = engine
        self.container = ""
        """Its name or number: either will do for the engine."""
        self.id_there = ""
        """The number that the engine gave it; "": it has none yet."""
        self.host: Mapping[str, Any] = {}
        """The limits that it was created with."""
        self.gauge: Gauge | None = None
        self.log: LogFollower | None = None
        self.mirror: FileSync | None = None
        """Where the container cannot see our folder."""
        self.wanted: tuple[Cores | None, float] | None = None
        """A share that the engine has been asked for and has not set yet."""
        self.has: tuple[Cores | None, float] = (None, 1.0)
        """The share that the engine has set."""
        self.most: Bytes = 0.0
        """The most memory that it may hold."""
        self.oom = False
        self.dying = False
        """Its end is being looked into."""
        self.in_doubt = False
        """The engine did not answer when it mattered: it is to be looked for."""
        self.died: int | None = None
        """The code with which it ended before we knew that it had started."""
        self.clearing: bool | None = None
        """Is it being taken away (True), or has it been (False)?"""
        self.ended_at: Seconds = 0.0

    def read(self, before: UsageSample | None) -> UsageSample:
        return self.last if self.gauge is None else self.gauge.read(before)

    def close(self) -> None:
        """Hear and measure no more."""
        if self.gauge is not None:
            self.gauge.close()
        if self.log is not None:
            self.log.close()
