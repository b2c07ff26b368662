"""Least attained service first (Tiresias); no job sizes are needed."""

from headway.core.fairness.priority_weights import in_order
from headway.core.model.decision import CALM, Plan
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import CoreSeconds, Seconds


@record
class Las:
    about = "least attained service first"
    name: str = "las"
    listens: bool = True
    interval: Seconds = 5.0
    """Time between decisions while several jobs share a node."""
    quantum: CoreSeconds = 10.0
    """Jobs whose service differs by less than this are ordered by arrival; otherwise they would
    take turns at each decision."""

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        order = sorted(snapshot.adjustable, key=lambda r: r.attained // self.quantum)
        if not order:
            return CALM, memory
        shares = in_order(snapshot, order, "order by least attained service")
        wake = self.interval if len(order) > 1 else None
        return Plan(decisions=shares, wake_after=wake, look=(snapshot.node.id,)), memory
