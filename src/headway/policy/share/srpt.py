"""Least remaining work first, by an oracle: it reads the actual remaining work, which only the
simulator knows.

It has the lowest mean completion time of all orders, at the cost of long jobs. The difference to it
is the cost of guarantees.
"""

from math import inf

from headway.core.fairness.priority_weights import in_order
from headway.core.model.decision import Plan
from headway.core.model.job import Replica
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot


@record
class Srpt:
    about = (
        "shortest remaining work first, known only in simulations; otherwise in order of arrival"
    )
    name: str = "srpt"
    listens: bool = True

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        def left(r: Replica) -> float:
            truth = snapshot.jobs[r.job].truth
            return inf if truth is None else truth

        order = sorted(snapshot.adjustable, key=left)
        shares = in_order(snapshot, order, "order by least remaining work") if order else ()
        return Plan(decisions=shares), memory
