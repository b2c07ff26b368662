"""Send a request to a live run, and read its outcome.

A request that is refused at once has an answer file. The outcome of an accepted request is in the
journal, in a line that is written after the request. Earlier lines are not read.
"""

from time import monotonic, sleep

from headway.backend import inbox
from headway.backend.job_store import JobStore
from headway.core.model.decision import Failed, Move, Refused, Scale, Suspend, job_of
from headway.core.model.job import Phase
from headway.core.model.snapshot import Request
from headway.errors import NoServer, UnknownName, Unreachable
from headway.runtime import journal
from headway.runtime.run_directory import RunDirectory
from headway.runtime.run_status import stopped

PATIENCE = 10.0


def ask(folder: RunDirectory, request: Request) -> str:
    """Send a request. Return why it was refused; "": it was accepted."""
    if folder.ended:
        raise NoServer(f"run {folder.id} has ended", hint="headway ps lists the active runs")
    if not folder.locked:
        raise stopped(folder)
    state = JobStore(folder.path).load([request.job]).get(request.job)
    if state is not None and state.phase.ended:
        return "it has ended"
    written = folder.journal.stat().st_size if folder.journal.exists() else 0
    there = inbox.put(folder.path, request)
    until = monotonic() + PATIENCE
    while there.exists():
        if monotonic() > until:
            raise Unreachable(
                f"run {folder.id} does not answer",
                hint="its Headway process may be stopped: it handles the request when it continues",
            )
        sleep(0.05)
    answer = inbox.take_answer(there)
    if answer is None:
        return _outcome(folder, request, state.phase if state else Phase.PENDING, written)
    if answer.unknown:
        names = {"job": request.job, "node": str(request.to), "task": request.task}
        raise UnknownName(
            answer.unknown, names[answer.unknown], answer.known, where=f"run {folder.id}"
        )
    return answer.why


def _outcome(folder: RunDirectory, request: Request, phase: Phase, written: int) -> str:
    lines = journal.read_after(folder.journal, written)
    line = next((x for x in lines if request in x["seen"].requests), {})
    known = [*(line.get("outcomes") or ()), *line.get("refused", ())]
    acts = [o for o in known if isinstance(o.decision, Move | Scale | Suspend)]
    mine = [o for o in acts if job_of(o.decision) == request.job]
    for outcome in mine:
        if isinstance(outcome, Refused | Failed):
            return outcome.why
    if mine or request.wish not in ("move", "pause", "scale"):
        return ""
    if phase is Phase.RUNNING:
        return f"this platform cannot {request.wish} running jobs"
    return "it is not running" if request.wish == "move" else ""
