"""Turn user requests into decisions, so that they are in the journal."""

from headway.core.model.decision import CALM, Decision, Move, Plan, Suspend
from headway.core.model.serialization import record
from headway.core.model.snapshot import Request, Snapshot


@record
class UserRequests:
    """First in a chain: no other policy decides about the same job in the same cycle."""

    name: str = "user-requests"
    listens: bool = False

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        found = dict.fromkeys(d for r in snapshot.requests for d in _decisions(r, snapshot))
        return (Plan(decisions=tuple(found)) if found else CALM), memory


def _decisions(request: Request, s: Snapshot) -> list[Decision]:
    """The backend handles requests that need no decision: resume, and pause of a pending job."""
    can = s.can(request.job)
    if request.wish == "pause" and can.suspend:
        pending = request.job in s.jobs and not s.placed(request.job)
        return [] if pending else [Suspend(job=request.job, reason="requested by a user")]
    if request.wish == "move" and request.to is not None and can.migrate:
        to = request.to
        return [Move(replica=r.id, to=to, reason="requested by a user") for r in s.of(request.job)]
    return []
