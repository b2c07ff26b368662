"""Take up what an earlier Headway left: who runs, who ended, what was under way."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headway import failpoint
from headway.backend.state import Work
from headway.core.model.job import Phase
from headway.core.model.snapshot import Request
from headway.core.model.units import NodeId, ReplicaId
from headway.metrics.reader import MetricsReader

if TYPE_CHECKING:
    from pathlib import Path

    from headway.backend.live import Resumable


@dataclass(slots=True)
class Try:
    """One start of a job: what became of each replica, by the name of its folder."""

    running: set[str] = field(default_factory=set)
    codes: dict[str, int] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    """Of those that ended, who was asked to and had saved itself."""


@dataclass(slots=True)
class Past:
    tries: list[Try] = field(default_factory=list)
    """The first start first; its epoch is its place in the list, counted from 1."""
    started: float | None = None
    """Time of day."""
    ended: float | None = None
    cancelled: bool = False


def recover(backend: "Resumable[Any]") -> None:
    for work in backend.works.values():
        found = backend.past(work)
        if found.started is None and not found.cancelled:
            continue
        backend.coming.remove(work)
        gang = _gang(work)
        if found.started is not None:
            work.started_at = found.started - backend.clock.began
        for epoch, attempt in enumerate(found.tries, 1):
            _take_up(backend, work, epoch, attempt)
        if work.finished_at is not None and found.ended is not None:
            work.finished_at = found.ended - backend.clock.began
        elif found.cancelled:
            backend.end(work, Phase.CANCELLED)
        elif work.phase is Phase.RUNNING and not _whole(work, gang, found.tries):
            backend.put_back(work, "a part of it was gone after a crash: it begins anew")
        elif work.phase is Phase.RUNNING and work.held:  # its pause had only begun
            backend.asked(Request(job=work.id, wish="pause"))


def _take_up(backend: "Resumable[Any]", work: Work, epoch: int, attempt: Try) -> None:
    """One start of a job. An exit that was planned counts neither as success nor as failure."""
    for name in attempt.codes:
        backend.tidy(work, name, epoch)
    for name in sorted(attempt.running):
        m = backend.found(work, name, epoch)
        if m.id in work.gang:
            m.rank = work.gang.index(m.id), len(work.gang)
        (m.folder / "ask").unlink(missing_ok=True)
        # What was heard before is in the journal: a little of it will do.
        m.voice = MetricsReader(m.folder, work.job.metric, work.job.pattern, back=64 * 2**10)
        backend.take_up(m)
    work.phase, work.again_at = (Phase.RUNNING if work.members else work.queued), None
    unplanned = {n: code for n, code in attempt.codes.items() if n not in attempt.left}
    bad = next((name for name, code in unplanned.items() if code), None)
    if unplanned.get(work.chief().name) == 0:
        backend.end(work, Phase.SUCCEEDED)
    elif bad is not None:
        backend.failed(work, backend.found(work, bad, epoch), unplanned[bad])


# -- gangs -----------------------------------------------------------------------------------------


def note_gang(work: Work, epochs: Sequence[int]) -> None:
    """Before the first of a gang is started: who belongs to it, by rank, and how often each had
    been started by then. A job of one replica needs no such note.
    """
    there = work.folder / "gang"
    if len(work.gang) > 1 or there.exists():
        work.folder.mkdir(parents=True, exist_ok=True)
        failpoint.hit()
        lines = (f"{name} {epoch}\n" for name, epoch in zip(work.gang, epochs, strict=True))
        there.write_text("".join(lines))


def _gang(work: Work) -> dict[ReplicaId, int]:
    """As it was noted. A torn note is of a gang of which nobody was started."""
    found: dict[ReplicaId, int] = {}
    with suppress(OSError, ValueError):
        for line in (work.folder / "gang").read_text().splitlines():
            name, epoch = line.split(" ")
            found[ReplicaId(name)] = int(epoch)
    work.gang = tuple(found)
    return found


def _whole(work: Work, gang: Mapping[ReplicaId, int], tries: Sequence[Try]) -> bool:
    """Is everybody here, but for those that were done? A start may have been cut short, or a stop
    of all of them.
    """
    return all(
        name in work.members or _done(name.name, tries[before:]) for name, before in gang.items()
    )


def _done(name: str, tries: Sequence[Try]) -> bool:
    return any(t.codes.get(name) == 0 and name not in t.left for t in tries)


def node_of(replica: "Path") -> NodeId:
    """Where it was last started."""
    return NodeId((replica / "node").read_text())
