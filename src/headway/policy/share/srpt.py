"""Least remaining work first, by an oracle: it reads the truth, which only the simulator knows.

The least mean completion that any order could have, and the measure for what a promise costs;
long jobs pay for it.
"""

from math import inf

from headway.core.fairness.priority_weights import in_order
from headway.core.model.decision import Plan
from headway.core.model.job import Replica
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot


@record
class Srpt:
    name: str = "srpt"
    listens: bool = True

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        def left(r: Replica) -> float:
            truth = snapshot.jobs[r.job].truth
            return inf if truth is None else truth

        order = sorted(snapshot.running, key=left)
        shares = in_order(snapshot, order, "least work left") if order else ()
        return Plan(decisions=shares), memory
