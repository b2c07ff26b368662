"""Send a request to a live run, and read its outcome from the journal."""

from time import monotonic, sleep

from headway.backend import inbox
from headway.backend.job_store import JobStore
from headway.core.model.decision import Failed, Move, Refused, Suspend, job_of
from headway.core.model.job import Phase
from headway.core.model.snapshot import Request
from headway.errors import NoServer, UnknownName, Unreachable
from headway.runtime import journal
from headway.runtime.run_directory import RunDirectory

PATIENCE = 10.0


def ask(folder: RunDirectory, request: Request) -> str:
    """Why it was refused; "": it was accepted."""
    if not folder.locked:
        raise NoServer(
            f"run {folder.id} has no active process",
            where=str(folder.path),
            hint=f"headway run --resume {folder.id}",
        )
    seen = [line["seen"] for line in journal.read(folder.journal)]
    phases = {j.id: j.phase for s in seen for j in s.jobs}
    nodes = {n.id for s in seen for n in s.nodes}
    if request.job not in phases:
        raise UnknownName("job", request.job, phases, where=f"run {folder.id}")
    if request.to is not None and request.to not in nodes:
        raise UnknownName("node", request.to, nodes, where=f"run {folder.id}")
    why = _needless(folder, request, phases[request.job])
    if why:
        return why
    there = inbox.put(folder.path, request)
    until = monotonic() + PATIENCE
    while there.exists():
        if monotonic() > until:
            raise Unreachable(
                f"run {folder.id} does not answer", hint="its Headway process may be stopped"
            )
        sleep(0.05)
    return _answer(folder, request, phases[request.job])


def _needless(folder: RunDirectory, request: Request, phase: Phase) -> str:
    """Why the request would have no effect."""
    if phase.ended:
        return "it has ended"
    state = JobStore(folder.path).load([request.job]).get(request.job)
    if request.wish == "resume":
        paused = phase is Phase.PAUSED or (state is not None and state.paused)
        return "" if paused else "it is not paused"
    return "it is paused" if phase is Phase.PAUSED else ""


def _answer(folder: RunDirectory, request: Request, phase: Phase) -> str:
    lines = [x for x in journal.read(folder.journal) if request in x["seen"].requests]
    line = lines[-1] if lines else {}
    known = [*(line.get("outcomes") or ()), *line.get("refused", ())]
    acts = [o for o in known if isinstance(o.decision, Move | Suspend)]
    mine = [o for o in acts if job_of(o.decision) == request.job]
    for outcome in mine:
        if isinstance(outcome, Refused | Failed):
            return outcome.why
    if mine or request.wish not in ("move", "pause"):
        return ""
    if phase is Phase.RUNNING:
        return f"this platform cannot {request.wish} running jobs"
    return "it is not running" if request.wish == "move" else ""
