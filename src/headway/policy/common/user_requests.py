"""What a person asks for becomes a decision, so that the journal knows it."""

from headway.core.model.decision import CALM, Decision, Move, Plan, Suspend
from headway.core.model.serialization import record
from headway.core.model.snapshot import Request, Snapshot


@record
class Asked:
    """Before all others: nobody decides otherwise in the same cycle."""

    name: str = "asked"
    listens: bool = False

    def begin(self) -> None:
        return None

    def decide(self, snapshot: Snapshot, memory: None) -> tuple[Plan, None]:
        found = dict.fromkeys(d for r in snapshot.requests for d in _decisions(r, snapshot))
        return (Plan(decisions=tuple(found)) if found else CALM), memory


def _decisions(request: Request, snapshot: Snapshot) -> list[Decision]:
    """What is not a decision (that a paused job may go on, that a waiting one is held back) its
    backend has seen to already.
    """
    if request.wish == "pause":
        waits = request.job in snapshot.jobs and not snapshot.placed(request.job)
        return [] if waits else [Suspend(job=request.job, reason="somebody asked for a pause")]
    if request.wish == "move" and request.to is not None:
        there = snapshot.of(request.job)
        return [Move(replica=r.id, to=request.to, reason="somebody asked") for r in there]
    return []
