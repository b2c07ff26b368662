"""The machine as a platform: real processes, watched by events and held by the kernel.

All that must survive us lies in the run's folder (`launch.py`): who was started, how often, and
how it ended. So a new Headway finds by looking what an old one left.
"""

import os
import selectors
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import assert_never
from zlib import crc32

from headway import fault
from headway.backend.base import outcome
from headway.backend.local import admission, launch, procfs
from headway.backend.local.clock import Clock
from headway.backend.local.enforcement import Enforcement
from headway.backend.local.jobs import Cut, LocalJob, environment, threads
from headway.backend.local.recovery import recover
from headway.backend.local.requests import Inbox
from headway.backend.local.state import Member, Work
from headway.backend.local.transit import Transits
from headway.core.decision import (
    Decision,
    Failed,
    Move,
    Outcome,
    Place,
    Scale,
    SetShare,
    Suspend,
)
from headway.core.job import Mode, Phase, task_of
from headway.core.snapshot import Observation, Request, Trigger
from headway.core.units import JobId, NodeId, ReplicaId, Seconds

INBOX: Seconds = 0.5
"""Between two looks for what people ask."""
LONGEST_WAIT: Seconds = 30.0
"""Who waits is looked at again after this time, even if nothing happened."""
UNUSABLE = (126, 127)
"""Exit codes of commands that cannot be started: to try again would not help."""


_URGENT = (Trigger.FINISHED, Trigger.ASKED, Trigger.ARRIVED, Trigger.STARTED, Trigger.NODE)


class LocalBackend:
    def __init__(
        self,
        folder: Path,
        nodes: Sequence[Cut],
        jobs: Sequence[LocalJob],
        enforcement: Enforcement,
        clock: Clock,
    ) -> None:
        self.folder, self.enforcement, self.clock = folder, enforcement, clock
        self.cuts = {c.node.id: c for c in nodes}
        self.nodes = {c.node.id: c.node for c in nodes}
        self.members: dict[ReplicaId, Member] = {}
        self.works = {job.id: Work(job, folder / "jobs" / job.id) for job in jobs}
        self.coming = sorted(self.works.values(), key=lambda w: w.job.at)
        self.finished: list[Work] = []
        self._events = selectors.DefaultSelector()
        self._closing: list[Member] = []
        self._happened: list[Trigger] = []
        self._looked, self._looked_at = False, 0.0
        self._stirred: dict[NodeId, None] = {}
        self._news: tuple[dict[JobId, None], dict[ReplicaId, Member]] = ({}, {})
        for name, part in self.cuts.items():
            enforcement.add_node(name, part.node.capacity.cpu, part.ceiling)
        self.transits = Transits(self)
        self.inbox = Inbox(folder)
        self._requests: list[Request] = []
        recover(self)

    @property
    def over(self) -> bool:
        return len(self.finished) == len(self.works) and not self._closing

    # -- events: the driver's side -------------------------------------------------------------

    def wait(self, timeout: Seconds) -> Trigger | None:
        """Sleep until something happens, and say what; None: nothing did."""
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
        return any(w.phase is Phase.WAITING and w not in self.coming for w in self.works.values())

    def _on_time(self) -> None:
        now = self.clock()
        while self.coming and self.coming[0].job.at <= now:
            work = self.coming.pop(0)
            self.set_phase(work, Phase.LEAVING if work.held else Phase.WAITING)
            self._happened.append(Trigger.ARRIVED)
        for work in self.works.values():
            if work.again_at is not None and work.again_at <= now:
                work.again_at = None
                self.set_phase(work, Phase.WAITING)
                self._happened.append(Trigger.ARRIVED)
        for m in list(self.members.values()):
            if m.kill_at is not None and m.kill_at <= now:
                m.kill_at = now + 1.0
                m.group.signal(signal.SIGKILL)
        for request in self.inbox.new():
            self._asked(request)
        self.transits.advance(now)
        self._closing = [m for m in self._closing if not self._cleared(m)]
        if now - self._looked_at >= LONGEST_WAIT and self._waiting():
            self._happened.append(Trigger.NODE)

    @staticmethod
    def _cleared(m: Member) -> bool:
        fault.passing()
        if m.work.job.adopted is not None:
            m.group.release()
        for pid in procfs.marked(HEADWAY_DIR=str(m.folder), HEADWAY_EPOCH=str(m.epoch)):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)  # it had left its group, or there is none
        return m.group.close()

    # -- the backend's two methods -----------------------------------------------------------

    def observe(self, look: tuple[NodeId, ...] = ()) -> Observation:
        now = self.clock()
        self.inbox.heard()
        self._on_time()
        self._happened.clear()
        requests, self._requests = tuple(self._requests), []
        complete, self._looked, self._looked_at = not self._looked, True, now
        jobs, replicas = self._news
        self._news = ({}, {})
        heard = dict.fromkeys((*self._stirred, *look))
        self._stirred = {}
        if complete:
            here = (w.id for w in self.works.values() if w not in self.coming)
            jobs = dict.fromkeys(here)
            replicas = dict(self.members)
        reports = [m.report(now) for m in self.members.values() if m.node in heard]
        self._learn_totals(jobs)
        return Observation(
            at=now,
            complete=complete,
            nodes=tuple(self.nodes.values()) if complete else (),
            jobs=tuple(self.works[j].seen() for j in jobs),
            replicas=tuple(m.seen() for m in replicas.values()),
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
                    why = "jobs of this machine are not scaled"
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
        if (m.limit, m.weight) != (d.limit, d.weight):
            fault.passing()
            m.group.set_share(d.limit, d.weight)
            m.limit, m.weight = d.limit, d.weight
            self._news[1][m.id] = m
        return ""

    def _place(self, d: Place) -> str:
        work = self.works.get(d.job)
        if work is None or work.phase is not Phase.WAITING or work in self.coming:
            return "it is not waiting"
        if d.partial:
            return "a gang is started whole here"
        if any(node not in self.nodes for _, node in d.where):
            return "a node is not there"
        tasks = [work.spec.task(task_of(name)) for name, _ in d.where]
        why = admission.refusal(tasks, self.members.values())
        if why:
            return why
        self.set_phase(work, Phase.RUNNING)
        if work.started_at is None:
            work.started_at = self.clock()
        self._happened.append(Trigger.STARTED)
        try:
            for rank, (name, node) in enumerate(d.where):
                self.start(work, name, node, (rank, len(d.where)))
        except OSError as error:  # a gang is started whole: who is up already leaves again
            self._try_again(work, f"it could not be started: {error}")
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

    def start(self, work: Work, name: ReplicaId, node: NodeId, rank: tuple[int, int]) -> Member:
        fault.passing()
        epoch = launch.last_epoch(work.folder / name.rpartition("/")[2]) + 1
        group = self.enforcement.group(node, f"{name.replace('/', '.')}.{epoch}")
        m = Member(name, work, node, group)
        m.epoch, m.rank = epoch, rank
        if work.job.adopted is not None:
            group.take(work.job.adopted)
            return self.host(m, work.job.adopted)
        group.set_memory(admission.ceiling(m, self.nodes[node], self.members.values()))
        command = work.job.commands[m.task]
        m.child = launch.start(
            m.folder,
            m.epoch,
            (*self.enforcement.prefix, *command.argv),
            node=node,
            cpus=self.cuts[node].cpus,
            env=environment(command, self._threads(m), self._told(m, *rank)),
            where=command.where,
            entrances=group.entrances(),
        )
        return self.host(m, m.child.pid)

    def _threads(self, m: Member) -> int:
        return threads(m.work.spec.task(m.task), self.nodes[m.node])

    @staticmethod
    def _told(m: Member, rank: int, size: int) -> dict[str, str]:
        told = {
            "HEADWAY_DIR": str(m.folder),
            "HEADWAY_JOB": m.work.id,
            "HEADWAY_TASK": m.task,
            "HEADWAY_REPLICA": m.id,
            "HEADWAY_EPOCH": str(m.epoch),
            "HEADWAY_CHECKPOINT_DIR": str(m.folder / "checkpoint"),
        }
        if size > 1:
            port = 20000 + crc32(m.work.id.encode()) % 10000
            told |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            told |= {"RANK": str(rank), "WORLD_SIZE": str(size)}
        return told

    def host(self, m: Member, pid: int) -> Member:
        """From now on it is here, and its end will be seen."""
        m.group.lead(pid)
        m.since = m.heard_at = self.clock()
        m.before = m.heard
        self.members[m.id] = m.work.members[m.id] = m
        self._events.register(m.watch(pid), selectors.EVENT_READ, lambda: self._exited(m))
        self._news[1][m.id] = m
        self._stirred[m.node] = None
        return m

    # -- ends ------------------------------------------------------------------------------------

    def _exited(self, m: Member) -> None:
        self._events.unregister(m.pidfd)
        owner = launch.claimed_by(m.folder, m.epoch)
        if owner is not None and owner != m.pid and launch.alive(owner, m.folder):
            m.bury()  # an earlier Headway had started it after all: that one counts
            self._events.register(m.watch(owner), selectors.EVENT_READ, lambda: self._exited(m))
            m.group.lead(owner)
            return
        code, work = m.ended(), m.work
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

    def failed(self, work: Work, m: Member, code: int) -> None:
        self._try_again(work, _why(m, code), last=code in UNUSABLE)

    def _try_again(self, work: Work, why: str, *, last: bool = False) -> None:
        """In a while, unless that was the last time."""
        work.tries += 1
        work.reason = why
        last = last or work.tries > work.spec.backoff_limit
        if last and work.tries > 1:
            work.reason += f", after {work.tries} tries"
        self.end(work, Phase.FAILED if last else Phase.WAITING)

    def end(self, work: Work, phase: Phase) -> None:
        """It has come to this; what still runs of it is asked to leave first."""
        work.then = phase
        self.set_phase(work, Phase.LEAVING)
        for m in work.members.values():
            m.transit = None
        for m in work.members.values():
            self.stop(m)
        if not work.members:
            self._gone(work)

    def stop(self, m: Member) -> None:
        fault.passing()
        self.set_member(m, Phase.LEAVING)
        m.kill_at = self.clock() + m.work.spec.grace
        m.group.signal(signal.SIGTERM)

    def _gone(self, work: Work) -> None:
        if work.then is Phase.WAITING:
            work.again_at = self.clock() + 2.0 ** (work.tries - 1)
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
                m.group.release()
                self._exited(m)
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

    def _asked(self, request: Request) -> None:
        """A pause holds a job back until it is resumed; the rest is for the policy to decide."""
        work = self.works.get(request.job)
        if work is None:
            return
        if request.wish in ("pause", "resume") and work.finished_at is None:
            work.hold(request.wish == "pause")
            if not work.members and work not in self.coming:
                self.set_phase(work, Phase.LEAVING if work.held else Phase.WAITING)
        self._requests.append(request)
        self._happened.append(Trigger.ASKED)

    def set_phase(self, work: Work, phase: Phase) -> None:
        work.phase = phase
        self._news[0][work.id] = None

    def set_member(self, m: Member, phase: Phase) -> None:
        m.phase = phase
        self._news[1][m.id] = m

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

    def close(self) -> None:
        """Take down what was put up."""
        while self._closing:
            self.wait(0.02)
        self._events.close()
        self.enforcement.close()


def _why(m: Member, code: int) -> str:
    """In words, why a replica failed."""
    said = launch.last_line(m.folder)
    if code == UNUSABLE[1]:
        return f"its command cannot be found: {said}"
    if m.group.killed_for_memory():
        return "it was killed, for it held more memory than it may"
    if code > SIGNALLED:
        name = signal.Signals(code - SIGNALLED).name if code - SIGNALLED in _SIGNALS else str(code)
        return f"it was killed by {name}"
    return f"it ended with exit code {code}: {said}" if said else f"it ended with exit code {code}"


SIGNALLED = 128
_SIGNALS = frozenset(int(s) for s in signal.Signals)
