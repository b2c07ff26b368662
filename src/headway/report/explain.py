"""The events of one job, from the journal: observations, decisions and their reasons."""

from dataclasses import dataclass
from typing import Any

from headway.core.model import decision
from headway.core.model.decision import Failed, Outcome, Refused, job_of
from headway.core.model.units import Seconds
from headway.errors import UnknownName
from headway.runtime import journal
from headway.runtime.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Event:
    at_s: Seconds
    what: str
    why: str = ""


def job_events(folder: RunDirectory, job: str) -> list[Event]:
    cycles = list(journal.read(folder.journal))
    names = {j.id for cycle in cycles for j in cycle["seen"].jobs}
    if job not in names:
        raise UnknownName("job", job, names, where=f"run {folder.id}")
    return [event for cycle in cycles for event in _cycle(cycle, job)]


def _cycle(cycle: dict[str, Any], job: str) -> list[Event]:
    at, seen = cycle["at_s"], cycle["seen"]
    troubles = [r for r in seen.reports if r.replica.job == job and r.trouble]
    found = [Event(at, "trouble", r.trouble) for r in troubles]
    phases = [j for j in seen.jobs if j.id == job]
    found += [Event(at, j.phase.value, j.reason) for j in phases]
    known = cycle.get("outcomes")
    if known is None:
        planned = [d for d in cycle["plan"].decisions if job_of(d) == job]
        why = "Headway stopped before it recorded the outcome"
        found += [Event(at, f"{describe(d)}: outcome unknown", why) for d in planned]
    else:
        found += [_outcome(at, o) for o in known if job_of(o.decision) == job]
    refused = [r for r in cycle.get("refused", ()) if job_of(r.decision) == job]
    return found + [_outcome(at, r) for r in refused]


def _outcome(at: Seconds, outcome: Outcome) -> Event:
    if isinstance(outcome, Refused | Failed):
        verdict = "refused" if isinstance(outcome, Refused) else "failed"
        return Event(at, f"{describe(outcome.decision)}: {verdict}", outcome.why)
    return Event(at, describe(outcome.decision), outcome.decision.reason)


def describe(made: decision.Decision) -> str:
    match made:
        case decision.SetShare(limit=limit, weight=weight):
            ceiling = "" if limit is None else f", limit {limit:.2f} cores"
            return f"weight {weight:.3g}{ceiling}"
        case decision.Place(where=where):
            return f"place on {', '.join(dict.fromkeys(node for _, node in where))}"
        case decision.Move(to=to):
            return f"move to {to}"
        case decision.Scale(add=add, remove=remove):
            return f"scale: add {len(add)}, remove {len(remove)}"
        case decision.Suspend():
            return "suspend"
