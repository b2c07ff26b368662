"""The machine as a platform: real processes, watched by events and held by the kernel.

What must survive us is written by the shell that a job is started through (`launcher.py`).
"""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from headway import failpoint
from headway.backend import memory_admission
from headway.backend.clock import Clock
from headway.backend.cpu_partition import Cut
from headway.backend.live import Resumable
from headway.backend.local import launcher
from headway.backend.local.enforcement import procfs
from headway.backend.local.enforcement.select import ABOUT, Enforcement
from headway.backend.local.process import Member
from headway.backend.local.recovery import past
from headway.backend.recovery import Past, node_of, recover
from headway.backend.replica_env import told
from headway.backend.state import Work
from headway.core.model.job import Task
from headway.core.model.units import Cores, NodeId, ReplicaId
from headway.spec.runnable import LiveJob, environment, threads


class LocalBackend(Resumable[Member]):
    kind = "local"

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[Cut],
        jobs: Sequence[LiveJob],
        enforcement: Enforcement,
        clock: Clock,
    ) -> None:
        super().__init__(folder, [c.node for c in nodes], jobs, clock)
        self.enforcement = enforcement
        self.cuts = {c.node.id: c for c in nodes}
        for name, part in self.cuts.items():
            enforcement.add_node(name, part.node.capacity.cpu, part.ceiling)
        recover(self)

    @property
    def how(self) -> tuple[str, str]:
        return self.enforcement.name, ABOUT[self.enforcement.name]

    # -- starts ------------------------------------------------------------------------------------

    def start(self, work: Work, name: ReplicaId, node: NodeId, rank: tuple[int, int]) -> Member:
        failpoint.hit()
        epoch = self.last_epoch(work.folder / name.name) + 1
        m = self._member(work, name, node, epoch)
        m.rank = rank
        if isinstance(work.job.adopted, int):
            m.group.take(work.job.adopted)
            return self._watch(m, work.job.adopted)
        m.group.set_memory(memory_admission.ceiling(m, self.nodes[node], self.members.values()))
        command, task = work.job.commands[m.task], work.spec.task(m.task)
        if task.limit is not None:
            m.limit = task.limit
            m.group.set_share(m.limit, m.weight)
        pools = threads(task, self.nodes[node])
        m.child = launcher.start(
            m.folder,
            m.epoch,
            (*self.enforcement.prefix, *command.argv),
            node=node,
            cpus=self.cuts[node].cpus,
            env=environment(os.environ, command, pools, told(m)),
            where=command.where,
            entrances=m.group.entrances(),
        )
        return self._watch(m, m.child.pid)

    def _member(self, work: Work, name: ReplicaId, node: NodeId, epoch: int) -> Member:
        group = self.enforcement.group(node, f"{name.replace('/', '.')}.{epoch}")
        m = Member(name, work, node, group)
        m.epoch = epoch
        return m

    def _watch(self, m: Member, pid: int) -> Member:
        """Its end will be seen."""
        m.group.lead(pid)
        self.wake_by(m.watch(pid), lambda: self._exited(m))
        return self.host(m)

    def refusal(self, tasks: Sequence[tuple[Task, NodeId]]) -> str:
        return memory_admission.refusal([task for task, _ in tasks], self.members.values())

    # -- while it runs -----------------------------------------------------------------------------

    def signal(self, m: Member, number: int) -> None:
        m.group.signal(number)

    def share(self, m: Member, limit: Cores | None, weight: float) -> None:
        m.group.set_share(limit, weight)

    def killed_for_memory(self, m: Member) -> bool:
        return m.group.killed_for_memory()

    # -- ends ------------------------------------------------------------------------------------

    def _exited(self, m: Member) -> None:
        self.stop_waking(m.pidfd)
        owner = launcher.claimed_by(m.folder, m.epoch)
        if owner is not None and owner != m.pid and launcher.alive(owner, m.folder):
            m.bury()  # an earlier Headway had started it after all: that one counts
            self.wake_by(m.watch(owner), lambda: self._exited(m))
            m.group.lead(owner)
            return
        self.ended(m, m.ended())

    def release(self, m: Member) -> None:
        m.group.release()
        self._exited(m)

    def cleared(self, m: Member) -> bool:
        failpoint.hit()
        if m.work.job.adopted is not None:
            m.group.release()
        for pid in procfs.marked(HEADWAY_DIR=str(m.folder), HEADWAY_EPOCH=str(m.epoch)):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)  # it had left its group, or there is none
        return m.group.close()

    def close(self) -> None:
        super().close()
        self.enforcement.close()

    # -- after a crash -----------------------------------------------------------------------------

    def last_epoch(self, folder: Path) -> int:
        return launcher.last_epoch(folder)

    def past(self, work: Work) -> Past:
        return past(work)

    def found(self, work: Work, name: str, epoch: int) -> Member:
        there = node_of(work.folder / name)
        node = there if there in self.nodes else next(iter(self.nodes))
        return self._member(work, ReplicaId.named(work.id, name), node, epoch)

    def tidy(self, work: Work, name: str, epoch: int) -> None:
        for node in self.nodes:
            self.enforcement.group(node, f"{work.id}.{name}.{epoch}").close()

    def take_up(self, m: Member) -> None:
        m.limit, m.weight = m.group.share()
        m.heard = m.measure()
        pid = launcher.claimed_by(m.folder, m.epoch)
        self._watch(m, pid or 0)
