"""Two seams: a `Backend` as the loop sees it, and the `Platform` that a live backend drives."""

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
        """What changed since the last observation. The first is complete, and so is any after a
        doubt. `look` names nodes whose replicas are measured now, changed or not.
        """
        ...

    def act(self, decision: Decision) -> Outcome:
        """Carry out one decision, or refuse it. Returns within 50 ms; what takes longer is
        `Started` and shows as a phase in later observations.
        """
        ...


class Platform(Protocol):
    """What runs replicas: processes, containers or pods. It executes commands and reports events;
    lifecycle, retries and timeouts are the controller's.
    """

    kind: ClassVar[str]
    """Its name in results and `run.json`."""
    events: EventQueue
    """What happens beside the loop; `poll` waits for it."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def enforcement(self) -> tuple[str, str]:
        """How shares are enforced: a name, and a description."""
        ...

    def nodes(self) -> Sequence[Node]:
        """Those that exist at the start; changes are reported as events."""
        ...

    def load(self) -> Loaded:
        """Persisted states and existing replicas of an earlier process. Called once, first."""
        ...

    def refusal(self, job: JobId, where: Where) -> str:
        """Why these replicas cannot start there now; "": they can."""
        ...

    def execute(self, command: Command) -> Sequence[Event]:
        """Begin a command; never blocks. Returns events known at once; others follow by `poll`."""
        ...

    def poll(self, timeout: Seconds) -> Sequence[Event]:
        """What happened; waits at most `timeout` for the first event."""
        ...

    def read(self, replica: ReplicaId, before: UsageSample | None) -> UsageSample | None:
        """What a running replica has used; None: unknown. `before`: read only the CPU anew."""
        ...

    def metrics(self, replica: ReplicaId, attempt: int) -> ReplicaMetrics | None:
        """What this attempt reports; None: it is read from the files in its folder."""
        ...

    def close(self) -> None: ...


class MetricsInFiles:
    """A platform whose replicas have folders here."""

    def metrics(self, replica: ReplicaId, attempt: int) -> None:
        """In files."""
