"""The jobs of a run on a platform that moves by itself: the queue, starts and ends, what is under
way, what people ask. What a replica runs as (a process, a container) is for the heirs to say.

All that must survive us lies in the run's folder: who was started, how often, and how it ended.
So a new Headway finds by looking what an old one left (`recovery.py`).
"""

import selectors
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import ClassVar, Generic, TypeVar, assert_never

from headway import failpoint
from headway.backend.base import outcome
from headway.backend.clock import Clock
from headway.backend.recovery import Past, note_gang
from headway.backend.requests import Inbox
from headway.backend.state import Member, Work
from headway.backend.transit import Transits
from headway.core.model.decision import (
    Decision,
    Failed,
    Move,
    Outcome,
    Place,
    Scale,
    SetShare,
    Suspend,
)
from headway.core.model.job import Mode, Phase, Task
from headway.core.model.node import Node
from headway.core.model.snapshot import Observation, Request, Trigger
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds
from headway.metrics.reader import last_line
from headway.spec.runnable import LiveJob

INBOX: Seconds = 0.5
"""Between two looks for what people ask."""
LONGEST_WAIT: Seconds = 30.0
"""Who waits is looked at again after this time, even if nothing happened."""
UNUSABLE = (126, 127)
"""Exit codes of commands that cannot be started: to try again would not help."""
SIGNALLED = 128

_SIGNALS = frozenset(int(s) for s in signal.Signals)
_URGENT = (Trigger.FINISHED, Trigger.ASKED, Trigger.ARRIVED, Trigger.STARTED, Trigger.NODE)

M = TypeVar("M", bound=Member)


class LiveBackend(ABC, Generic[M]):
    kind: ClassVar[str]
    """As results and `run.json` call it."""
    placed: ClassVar[Phase] = Phase.RUNNING
    """What a replica is in when `start` has returned."""

    def __init__(
        self, folder: Path, nodes: Iterable[Node], jobs: Sequence[LiveJob], clock: Clock
    ) -> None:
        self.folder, self.clock = folder, clock
        self.nodes = {n.id: n for n in nodes}
        self.members: dict[ReplicaId, M] = {}
        self.works = {job.id: Work(job, folder / "jobs" / job.id) for job in jobs}
        self.coming = sorted(self.works.values(), key=lambda w: w.job.at)
        self.finished: list[Work] = []
        self._events = selectors.DefaultSelector()
        self._closing: list[M] = []
        self._happened: list[Trigger] = []
        self._looked, self._looked_at = False, 0.0
        self._stirred: dict[NodeId, None] = {}
        self._news: tuple[dict[JobId, None], dict[ReplicaId, M]] = ({}, {})
        self._node_news: dict[NodeId, None] = {}
        self.transits = Transits(self)
        self.inbox = Inbox(folder)
        self._requests: list[Request] = []

    # -- what the heirs say ----------------------------------------------------------------------

    @property
    @abstractmethod
    def how(self) -> tuple[str, str]:
        """By what shares are enforced: its name, and in words."""

    @abstractmethod
    def start(self, work: Work, name: ReplicaId, node: NodeId, rank: tuple[int, int]) -> M:
        """A new epoch of a replica. Returns within 50 ms; `placed` says how far it is then."""

    @abstractmethod
    def signal(self, m: M, number: int) -> None: ...

    @abstractmethod
    def share(self, m: M, limit: Cores | None, weight: float) -> None: ...

    @abstractmethod
    def refusal(self, tasks: Sequence[tuple[Task, NodeId]]) -> str:
        """Why these may not start there now; "": they may."""

    @abstractmethod
    def release(self, m: M) -> None:
        """Let go, unharmed, of what was adopted."""

    @abstractmethod
    def cleared(self, m: M) -> bool:
        """Is all gone that an ended replica had? It is asked again until it says so."""

    @abstractmethod
    def killed_for_memory(self, m: M) -> bool: ...

    def admit(self, work: Work) -> bool:  # noqa: ARG002 - for the heirs
        """It is due: may it join the queue? It is asked again until it may."""
        return True

    def note_gang(self, work: Work) -> None:
        """It is about to be started: what must whoever comes after us know?"""

    # -- events: the driver's side -------------------------------------------------------------

    @property
    def over(self) -> bool:
        return len(self.finished) == len(self.works) and not self._closing

    def wait(self, timeout: Seconds) -> Trigger | None:
        """Sleep until something happens, and say what; None: nothing did."""
        self.inbox.heard()
        if not self._happened:
            until = min(timeout, self._due() - self.clock())
            for key, _ in self._events.select(max(0.0, until)):
                key.data()
        self._on_time()
        happened, self._happened = self._happened, []
        return min(happened, key=_URGENT.index, default=None)

    def wake_by(self, file: int, then: Callable[[], None]) -> None:
        """Wait for this descriptor too."""
        self._events.register(file, selectors.EVENT_READ, then)

    def stop_waking(self, file: int) -> None:
        self._events.unregister(file)

    def _due(self) -> Seconds:
        """When something is to be done by the clock."""
        times = [self.coming[0].job.at] if self.coming else []
        times += [m.kill_at for m in self.members.values() if m.kill_at is not None]
        times += [w.again_at for w in self.works.values() if w.again_at is not None]
        times += self.transits.due()
        times.append(self.clock() + INBOX)
        if self._closing:
            times.append(self.clock() + 0.02)
        if self._waiting():
            times.append(self._looked_at + LONGEST_WAIT)
        return min(times, default=inf)

    def _waiting(self) -> bool:
        return any(w.phase is Phase.PENDING and w not in self.coming for w in self.works.values())

    def _on_time(self) -> None:
        now = self.clock()
        while self.coming and self.coming[0].job.at <= now and self.admit(self.coming[0]):
            work = self.coming.pop(0)
            self.set_phase(work, work.queued)
            self._happened.append(Trigger.ARRIVED)
        for work in self.works.values():
            if work.again_at is not None and work.again_at <= now:
                work.again_at = None
                self.set_phase(work, work.queued)
                self._happened.append(Trigger.ARRIVED)
        for m in list(self.members.values()):
            if m.kill_at is not None and m.kill_at <= now:
                m.kill_at = now + 1.0
                self.signal(m, signal.SIGKILL)
        for request in self.inbox.new():
            self.asked(request)
        self.transits.advance(now)
        self._closing = [m for m in self._closing if not self.cleared(m)]
        if now - self._looked_at >= LONGEST_WAIT and self._waiting():
            self._happened.append(Trigger.NODE)

    # -- the backend's two methods -----------------------------------------------------------

    def observe(self, look: tuple[NodeId, ...] = ()) -> Observation:
        now = self.clock()
        self._on_time()
        self._happened.clear()
        self.inbox.give()
        requests, self._requests = tuple(self._requests), []
        complete, self._looked, self._looked_at = not self._looked, True, now
        jobs, replicas = self._news
        self._news = ({}, {})
        nodes, self._node_news = self._node_news, {}
        heard = dict.fromkeys((*self._stirred, *look))
        self._stirred = {}
        if complete:
            here = (w.id for w in self.works.values() if w not in self.coming)
            jobs = dict.fromkeys(here)
            replicas = dict(self.members)
            nodes = dict.fromkeys(self.nodes)
        reports = [m.report(now) for m in self.members.values() if m.node in heard]
        self._learn_totals(jobs)
        return Observation(
            at=now,
            complete=complete,
            nodes=tuple(self.nodes[n] for n in nodes),
            jobs=tuple(self.works[j].to_core() for j in jobs),
            replicas=tuple(m.to_core() for m in replicas.values()),
            reports=tuple(r for r in reports if r is not None),
            requests=requests,
        )

    def act(self, decision: Decision) -> Outcome:
        try:
            match decision:
                case SetShare():
                    why = self._set_share(decision)
                case Place():
                    why = self._place(decision)
                case Move():
                    why = self._move(decision)
                case Suspend():
                    why = self._suspend(decision)
                case Scale():
                    why = "jobs are not scaled here"
                case _:
                    assert_never(decision)
        except OSError as error:
            return Failed(decision=decision, why=str(error))
        return outcome(decision, why)

    # -- acts ----------------------------------------------------------------------------------

    def _set_share(self, d: SetShare) -> str:
        m = self.members.get(d.replica)
        if m is None or m.phase is not Phase.RUNNING:
            return "it is not running"
        before = m.limit, m.weight
        if before != (d.limit, d.weight):
            failpoint.hit()
            m.limit, m.weight = d.limit, d.weight
            self._news[1][m.id] = m
            try:
                self.share(m, d.limit, d.weight)
            except OSError:
                m.limit, m.weight = before
                raise
        return ""

    def _place(self, d: Place) -> str:
        work = self.works.get(d.job)
        if work is None or work.phase is not Phase.PENDING or work in self.coming:
            return "it is not waiting"
        if d.partial:
            return "a gang is started whole here"
        if any(node not in self.nodes for _, node in d.where):
            return "a node is not there"
        why = self.refusal([(work.spec.task(name.task), node) for name, node in d.where])
        if why:
            return why
        work.gang = work.by_rank(name for name, _ in d.where)
        self.note_gang(work)
        self.set_phase(work, self.placed)
        if work.started_at is None:
            work.started_at = self.clock()
        self._happened.append(Trigger.STARTED)
        try:
            for name, node in d.where:
                self.start(work, name, node, (work.gang.index(name), len(work.gang)))
        except OSError as error:  # a gang is started whole: who is up already leaves again
            self.try_again(work, f"it could not be started: {error}")
            raise
        return ""

    def _move(self, d: Move) -> str:
        m = self.members.get(d.replica)
        if m is None or m.phase is not Phase.RUNNING or m.node == d.to:
            return "it is not running, or there already"
        if d.to not in self.nodes:
            return "the node is not there"
        if m.work.spec.checkpoint is Mode.NONE or m.work.job.adopted is not None:
            return "it cannot save itself"
        self.transits.move(m, d.to)
        return ""

    def _suspend(self, d: Suspend) -> str:
        work = self.works.get(d.job)
        if work is None or work.phase is not Phase.RUNNING:
            return "it is not running"
        if work.spec.checkpoint is Mode.NONE or work.job.adopted is not None:
            work.hold(False)
            return "it cannot save itself"
        self.transits.suspend(work)
        return ""

    def host(self, m: M) -> M:
        """From now on it is here."""
        m.since = m.heard_at = self.clock()
        m.before = m.heard
        self.members[m.id] = m.work.members[m.id] = m
        self._news[1][m.id] = m
        self._stirred[m.node] = None
        return m

    # -- ends ------------------------------------------------------------------------------------

    def ended(self, m: M, code: int) -> None:
        """It has exited, and is silent."""
        work = m.work
        del self.members[m.id], work.members[m.id]
        self._stirred[m.node] = None
        m.phase = Phase.SUCCEEDED if code == 0 else Phase.FAILED
        self._news[1][m.id] = m
        self._closing.append(m)
        self._happened.append(Trigger.FINISHED)
        if self.transits.exited(m, code):
            return
        if work.phase is Phase.LEAVING and not m.transit:
            if not work.members:
                self._gone(work)
        elif code == 0:
            if m.id == work.chief():
                self.end(work, Phase.SUCCEEDED)
        else:
            self.failed(work, m, code)

    def failed(self, work: Work, m: M, code: int) -> None:
        last = code in UNUSABLE or work.job.adopted is not None
        self.try_again(work, m.why or self._why(m, code), last=last)

    def try_again(self, work: Work, why: str, *, last: bool = False) -> None:
        """In a while, unless that was the last time."""
        work.tries += 1
        work.reason = why
        last = last or work.tries > work.spec.backoff_limit
        if last and work.tries > 1:
            work.reason += f", after {work.tries} tries"
        self.end(work, Phase.FAILED if last else Phase.PENDING)

    def put_back(self, work: Work, why: str) -> None:
        """Into the queue, through no fault of its own."""
        work.reason = why
        self.end(work, Phase.PENDING)

    def end(self, work: Work, phase: Phase) -> None:
        """It has come to this; what still runs of it is asked to leave first."""
        work.then = phase
        self.set_phase(work, Phase.LEAVING)
        for m in work.members.values():
            m.transit = None
        for name in list(work.members):
            self.stop(self.members[name])
        if not work.members:
            self._gone(work)

    def stop(self, m: M) -> None:
        failpoint.hit()
        self.set_member(m, Phase.LEAVING)
        m.kill_at = self.clock() + m.work.spec.grace
        self.signal(m, signal.SIGTERM)

    def _gone(self, work: Work) -> None:
        if work.then is Phase.PENDING:
            work.again_at = self.clock() + 2.0 ** max(0, work.tries - 1)
            return
        work.finished_at = self.clock()
        if work.then is Phase.SUCCEEDED:
            work.reason = ""
        self.set_phase(work, work.then)
        self.finished.append(work)

    def cancel(self, why: str, *, now: bool = False) -> None:
        """End every job, those who never started too; who was adopted is only let go. `now`: no
        more patience.
        """
        for m in list(self.members.values()):
            if m.work.job.adopted is not None:
                m.work.then, m.work.reason = Phase.CANCELLED, "it runs on"
                self.set_phase(m.work, Phase.LEAVING)
                self.release(m)
        for work in self.works.values():
            if work.finished_at is None and work.then is not Phase.CANCELLED:
                if work in self.coming:
                    self.coming.remove(work)
                work.reason, work.again_at = why, None
                work.folder.mkdir(parents=True, exist_ok=True)
                (work.folder / "cancelled").touch()
                self.end(work, Phase.CANCELLED)
        for m in self.members.values():
            m.kill_at = self.clock() if now else m.kill_at
        self._happened.append(Trigger.ASKED)

    def asked(self, request: Request) -> None:
        """A pause holds a job back until it is resumed; the rest is for the policy to decide."""
        work = self.works.get(request.job)
        if work is None:
            return
        held = request.wish == "pause" and self._may_rest(work)
        if request.wish in ("pause", "resume") and held != work.held and work.finished_at is None:
            work.hold(held)
            if not work.members and work not in self.coming and work.again_at is None:
                self.set_phase(work, work.queued)
        self._requests.append(request)
        self._happened.append(Trigger.ASKED)

    @staticmethod
    def _may_rest(work: Work) -> bool:
        """Whose pause will be refused must not be held back later."""
        saves = work.spec.checkpoint is not Mode.NONE and work.job.adopted is None
        return not work.members or (work.phase is Phase.RUNNING and saves)

    # -- what is new -----------------------------------------------------------------------------

    def set_phase(self, work: Work, phase: Phase) -> None:
        work.phase = phase
        if phase is Phase.RUNNING and work.held:
            work.hold(False)  # the pause did not come off
        self._news[0][work.id] = None

    def set_member(self, m: M, phase: Phase) -> None:
        m.phase = phase
        self._news[1][m.id] = m

    def set_node(self, node: Node) -> None:
        self.nodes[node.id] = node
        self._node_news[node.id] = None
        self._happened.append(Trigger.NODE)

    def stir(self, node: NodeId) -> None:
        """Who is on that node is heard at the next look."""
        self._stirred[node] = None

    def happened(self, what: Trigger) -> None:
        self._happened.append(what)

    def _learn_totals(self, jobs: dict[JobId, None]) -> None:
        """A script that says how many steps it will make need not have it declared."""
        for work in self.works.values():
            chief = work.members.get(work.chief())
            if chief and chief.voice.total and work.spec.total_steps is None:
                work.spec = replace(work.spec, total_steps=chief.voice.total)
                jobs[work.id] = None

    def _why(self, m: M, code: int) -> str:
        """In words, why a replica failed."""
        said = last_line(m.folder)
        if code == UNUSABLE[1]:
            return f"its command cannot be found: {said}"
        if self.killed_for_memory(m):
            return "it was killed, for it held more memory than it may"
        if code > SIGNALLED:
            number = code - SIGNALLED
            name = signal.Signals(number).name if number in _SIGNALS else str(code)
            return f"it was killed by {name}"
        by_itself = f"it ended with exit code {code}"
        return f"{by_itself}: {said}" if said else by_itself

    def close(self) -> None:
        """Take down what was put up."""
        self.inbox.heard()
        while self._closing:
            self.wait(0.02)
        self._events.close()


class Resumable(LiveBackend[M]):
    """One whose folder tells a new Headway, by `recover`, what an old one left."""

    def note_gang(self, work: Work) -> None:
        note_gang(work, [self.last_epoch(work.folder / x.name) for x in work.gang])

    @abstractmethod
    def last_epoch(self, folder: Path) -> int:
        """How often the replica of this folder has been started; 0: never."""

    @abstractmethod
    def past(self, work: Work) -> Past: ...

    @abstractmethod
    def found(self, work: Work, name: str, epoch: int) -> M:
        """A replica of an earlier Headway, that runs or has ended; it is not yet hosted."""

    @abstractmethod
    def take_up(self, m: M) -> None:
        """It runs, as `past` has said: host it."""

    @abstractmethod
    def tidy(self, work: Work, name: str, epoch: int) -> None:
        """Take away what a crash may have left of a replica that has ended."""
