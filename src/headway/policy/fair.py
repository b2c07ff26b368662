"""Fair sharing, the papers' NA: nobody has a ceiling, all weigh the same, the kernel shares.

What a plain Docker engine does, and the measure for everything else.
"""

from headway.core.decision import CALM, Plan, SetShare
from headway.core.record import record
from headway.core.snapshot import Snapshot


@record
class Fair:
    name: str = "fair"
    listens: bool = False

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        free = tuple(
            SetShare(replica=r.id, reason="everybody alike")
            for r in snapshot.running
            if r.limit is not None or r.weight != 1.0
        )
        return (Plan(decisions=free) if free else CALM), memory
