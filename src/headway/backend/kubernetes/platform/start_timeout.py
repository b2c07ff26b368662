"""Pods that do not start: people are told why, and a gang does not hold its room for ever."""

from typing import TYPE_CHECKING

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.placement.node_info import node_of
from headway.backend.kubernetes.platform import pod_status
from headway.backend.kubernetes.platform.foreign_pods import is_stranger
from headway.core.model.job import Phase
from headway.core.model.units import Seconds

if TYPE_CHECKING:
    from headway.backend.kubernetes.platform.job_status import PodMember
    from headway.backend.kubernetes.platform.platform import KubernetesBackend

SLOW: Seconds = 30.0
"""A container that is said not to start for so long has failed."""
SLOWEST: Seconds = 900.0
"""And so has one of which nothing is said: large images take their time."""


class StartTimeout:
    def __init__(self, backend: "KubernetesBackend") -> None:
        self.backend = backend

    def waits(self, m: "PodMember", pod: Plain) -> None:
        """It is there, and does not run yet."""
        now = self.backend.clock()
        reason, text = pod_status.stuck(pod)
        if m.bound_at is None and node_of(pod):
            m.bound_at = now
        if not reason:
            m.stuck_at = None
        elif m.stuck_at is None:
            m.stuck_at = now
            self._complain(m, reason, text)

    def due(self) -> list[Seconds]:
        """When to look again."""
        since = [t for m in self._starting() for t in (m.stuck_at, m.bound_at) if t is not None]
        return [t + SLOW for t in since if t + SLOW > self.backend.clock()]

    def on_time(self) -> None:
        now = self.backend.clock()
        for m in self._starting():
            bound = now if m.bound_at is None else m.bound_at
            said = m.stuck_at is not None and m.stuck_at <= now - SLOW
            if said or bound <= now - SLOWEST:
                self.backend.try_again(m.work, f"{m.replica} did not start: {m.why}")
            elif not m.why and m.pod is not None and bound <= now - SLOW:
                self._complain(m, "NotStarted", pod_status.late(m.pod))

    def _starting(self) -> list["PodMember"]:
        return [
            m
            for m in self.backend.members.values()
            if m.phase is m.work.phase is Phase.STARTING and not is_stranger(m.work)
        ]

    def _complain(self, m: "PodMember", reason: str, text: str) -> None:
        m.why = text
        record = self.backend.records.get(m.work.id)
        if record is not None:
            record.say("Running", False, reason, f"{m.replica}: {text}")
            self.backend.herald.event(record, reason, f"{m.replica}: {text}", warning=True)
            self.backend.herald.status(m.work, record)
