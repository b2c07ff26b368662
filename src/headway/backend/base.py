"""Two protocols: the `Backend` of a loop, and the `Platform` of a live backend."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from headway.backend.usage import UsageSample
from headway.backend.worker import EventQueue
from headway.controller.commands import Command
from headway.controller.events import Event, Loaded
from headway.core.model.capabilities import Capabilities
from headway.core.model.decision import Decision, Outcome
from headway.core.model.node import Node
from headway.core.model.snapshot import Observation
from headway.core.model.units import JobId, NodeId, ReplicaId, Seconds, Where
from headway.metrics.reader import ReplicaMetrics


class Backend(Protocol):
    def observe(self, look: tuple[NodeId, ...] = ()) -> Observation:
        """Return what changed since the last observation. The first observation is complete.
        `look`: nodes whose replicas are measured in any case.
        """
        ...

    def act(self, decision: Decision) -> Outcome:
        """Carry out a decision, or refuse it. Returns within 50 ms. An action that takes longer is
        `Started`; the phase in later observations shows its progress.
        """
        ...


class Platform(Protocol):
    """Runs replicas as processes, containers or pods. A platform executes commands and reports
    events. The controller is responsible for lifecycle, retries and timeouts.
    """

    kind: ClassVar[str]
    """Name in results and in `run.json`."""
    events: EventQueue
    """Events from other threads and file descriptors, for which `poll` waits."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def enforcement(self) -> tuple[str, str]:
        """How shares are enforced: name and description."""
        ...

    def nodes(self) -> Sequence[Node]:
        """Return the nodes at the start. Changes are reported as events."""
        ...

    def load(self) -> Loaded:
        """Return persisted states and existing replicas of an earlier process. Called
        once, first.
        """
        ...

    def refusal(self, job: JobId, where: Where) -> str:
        """Return why these replicas cannot start on these nodes now; "": they can."""
        ...

    def execute(self, command: Command) -> Sequence[Event]:
        """Begin a command without blocking. Return immediate events; `poll` returns later ones."""
        ...

    def poll(self, timeout: Seconds) -> Sequence[Event]:
        """Return events. Wait at most `timeout` for the first one."""
        ...

    def read(self, replica: ReplicaId, before: UsageSample | None) -> UsageSample | None:
        """Return the usage of a running replica; None: unknown. `before`: read only CPU, and take
        everything else from this sample.
        """
        ...

    def metrics(self, replica: ReplicaId, attempt: int) -> ReplicaMetrics | None:
        """Return the metrics of an attempt; None: read them from the files in its folder."""
        ...

    def close(self) -> None: ...


class MetricsInFiles:
    """Mixin of platforms whose replicas write to folders of this machine."""

    def metrics(self, replica: ReplicaId, attempt: int) -> None:
        """Return None: metrics are read from files."""
