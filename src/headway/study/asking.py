"""Ask something of a run that goes on, and find in its journal what came of it."""

from time import monotonic, sleep

from headway.backend import requests
from headway.core.decision import Failed, Refused
from headway.core.snapshot import Request
from headway.errors import NoServer, UnknownName, Unreachable
from headway.runtime import journal
from headway.runtime.folder import RunFolder
from headway.study.story import about

PATIENCE = 10.0


def ask(folder: RunFolder, request: Request) -> tuple[bool, str]:
    """Was it taken up, and what is to be said of it."""
    if not folder.locked:
        raise NoServer(
            f"nobody looks after run {folder.id} now",
            where=str(folder.path),
            hint=f"headway run --resume {folder.id}",
        )
    jobs = {j.id for line in journal.read(folder.journal) for j in line["seen"].jobs}
    if request.job not in jobs:
        raise UnknownName("job", request.job, jobs, where=f"run {folder.id}")
    there = requests.put(folder.path, request)
    until = monotonic() + PATIENCE
    while there.exists():
        if monotonic() > until:
            raise Unreachable(f"run {folder.id} does not answer", hint="is its Headway stopped?")
        sleep(0.05)
    return _answer(folder, request)


def _answer(folder: RunFolder, request: Request) -> tuple[bool, str]:
    lines = [x for x in journal.read(folder.journal) if request in x["seen"].requests]
    for line in lines[-1:]:
        known = [*(line.get("outcomes") or ()), *line.get("refused", ())]
        for outcome in known:
            if about(outcome.decision) == request.job and isinstance(outcome, Refused | Failed):
                return False, f"{request.job}: not done: {outcome.why}"
    return True, f"{request.job}: {request.wish} is under way; see headway explain {request.job}"
