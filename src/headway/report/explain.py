"""The story of one job, told from the journal: what was seen of it, what was decided, and why."""

from dataclasses import dataclass
from typing import Any

from headway.core.model.decision import (
    Failed,
    Move,
    Outcome,
    Place,
    Refused,
    Scale,
    SetShare,
    Suspend,
    job_of,
)
from headway.core.model.job import Phase
from headway.core.model.units import Seconds
from headway.errors import UnknownName
from headway.runtime import journal
from headway.runtime.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Event:
    at_s: Seconds
    what: str
    why: str = ""


def story(folder: RunDirectory, job: str) -> list[Event]:
    cycles = list(journal.read(folder.journal))
    names = {j.id for cycle in cycles for j in cycle["seen"].jobs}
    if job not in names:
        raise UnknownName("job", job, names, where=f"run {folder.id}")
    return [event for cycle in cycles for event in _cycle(cycle, job)]


def _cycle(cycle: dict[str, Any], job: str) -> list[Event]:
    at, seen = cycle["at_s"], cycle["seen"]
    heard = [r for r in seen.reports if r.replica.job == job and r.trouble]
    found = [Event(at, "trouble", r.trouble) for r in heard]
    phases = [j for j in seen.jobs if j.id == job]
    found += [Event(at, _PHASES.get(j.phase, str(j.phase)), j.reason) for j in phases]
    known = cycle.get("outcomes")
    if known is None:
        doubt = [d for d in cycle["plan"].decisions if job_of(d) == job]
        found += [Event(at, f"in doubt: {spell(d)}", "Headway died here") for d in doubt]
    else:
        found += [_outcome(at, o) for o in known if job_of(o.decision) == job]
    refused = [r for r in cycle.get("refused", ()) if job_of(r.decision) == job]
    return found + [_outcome(at, r) for r in refused]


_PHASES = {
    Phase.PENDING: "waits", Phase.RUNNING: "runs", Phase.LEAVING: "leaves",
    Phase.MIGRATING: "moves", Phase.SUSPENDING: "is being suspended", Phase.STOPPING: "stops",
}  # fmt: skip


def _outcome(at: Seconds, outcome: Outcome) -> Event:
    if isinstance(outcome, Refused | Failed):
        return Event(at, f"{spell(outcome.decision)}: not done", outcome.why)
    return Event(at, spell(outcome.decision), outcome.decision.reason)


def spell(decision: Any) -> str:
    match decision:
        case SetShare(limit=limit, weight=weight):
            ceiling = "" if limit is None else f", at most {limit:.2f} cores"
            return f"weight {weight:.3g}{ceiling}"
        case Place(where=where):
            return f"placed on {', '.join(dict.fromkeys(node for _, node in where))}"
        case Move(to=to):
            return f"moves to {to}"
        case Scale(add=add, remove=remove):
            return f"grows by {len(add)}, shrinks by {len(remove)}"
        case _:
            assert isinstance(decision, Suspend)  # noqa: S101 - the type checker's
            return "suspended"
