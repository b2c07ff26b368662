"""Least attained service first (Tiresias): who has had least goes ahead, nothing need be known."""

from headway.core.fairness.priority_weights import in_order
from headway.core.model.decision import CALM, Plan
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import CoreSeconds, Seconds


@record
class Las:
    name: str = "las"
    listens: bool = True
    interval: Seconds = 5.0
    """It looks again this often."""
    quantum: CoreSeconds = 10.0
    """Jobs that differ by less than this are alike, and go by arrival: else they would take turns
    at every look."""

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        order = sorted(snapshot.running, key=lambda r: r.attained // self.quantum)
        if not order:
            return CALM, memory
        shares = in_order(snapshot, order, "least attained")
        wake = self.interval if len(order) > 1 else None
        return Plan(decisions=shares, wake_after=wake, look=(snapshot.node.id,)), memory
