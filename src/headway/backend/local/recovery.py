"""Take up what an earlier Headway left: who runs, who ended, what was under way."""

from typing import TYPE_CHECKING

from headway.backend.local.past import Try, node_of, past
from headway.backend.local.state import Member, Work
from headway.backend.local.tail import Voice
from headway.core.job import Phase
from headway.core.units import ReplicaId

if TYPE_CHECKING:
    from headway.backend.local.backend import LocalBackend


def recover(backend: "LocalBackend") -> None:
    for work in backend.works.values():
        found = past(work.folder, work.spec.checkpoint)
        if found.started is None and not found.cancelled:
            continue
        backend.coming.remove(work)
        if found.started is not None:
            work.started_at = found.started - backend.clock.began
        for epoch, attempt in enumerate(found.tries, 1):
            _take_up(backend, work, epoch, attempt)
        if work.finished_at is not None and found.ended is not None:
            work.finished_at = found.ended - backend.clock.began
        elif found.cancelled:
            backend.end(work, Phase.CANCELLED)


def _take_up(backend: "LocalBackend", work: Work, epoch: int, attempt: Try) -> None:
    """One start of a job. An exit that was planned counts neither as success nor as failure."""
    for name in attempt.codes:
        for node in backend.nodes:
            backend.enforcement.group(node, f"{work.id}.{name}.{epoch}").close()
    for name, pid in attempt.running.items():
        m = _member(backend, work, name, epoch)
        (m.folder / "ask").unlink(missing_ok=True)
        # What was heard before is in the journal: a little of it will do.
        m.voice = Voice(m.folder, work.job.metric, work.job.pattern, back=64 * 2**10)
        m.limit, m.weight = m.group.share()
        m.heard = m.measure()
        backend.host(m, pid)
    waits = Phase.LEAVING if work.held else Phase.WAITING
    work.phase, work.again_at = (Phase.RUNNING if work.members else waits), None
    unplanned = {n: code for n, code in attempt.codes.items() if n not in attempt.left}
    bad = next((name for name, code in unplanned.items() if code), None)
    if unplanned.get(work.chief().rpartition("/")[2]) == 0:
        backend.end(work, Phase.SUCCEEDED)
    elif bad is not None:
        backend.failed(work, _member(backend, work, bad, epoch), unplanned[bad])


def _member(backend: "LocalBackend", work: Work, name: str, epoch: int) -> Member:
    there = node_of(work.folder / name)
    node = there if there in backend.nodes else next(iter(backend.nodes))
    group = backend.enforcement.group(node, f"{work.id}.{name}.{epoch}")
    m = Member(ReplicaId(f"{work.id}/{name}"), work, node, group)
    m.epoch = epoch
    return m
