"""Docker engines as a platform: each is a node, each replica a container.

What takes time is done by the engine's own thread (`engine.py`) and shows as a phase until it is
answered; everything below runs in the loop's thread. Containers carry the run, the replica and
the epoch as labels, and a name that can be given only once: so whoever comes after us finds them,
and nobody starts one twice.
"""

import signal
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from headway.backend import memory_admission
from headway.backend.clock import Clock
from headway.backend.docker import adopt, container, cpu_limits, operations, recovery, stats
from headway.backend.docker.container import EPOCH, REPLICA, RUN, ContainerState
from headway.backend.docker.engine import Engine
from headway.backend.docker.log_follower import LogFollower
from headway.backend.docker.replica import Member
from headway.backend.live import Resumable
from headway.backend.recovery import Past, recover
from headway.backend.replica_env import told
from headway.backend.state import Work
from headway.backend.worker import LoopQueue
from headway.core.model.decision import Applied, Decision, Failed, Move, Outcome, SetShare, Started
from headway.core.model.job import Phase, Task
from headway.core.model.node import Node
from headway.core.model.snapshot import Trigger
from headway.core.model.units import Bytes, Cores, NodeId, ReplicaId, Seconds
from headway.errors import BackendError, Declined, Unreachable
from headway.spec.runnable import LiveJob, environment, threads

ANSWER: Seconds = 0.04
"""How long `act` waits for the engine to set a share; it goes on beside the loop."""
SYNC: Seconds = 0.5
"""Between two looks into a container that cannot see our folder."""
PATIENCE: Seconds = 10.0
"""For an engine that has gone, when all that is left to do there is to tidy up."""


class DockerBackend(Resumable[Member]):
    kind = "docker"
    placed = Phase.STARTING

    def __init__(
        self,
        folder: Path,
        engines: Sequence[Engine],
        jobs: Sequence[LiveJob],
        clock: Clock,
        label: str = "",
    ) -> None:
        """`label`: containers that come to carry it are adopted too."""
        super().__init__(folder, [node_of(e) for e in engines], jobs, clock)
        self.run, self.label = folder.name, label
        self.engines = {e.name: e for e in engines}
        self.mail = LoopQueue()
        self.wake_by(self.mail.file, self.mail.read)
        self._sync_at = 0.0
        self._left = recovery.containers(self.engines.values(), self.run)
        for engine in engines:
            engine.begin(
                self.mail,
                up=partial(self._up, engine),
                down=partial(self._down, engine),
                event=partial(self._event, engine),
            )
        recover(self)
        for work in [w for w in self.coming if w.job.node is not None]:
            self.coming.remove(work)
            self._adopt(work)

    @property
    def how(self) -> tuple[str, str]:
        versions = ", ".join(dict.fromkeys(e.version for e in self.engines.values()))
        return "docker", f"Docker {versions} (its CPUs, quotas and shares)"

    def _adopt(self, work: Work) -> None:
        """It runs already, and where it is."""
        work.started_at = self.clock()
        self.set_phase(work, Phase.STARTING)
        self.start(work, ReplicaId.of(work.id, "main", 0), work.job.node or NodeId(""), (0, 1))

    # -- starts ------------------------------------------------------------------------------------

    def start(self, work: Work, name: ReplicaId, node: NodeId, rank: tuple[int, int]) -> Member:
        epoch = self.last_epoch(work.folder / name.name) + 1
        m = self._member(work, name, node, epoch)
        m.rank, m.phase = rank, Phase.STARTING
        if work.job.adopted is not None:
            m.container = str(work.job.adopted)
            m.folder.mkdir(parents=True, exist_ok=True)
            launch = partial(operations.inspect, m)
        else:
            recovery.claim(m.folder, epoch, node)
            command = work.job.commands[m.task]
            pools = threads(work.spec.task(m.task), self.nodes[node])
            env = environment({}, command, pools, told(m))
            m.most = memory_admission.ceiling(m, self.nodes[node], self.members.values())
            made = container.body(self.run, m, command, env, shared=not m.engine.apart)
            launch = partial(operations.launch, m, made)
        self.host(m)
        m.engine.do(launch, partial(self._started, m), partial(self._not_started, m))
        return m

    def _member(self, work: Work, name: ReplicaId, node: NodeId, epoch: int) -> Member:
        m = Member(name, work, node, self.engines[node])
        m.epoch = epoch
        m.container = container.name(self.run, m)
        return m

    def _started(self, m: Member, seen: ContainerState) -> None:
        if self.members.get(m.id) is not m:
            return
        if m.work.job.adopted is None:
            recovery.note_start(m.folder, m.epoch, seen.id)
        self._attach(m, seen)
        if m.phase is Phase.STARTING:
            self.set_member(m, Phase.RUNNING)
        if m.transit is not None:
            m.transit.until = self.clock() + m.work.spec.grace
        if m.work.phase is Phase.STARTING and not self._any_starting(m.work):
            self.set_phase(m.work, Phase.RUNNING)
        self.happened(Trigger.STARTED)
        limit = m.work.spec.task(m.task).limit
        if limit is not None and m.work.job.adopted is None and m.limit is None:
            m.limit = limit
            self.share(m, limit, m.weight)
        if not seen.running or m.died is not None:
            self._look_into(m)

    @staticmethod
    def _any_starting(work: Work) -> bool:
        return any(x.phase is Phase.STARTING for x in work.members.values())

    def _attach(self, m: Member, seen: ContainerState) -> None:
        """Hear and measure it."""
        m.id_there, m.host = seen.id, m.host or seen.host
        m.limit, m.weight = m.has = cpu_limits.share(seen.host, self._cores(m))
        m.gauge = self._gauge(m, seen.pid)
        m.heard = m.before = m.measure()
        m.heard_at = m.since = self.clock()
        m.log = self._copy(m)

    @staticmethod
    def _copy(m: Member) -> LogFollower:
        adopted = m.work.job.adopted is not None
        return LogFollower(m.engine.client, m.id_there, m.folder, m.epoch, new_only=adopted)

    @staticmethod
    def _gauge(m: Member, pid: int) -> stats.Gauge:
        return stats.group_of(pid, m.id_there) or stats.ByEngine(m.engine.client, m.id_there)

    def _cores(self, m: Member) -> Cores:
        return self.nodes[m.node].capacity.cpu

    def _not_started(self, m: Member, error: BackendError) -> None:
        if self.members.get(m.id) is not m:
            return
        if isinstance(error, Unreachable):
            m.in_doubt = True
            return
        self._take_off(m)
        m.engine.do(partial(operations.remove, m))
        last = isinstance(error, Declined) and error.status in (400, 404)
        self.try_again(m.work, f"it could not be started: {error.message}", last=last)

    def _take_off(self, m: Member) -> None:
        """It is no longer here, and nothing is to be heard of its end."""
        m.fall_silent()
        m.close()
        del self.members[m.id], m.work.members[m.id]
        m.phase = Phase.FAILED
        self._news[1][m.id] = m
        self.stir(m.node)

    def refusal(self, tasks: Sequence[tuple[Task, NodeId]]) -> str:
        down = next((node for _, node in tasks if not self.engines[node].up), None)
        return "" if down is None else f"the engine of {down} does not answer"

    # -- while it runs -----------------------------------------------------------------------------

    def act(self, decision: Decision) -> Outcome:
        done = super().act(decision)
        if not isinstance(decision, SetShare) or not isinstance(done, Applied):
            return done
        m = self.members.get(decision.replica)
        if m is not None and m.wanted is not None:
            return Started(decision=decision)
        if m is None or (m.limit, m.weight) != (decision.limit, decision.weight):
            return Failed(decision=decision, why=m.voice.heard.trouble if m else "it has ended")
        return done

    def _set_share(self, d: SetShare) -> str:
        m = self.members.get(d.replica)
        if m is not None and not m.engine.up:
            return f"the engine of {m.node} does not answer"
        return super()._set_share(d)

    def _move(self, d: Move) -> str:
        if d.to in self.engines and not self.engines[d.to].up:
            return f"the engine of {d.to} does not answer"
        return super()._move(d)

    def share(self, m: Member, limit: Cores | None, weight: float) -> None:
        """Asked for at once, and waited for a moment. Who is asked again meanwhile is asked only
        for the last.
        """
        waits, m.wanted = m.wanted is not None, (limit, weight)
        if not waits:
            then, failed = partial(self._is_set, m), partial(self._is_not_set, m)
            if m.engine.do(partial(operations.set_share, m, self._cores(m)), then, failed).wait(
                ANSWER
            ):
                self.mail.read()

    def _is_set(self, m: Member, done: tuple[Cores | None, float]) -> None:
        wanted, m.wanted, m.has = m.wanted, None, done
        if wanted is not None and wanted != done and self.members.get(m.id) is m:
            self.share(m, *wanted)

    def _is_not_set(self, m: Member, error: BackendError) -> None:
        """It keeps what it had; the next cycle sees that and decides afresh."""
        m.wanted, (m.limit, m.weight) = None, m.has
        if self.members.get(m.id) is m:
            m.voice.heard.trouble = f"its share could not be set: {error.message}"
            self.set_member(m, m.phase)

    def set_memory(self, m: Member, most: Bytes) -> None:
        """The most it may hold, while it runs."""
        m.most = most
        m.engine.do(partial(operations.set_memory, m, most))

    def signal(self, m: Member, number: int) -> None:
        if m.engine.up:
            m.engine.do(partial(operations.kill, m, signal.Signals(number).name))

    def killed_for_memory(self, m: Member) -> bool:
        return m.oom

    def _on_time(self) -> None:
        super()._on_time()
        now = self.clock()
        if now >= self._sync_at:
            self._sync_at = now + SYNC
            for m in self.members.values():
                if m.engine.up and m.in_doubt:
                    self._look_for(m)
                elif m.engine.up and m.id_there and not m.dying:
                    self._keep_up(m)

    def _keep_up(self, m: Member) -> None:
        """With what it writes and prints."""
        if m.mirror is not None:
            m.engine.do(m.mirror.sync)
        if m.gauge is not None and m.gauge.over:
            m.gauge = self._gauge(m, 0)
        if m.log is not None and m.log.over.is_set():
            if m.log.trouble:
                m.voice.heard.trouble = f"its log cannot be read: {m.log.trouble}"
            else:  # the line was cut, and it goes on
                m.log = self._copy(m)

    # -- what engines tell -------------------------------------------------------------------------

    def _event(self, engine: Engine, said: dict[str, Any]) -> None:
        about = said["Actor"]
        if said["Action"] == "start" and self._is_wanted(about["Attributes"]):
            client, number = engine.client, about["ID"]
            engine.do(
                partial(client.get, f"/containers/{number}/json"), partial(self._came, engine)
            )
            return
        m = self._about(engine, about["ID"], about["Attributes"])
        if m is None or said["Action"] not in ("die", "destroy"):
            return
        m.died = int(about["Attributes"].get("exitCode") or m.died or 0)
        if m.id_there:
            self._look_into(m)

    def _is_wanted(self, attributes: dict[str, str]) -> bool:
        key, equals, value = self.label.partition("=")
        here = attributes.get(key) if key and RUN not in attributes else None
        return here is not None and (not equals or here == value)

    def _came(self, engine: Engine, said: dict[str, Any]) -> None:
        """A container with the label that we look after has been started."""
        seen = container.found(said)
        known = {w.job.adopted for w in self.works.values() if w.finished_at is None}
        if seen.running and seen.id not in known:
            job = adopt.to_job(engine.name, seen, self.works, self.clock())
            self.works[job.id] = work = Work(job, self.folder / "jobs" / job.id)
            self._adopt(work)
            self.happened(Trigger.ARRIVED)

    def _about(self, engine: Engine, number: str, attributes: dict[str, str]) -> Member | None:
        """Whom it is about: ours by what they are labelled with, others by their number."""
        m = self.members.get(ReplicaId(attributes.get(REPLICA, "")))
        if m is not None and attributes.get(RUN) == self.run and m.work.job.adopted is None:
            return m if attributes.get(EPOCH) == str(m.epoch) else None
        here = (m for m in self.members.values() if m.engine is engine)
        return next((m for m in here if m.id_there == number), None)

    def _down(self, engine: Engine, why: BackendError) -> None:
        engine.broken += 1
        self._say(engine, why.message)
        self.set_node(replace(self.nodes[engine.name], up=False))

    def _up(self, engine: Engine) -> None:
        """It is there, or there again: what of ours is still running?"""
        if not self.nodes[engine.name].up:
            self.set_node(replace(self.nodes[engine.name], up=True))
            self._say(engine, "its engine is back")
        for m in self.members.values():
            if m.engine is engine:
                self._look_for(m)

    def _look_for(self, m: Member) -> None:
        m.in_doubt = False
        doubt = partial(setattr, m, "in_doubt", True)
        m.engine.do(partial(operations.seek, m), partial(self._found_again, m), lambda _: doubt())

    def _say(self, engine: Engine, trouble: str) -> None:
        for m in self.members.values():
            if m.engine is engine:
                m.voice.heard.trouble = trouble
        self.stir(engine.name)

    def _found_again(self, m: Member, seen: ContainerState | None) -> None:
        """When its engine is there again."""
        if self.members.get(m.id) is not m:
            return
        if seen is not None and seen.running:
            m.dying = False
            if not m.id_there:
                self._started(m, seen)
            elif m.log is not None and m.log.over.is_set():
                m.log = self._copy(m)
        elif not m.id_there and (seen is None or seen.state == "created"):
            self._take_off(m)
            m.engine.do(partial(operations.remove, m))
            self.put_back(m.work, "its engine did not answer when it was to be started")
        elif m.engine.broken and self._undisturbed(m) and not (seen and seen.code == 0):
            self._fell(m)
        else:
            self._look_into(m)

    @staticmethod
    def _undisturbed(m: Member) -> bool:
        return m.transit is None and m.phase is not Phase.LEAVING and m.work.job.adopted is None

    def _fell(self, m: Member) -> None:
        """It went down with its engine: through no fault of its own it begins anew."""
        recovery.note_exit(m.folder, m.epoch, recovery.GONE)
        self._take_off(m)
        self._closing.append(m)
        self.put_back(m.work, "its engine stopped, and it with it")

    # -- ends ------------------------------------------------------------------------------------

    def _look_into(self, m: Member) -> None:
        """It has ended: how?"""
        if not m.dying:
            m.dying = True
            m.engine.do(
                partial(operations.autopsy, m), partial(self._exited, m), partial(self._unknown, m)
            )

    @staticmethod
    def _unknown(m: Member, error: BackendError) -> None:
        del error  # we look again, perhaps when the engine is back
        m.dying, m.in_doubt = False, True

    def _exited(self, m: Member, seen: ContainerState | None) -> None:
        if self.members.get(m.id) is not m:
            return
        if seen is not None and seen.running:  # it was restarted by somebody
            m.dying, m.died = False, None
            m.close()
            self._attach(m, seen)
            return
        code = seen.code if seen is not None else recovery.GONE
        if seen is None:
            m.why, m.clearing = "somebody removed its container", False
        else:
            m.oom = seen.oom
        if m.work.job.adopted is None:
            recovery.note_exit(m.folder, m.epoch, code)
        m.fall_silent()
        m.close()
        self.ended(m, code)

    def ended(self, m: Member, code: int) -> None:
        super().ended(m, code)
        for other in [x for x in self.members.values() if x.node == m.node and x.most]:
            rest = [x for x in self.members.values() if x is not other]
            most = memory_admission.ceiling(other, self.nodes[m.node], rest)
            if most > other.most:  # what was kept for the one that has gone
                self.set_memory(other, most)

    def release(self, m: Member) -> None:
        """As it was found, as far as the engine can."""
        before = cpu_limits.as_before(m.host, self._cores(m))
        m.clearing = True
        done = partial(setattr, m, "clearing", False)
        m.engine.do(
            partial(operations.update, m, before),
            lambda _: done(),
            lambda _: done(),
        )
        m.fall_silent()
        m.close()
        self.ended(m, 0)

    def cancel(self, why: str, *, now: bool = False) -> None:
        super().cancel(why, now=now)
        for m in [m for m in self.members.values() if now and not m.engine.up]:
            m.work.reason = f"{why}; the engine of {m.node} does not answer: it may still run there"
            self._take_off(m)
            if not m.work.members:
                self._gone(m.work)

    def cleared(self, m: Member) -> bool:
        """Its container is removed; who was adopted keeps his."""
        if m.work.job.adopted is not None:
            return not m.clearing
        m.ended_at = m.ended_at or self.clock()
        if m.clearing is None and m.engine.up:
            m.clearing = True
            set_to = partial(setattr, m, "clearing")
            m.engine.do(
                partial(operations.remove, m), lambda _: set_to(False), lambda _: set_to(None)
            )
        return m.clearing is False or self.clock() - m.ended_at > PATIENCE

    def close(self) -> None:
        super().close()
        for engine in self.engines.values():
            engine.close()
        self.mail.close()

    # -- after a crash -----------------------------------------------------------------------------

    def last_epoch(self, folder: Path) -> int:
        return recovery.last_epoch(folder)

    def past(self, work: Work) -> Past:
        return recovery.past(self._left, work)

    def found(self, work: Work, name: str, epoch: int) -> Member:
        seen = self._left.get((work.id, name, epoch))
        node = recovery.node_of(work.folder / name, epoch)
        here = node if node in self.engines else next(iter(self.engines))
        m = self._member(work, ReplicaId.named(work.id, name), here, epoch)
        if seen is not None:
            m.id_there, m.oom = seen.found.id, seen.found.oom
        return m

    def tidy(self, work: Work, name: str, epoch: int) -> None:
        if (work.id, name, epoch) in self._left:
            m = self.found(work, name, epoch)
            m.engine.do(partial(operations.remove, m))

    def take_up(self, m: Member) -> None:
        seen = self._left[(m.work.id, m.id.name, m.epoch)].found
        if str(m.folder) not in seen.shared:
            m.mirror = operations.mirror(m, seen)
        self.host(m)
        self._attach(m, seen)


def node_of(engine: Engine) -> Node:
    return Node(id=engine.name, capacity=engine.capacity)
