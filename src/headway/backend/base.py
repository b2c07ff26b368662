"""A backend is a platform seen through two methods."""

from typing import Protocol

from headway.core.model.decision import Applied, Decision, Outcome, Refused, SetShare, Started
from headway.core.model.snapshot import Observation
from headway.core.model.units import NodeId


class Backend(Protocol):
    def observe(self, look: tuple[NodeId, ...] = ()) -> Observation:
        """What changed since the last look. The first look is complete, and so is any after a
        doubt. `look` names nodes whose replicas should be heard now, changed or not.
        """
        ...

    def act(self, decision: Decision) -> Outcome:
        """Carry out one decision, or refuse it. Returns within 50 ms; what takes longer is
        `Started` and shows as a phase next time.
        """
        ...


def outcome(decision: Decision, why: str) -> Outcome:
    """What came of a decision: refused for a reason, done at once (a share), or under way."""
    if why:
        return Refused(decision=decision, why=why)
    if isinstance(decision, SetShare):
        return Applied(decision=decision)
    return Started(decision=decision)
