"""Checkpoint, stop, start elsewhere: a replica in transit, safe at every instant.

    asked ──a newer checkpoint──▶ stopping ──it has exited──▶ arriving ──it reports──▶ there
      └─too slow, or it failed: it stays     └─nothing was saved: back where it was, for good

Who cannot be asked (mode `sigterm`) begins with stopping. Of a gang that is suspended only the
chief is asked: the others run on until it has saved, and are stopped with it.

What is in doubt after a crash is told by files: `left.EPOCH` is written before a planned stop, with
the mark of the last checkpoint then.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway import failpoint
from headway.core.model.job import Mode, Phase
from headway.core.model.snapshot import Trigger
from headway.core.model.units import NodeId, Seconds

if TYPE_CHECKING:
    from headway.backend.live import LiveBackend
    from headway.backend.state import Member, Work

AS_TOLD = (0, 143)
"""Exit codes of who saves without the SDK and had the time for it."""
LOOK: Seconds = 0.05
"""Between two looks for a checkpoint, or for the first report of who has arrived."""


class Stage(Enum):
    ASKED = auto()
    STOPPING = auto()
    ARRIVING = auto()


@dataclass(slots=True)
class Transit:
    to: NodeId | None
    """None: back into the queue."""
    before: str
    """The mark of its last checkpoint when it set out."""
    until: Seconds
    stage: Stage = Stage.ASKED


class Transits:
    """Those of one backend. Its callers: `act` begins one, the clock and exits carry it on."""

    def __init__(self, backend: "LiveBackend[Any]") -> None:
        self.backend = backend

    def move(self, m: "Member", to: NodeId) -> None:
        self._begin(m, to)

    def suspend(self, work: "Work") -> None:
        first = work.members.get(work.chief()) or next(iter(work.members.values()))
        for m in work.members.values():
            if m is not first:
                self._set_out(m, None)
        self._begin(first, None)

    def _begin(self, m: "Member", to: NodeId | None) -> None:
        t = self._set_out(m, to)
        if m.work.spec.checkpoint is Mode.SDK and m.id == m.work.chief():
            failpoint.hit()
            (m.folder / "ask").touch()
        else:
            self._stop(m, t)

    def _set_out(self, m: "Member", to: NodeId | None) -> Transit:
        m.transit = Transit(to, _mark(m), self.backend.clock() + m.work.spec.grace)
        self.backend.set_phase(m.work, Phase.LEAVING)
        self.backend.set_member(m, Phase.LEAVING)
        return m.transit

    def _stop(self, m: "Member", t: Transit) -> None:
        t.stage = Stage.STOPPING
        failpoint.hit()
        (m.folder / f"left.{m.epoch}").write_text(t.before)
        self.backend.stop(m)
        for other, its in _waiting_for(m, t):
            self._stop(other, its)

    # -- as time passes ------------------------------------------------------------------------

    def due(self) -> list[Seconds]:
        waiting = (m.transit.stage for m in self.backend.members.values() if m.transit)
        return (
            [self.backend.clock() + LOOK] if any(s is not Stage.STOPPING for s in waiting) else []
        )

    def advance(self, now: Seconds) -> None:
        for m in [m for m in self.backend.members.values() if m.transit]:
            t = m.transit
            if t is None or t.stage is Stage.STOPPING:
                continue
            if t.stage is Stage.ARRIVING:
                m.voice.listen()
                if m.voice.spoke or now >= t.until:
                    self._arrived(m)
            elif m.id == m.work.chief():
                self._asked(m, t, now)

    def _asked(self, m: "Member", t: Transit, now: Seconds) -> None:
        """Has it saved itself?"""
        if _mark(m) != t.before:
            self._stop(m, t)
        elif now >= t.until:
            (m.folder / "ask").unlink(missing_ok=True)
            for other, _ in _waiting_for(m, t):
                self._settle(other, "")
            self._settle(m, f"it did not save itself within {m.work.spec.grace:g} s: it stays")

    def _arrived(self, m: "Member") -> None:
        if m.came_from is not None:
            self.backend.stir(m.came_from)
            m.came_from = None
            m.work.moves += 1
        self._settle(m, "")

    def _settle(self, m: "Member", trouble: str) -> None:
        """It runs again, and may be decided about."""
        m.transit = None
        m.voice.heard.trouble = trouble
        self.backend.set_member(m, Phase.RUNNING)
        self.backend.stir(m.node)
        self._calm(m.work)

    def _calm(self, work: "Work") -> None:
        if not any(x.transit for x in work.members.values()):
            self.backend.set_phase(work, Phase.RUNNING)
        self.backend.happened(Trigger.STARTED)

    # -- when it has exited ----------------------------------------------------------------------

    def exited(self, m: "Member", code: int) -> bool:
        """Was that as planned? Then it is dealt with."""
        t = m.transit
        (m.folder / "ask").unlink(missing_ok=True)
        if t is None or t.stage is not Stage.STOPPING:
            return False  # it ended by itself
        work, chief = m.work, m.id == m.work.chief()
        saved = not chief or _saved(m.folder, t.before, code, work.spec.checkpoint)
        done = code == 0 and (not saved or work.spec.checkpoint is Mode.SDK)
        if done and chief:
            return False  # anyway: who is only told to stop does not end with 0
        if saved and t.to is None:
            if not work.members:
                self.backend.set_phase(work, work.queued)
            return True
        if done:
            self._calm(work)
            return True
        if not saved:  # it cannot be moved after all: back to where it was, and for good
            work.spec = replace(work.spec, checkpoint=Mode.NONE)
        if not saved and t.to is None and m.rank[1] > 1:
            self._begin_anew(work)
            return True
        self._start(m, t, t.to if saved and t.to is not None else m.node)
        return True

    def _start(self, m: "Member", t: Transit, there: NodeId) -> None:
        try:
            new = self.backend.start(m.work, m.id, there, m.rank)
        except OSError as error:
            self.backend.try_again(m.work, f"it could not be started on {there}: {error}")
            return
        until = self.backend.clock() + m.work.spec.grace
        new.transit = Transit(there, t.before, until, Stage.ARRIVING)
        new.came_from = m.node if there != m.node else None
        self.backend.set_member(new, Phase.LEAVING)

    def _begin_anew(self, work: "Work") -> None:
        """Its others have been stopped too: a gang goes on whole, from its last good checkpoint."""
        if work.held:
            work.hold(False)  # the pause did not come off
        self.backend.put_back(work, "its chief did not save itself: it begins anew")


def _waiting_for(m: "Member", t: Transit) -> list[tuple["Member", Transit]]:
    """Of a gang that is suspended, those that leave when this one has saved."""
    if t.to is not None:
        return []
    others = [(x, x.transit) for x in m.work.members.values() if x is not m]
    return [(x, its) for x, its in others if its and its.stage is Stage.ASKED]


def _mark(m: "Member") -> str:
    return mark(m.folder, m.work.spec.checkpoint)


def mark(folder: Path, mode: Mode) -> str:
    """Names the newest complete checkpoint: what `LATEST` says, else the newest file; "": none. By
    the SDK only `LATEST` counts: before it is written, files are there that are not complete.
    """
    there = folder / "checkpoint"
    with suppress(OSError):
        return (there / "LATEST").read_text()
    if mode is Mode.SDK:
        return ""
    files = [p.stat() for p in there.rglob("*") if p.is_file()]
    return str(max((s.st_mtime_ns, s.st_size) for s in files)) if files else ""


def planned(work: "Work", name: str, epoch: int, code: int) -> bool:
    """After a crash: was this exit asked for, and did it leave a newer checkpoint behind? That is
    for the chief to do: the others were stopped because it had.
    """
    folder, mode = work.folder / name, work.spec.checkpoint
    if code == 0 and mode is Mode.SDK:
        return False
    with suppress(OSError):
        before = (folder / f"left.{epoch}").read_text()
        chief = work.chief().name
        return name != chief or _saved(folder, before, code, mode)
    return False


def _saved(folder: Path, before: str, code: int, mode: Mode) -> bool:
    """Has it left a checkpoint newer than that mark? Without the SDK nobody but its exit code says
    whether that is whole: who was killed may have been writing it.
    """
    by_sdk = mode is Mode.SDK or (folder / "checkpoint" / "LATEST").exists()
    return mark(folder, mode) != before and (by_sdk or code in AS_TOLD)
