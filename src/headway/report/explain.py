"""Explain a job from the journal: facts about it, and events with their reasons."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from headway.core.model import decision
from headway.core.model.decision import Failed, Outcome, Refused, job_of
from headway.core.model.job import Phase
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds
from headway.errors import UnknownName
from headway.runtime import journal
from headway.runtime.foreign_use import describe_foreign
from headway.runtime.job_facts import JobFacts, Samples, job_facts
from headway.runtime.replay import fold, recorded_policy
from headway.runtime.run_directory import RunDirectory
from headway.runtime.usage_sampler import ReplicaSample, samples


@dataclass(frozen=True, slots=True)
class Event:
    at_s: Seconds
    what: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    job: str
    events: list[Event]
    facts: JobFacts | None = None
    """What is known now, or was known in the last cycle before its end. None: it has not run, or
    the beginning of the journal was discarded."""
    began: float | None = None
    """Time of day at 0 s; None: in a simulation."""

    @property
    def ended(self) -> Event | None:
        return next((event for event in self.events if event.what in ENDED), None)

    def plain(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "began": self.began,
            "known": self.facts.plain() if self.facts else None,
            "events": [asdict(event) for event in self.events],
        }


SHARES = 10


def without_old_shares(events: Sequence[Event]) -> tuple[list[Event], int]:
    """Return the events without all but the last changes of shares and of the load by other
    programs, and how many are left out: there may be one a second.
    """
    often = ("weight ", " used by others")
    found = [i for i, e in enumerate(events) if e.what.startswith(often[0]) or often[1] in e.what]
    omitted = set(found[:-SHARES])
    return [e for i, e in enumerate(events) if i not in omitted], len(omitted)


def explain_job(path: Path, job: str) -> Explanation:
    """Explain a job from a journal: of a run, or of a simulation."""
    with journal.intact(str(path)):
        return _explain(path, job)


def _explain(path: Path, job: str) -> Explanation:
    folder = RunDirectory(path.parent)
    live = (folder.path / "run.json").exists()
    cycles = list(journal.read(path))
    names = {j.id for cycle in cycles for j in cycle["seen"].jobs}
    if job not in names:
        raise UnknownName("job", job, names, where=f"run {folder.id}" if live else str(path))
    told = _without_repeated_phases(event for cycle in cycles for event in _cycle(cycle, job))
    events = sorted([*told, *_foreign(cycles, job)], key=lambda event: event.at_s)
    return Explanation(
        job=job,
        events=events,
        facts=_facts(path, cycles, JobId(job), folder if live else None),
        began=folder.about.get("began") if live else None,
    )


PHASES = frozenset(phase.value for phase in Phase)
ENDED = frozenset(phase.value for phase in Phase if phase.ended)


def _without_repeated_phases(events: Iterable[Event]) -> Iterator[Event]:
    """Omit a phase that is observed again: a job is also seen when something else of it changed."""
    last = None
    for event in events:
        if event.what in PHASES:
            if (event.what, event.why) == last:
                continue
            last = (event.what, event.why)
        yield event


def _facts(
    path: Path, cycles: list[dict[str, Any]], job: JobId, folder: RunDirectory | None
) -> JobFacts | None:
    first = cycles[0]
    if "policy" not in first or (first["cycle"] > 1 and "state" not in first):
        return None
    ends = (
        i
        for i, c in enumerate(cycles)
        if any(j.id == job and j.phase.ended for j in c["seen"].jobs)
    )
    lines = cycles[: next(ends, len(cycles))]
    if not lines:
        return None
    policy = recorded_policy(first["policy"], path)
    loop = fold(lines, policy)
    until = cycles[len(lines)]["at_s"] if len(lines) < len(cycles) else None
    seen = _samples(folder, job, until, loop.state.at) if folder else None
    return job_facts(loop.state, policy, loop.memory, seen).get(job)


def _samples(
    folder: RunDirectory, job: JobId, until: Seconds | None, reported: Seconds
) -> Samples | None:
    """The last sample of each of its replicas, with its last metrics if it has exited. `reported`:
    when the replicas were last asked for reports.
    """
    found: dict[str, str] = {}
    latest: dict[str, ReplicaSample] = {}
    at = None
    for sample in samples(folder.usage):
        over = until is not None and sample["at_s"] > until
        if not over:
            at = sample["at_s"]
            found |= sample.get("found", {})
            last = {n: s for n, s in sample["replicas"].items() if ReplicaId(n).job == job}
            latest |= {n: ReplicaSample(**s, found=found.get(n, "")) for n, s in last.items()}
        for name, final in sample.get("ended", {}).items():
            if ReplicaId(name).job == job:
                at = until if over else at
                latest[name] = replace(latest.get(name, ReplicaSample()), **final)
        if over:
            break
    if at is not None and at < reported:  # a report has it since then
        latest = {name: replace(sample, unreported=0.0) for name, sample in latest.items()}
    return None if at is None else Samples(at=at, latest=latest)


def _foreign(cycles: list[dict[str, Any]], job: str) -> Iterator[Event]:
    """Yield the use by other processes on the nodes of a job, while it had nodes."""
    loads: dict[NodeId, tuple[Cores, Cores]] = {}
    places: dict[ReplicaId, NodeId | None] = {}
    told: dict[NodeId, str] = {}
    for cycle in cycles:
        seen = cycle["seen"]
        loads |= {n.id: (n.foreign, n.capacity.cpu) for n in seen.nodes}
        places |= {r.id: r.node for r in seen.replicas if r.job == job}
        if any(j.id == job and j.phase.ended for j in seen.jobs):
            return
        for node in dict.fromkeys(filter(None, places.values())):
            used, cores = loads.get(node, (0.0, 0.0))
            text = describe_foreign(used, cores)
            if text != told.get(node, describe_foreign(0.0, cores)):
                told[node] = text
                yield Event(cycle["at_s"], text, f"the jobs on {node} share the rest")


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
        case decision.Scale():
            return f"scale: {made.change}"
        case decision.Suspend():
            return "suspend"
