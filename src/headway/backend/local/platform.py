"""The machine as a platform: replicas are process trees, limited by the kernel.

The shell that starts a replica (`launcher.py`) records its pid and exit code, so that the next
Headway finds them.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

from headway.backend import memory_admission
from headway.backend.checkpoints import CheckpointWatch, newest
from headway.backend.clock import Clock
from headway.backend.cpu_partition import Cut
from headway.backend.exit_reason import NOT_STARTABLE, exit_reason
from headway.backend.job_store import JobStore
from headway.backend.local import launcher, recovery
from headway.backend.local.enforcement import procfs
from headway.backend.local.enforcement.select import ABOUT, Enforcement
from headway.backend.local.process import Process
from headway.backend.replica_env import loopback_env
from headway.backend.usage import UsageSample
from headway.backend.worker import EventQueue
from headway.controller.commands import (
    Admit,
    ApplyShare,
    Assignment,
    CancelCheckpoint,
    Command,
    DeleteJob,
    Kill,
    Persist,
    Release,
    Remove,
    ReplicaCommand,
    RequestCheckpoint,
    Start,
    Stop,
)
from headway.controller.events import (
    Admitted,
    CommandFailed,
    Event,
    JobDeleted,
    Loaded,
    Persisted,
    Removed,
    ReplicaExited,
    ReplicaRunning,
    ShareInEffect,
)
from headway.core.model.capabilities import Capabilities
from headway.core.model.node import Node
from headway.core.model.units import JobId, NodeId, ReplicaId, Seconds
from headway.spec.runnable import RunnableJob, environment, threads


class LocalPlatform:
    kind: ClassVar = "local"
    capabilities = Capabilities(shares=True, migrate=True, suspend=True, scale=True, adopt=True)

    def __init__(
        self,
        folder: Path,
        cuts: Sequence[Cut],
        jobs: Mapping[JobId, RunnableJob],
        enforcement: Enforcement,
        clock: Clock,
    ) -> None:
        self.events, self.clock = EventQueue(), clock
        self.jobs, self.limits = jobs, enforcement
        self.store = JobStore(folder)
        self.cuts = {c.node.id: c for c in cuts}
        self.processes: dict[ReplicaId, Process] = {}
        """The running attempt of each replica."""
        self.ended: dict[tuple[ReplicaId, int], Process] = {}
        """Attempts that have exited and are not removed yet."""
        self.checkpoints = CheckpointWatch()
        for name, part in self.cuts.items():
            enforcement.add_node(name, part.node.capacity.cpu, part.ceiling)

    @property
    def enforcement(self) -> tuple[str, str]:
        return self.limits.name, ABOUT[self.limits.name]

    def nodes(self) -> list[Node]:
        return [c.node for c in self.cuts.values()]

    def load(self) -> Loaded:
        states = self.store.load(self.jobs)
        found = []
        for state in states.values():
            for each in recovery.attempts(self.store, state):
                p = self._process(each.replica, each.node, each.attempt)
                if each.pid is not None:
                    self._watch(p, each.pid)
                found.append(recovery.to_found(p, self._exited(p, each.exit_code, each.ended)))
        return Loaded(states, tuple(found))

    def refusal(self, job: JobId, where: Sequence[tuple[ReplicaId, NodeId]]) -> str:
        if self.jobs[job].adopted is not None:
            return ""
        tasks = [self.jobs[job].spec.task(name.task) for name, _ in where]
        running = self.processes.values()
        return memory_admission.refusal(tasks, running, procfs.available_memory())

    # -- commands --------------------------------------------------------------------------------

    def execute(self, command: Command) -> list[Event]:
        match command:
            case Persist(job=job, version=version, state=state):
                try:
                    self.store.save(job, state)
                except OSError as error:
                    return [CommandFailed(command, str(error))]
                return [Persisted(job, version)]
            case Admit(job=job):
                return [Admitted(job)]
            case Start():
                return self._start_all(command)
            case DeleteJob(job=job):
                return [JobDeleted(job, "its TTL has expired")]
            case Remove(replica=name, attempt=attempt):
                return [self._remove(command, name, attempt)]
            case _:
                return self._to_process(command)

    def _to_process(self, command: ReplicaCommand) -> list[Event]:
        p = self.processes.get(command.replica)
        if p is None or p.attempt != command.attempt:
            return [CommandFailed(command, "not running")]
        match command:
            case Stop():
                p.group.signal(signal.SIGTERM)
            case Kill():
                p.group.signal(signal.SIGKILL)
            case Release():
                p.group.release()
                return self._ended(p)
            case RequestCheckpoint():
                mode = self.jobs[p.replica.job].spec.checkpoint
                return [self.checkpoints.request(command, p.folder, mode)]
            case CancelCheckpoint():
                self.checkpoints.cancel(command, p.folder)
            case ApplyShare(limit=limit, weight=weight):
                try:
                    p.group.set_share(limit, weight)
                except OSError as error:
                    return [CommandFailed(command, str(error))]
                return [ShareInEffect(p.replica, p.attempt, limit, weight)]
        return []

    def _start_all(self, command: Start) -> list[Event]:
        events: list[Event] = []
        for assigned in command.replicas:
            try:
                self._start(assigned, command.gang)
            except OSError as error:
                return [*events, CommandFailed(command, str(error))]
            events.append(ReplicaRunning(assigned.replica, assigned.attempt))
        return events

    def _start(self, a: Assignment, gang: tuple[ReplicaId, ...]) -> None:
        job, cut = self.jobs[a.replica.job], self.cuts[a.node]
        p = self._process(a.replica, a.node, a.attempt)
        if isinstance(job.adopted, int):
            p.group.take(job.adopted)
            self._watch(p, job.adopted)
            return
        spec, made = job.spec.task(a.replica.task), job.commands[a.replica.task]
        others = [x for x in self.processes.values() if x.replica != a.replica]
        p.group.set_memory(memory_admission.memory_limit(made.memory, cut.node, others))
        if spec.limit is not None:
            p.group.set_share(spec.limit, 1.0)
        ours = loopback_env(a.replica, a.attempt, folder=str(p.folder), gang=gang)
        p.child = launcher.start(
            p.folder,
            a.attempt,
            (*self.limits.prefix, *made.argv),
            cpus=cut.cpus,
            env=environment(os.environ, made, threads(spec, cut.node), ours),
            where=made.where,
            entrances=p.group.entrances(),
        )
        self._watch(p, p.child.pid)

    def _process(self, replica: ReplicaId, node: NodeId, attempt: int) -> Process:
        here = node if node in self.cuts else next(iter(self.cuts))
        group = self.limits.group(here, f"{replica.replace('/', '.')}.{attempt}")
        request = self.jobs[replica.job].spec.task(replica.task).request.memory
        return Process(replica, attempt, here, self.store.replica(replica), group, request)

    def _watch(self, p: Process, pid: int) -> None:
        """Report its end."""
        p.group.lead(pid)
        self.processes[p.replica] = p
        self.events.watch(p.open(pid), partial(self._ended, p))

    # -- ends ------------------------------------------------------------------------------------

    def _ended(self, p: Process) -> list[Event]:
        self.events.unwatch(p.pidfd)
        owner = launcher.claimed_by(p.folder, p.attempt)
        if owner is not None and owner != p.pid and launcher.alive(owner, p.folder):
            p.reap()  # an earlier Headway had started this attempt: that process counts
            self._watch(p, owner)
            return []
        p.reap()
        self.ended[p.replica, p.attempt] = self.processes.pop(p.replica)
        code = launcher.exit_code(p.folder, p.attempt) if self._is_ours(p) else 0
        exited = self._exited(p, code, None)
        return [] if exited is None else [exited]

    def _is_ours(self, p: Process) -> bool:
        return self.jobs[p.replica.job].adopted is None

    def _exited(self, p: Process, code: int | None, at: Seconds | None) -> ReplicaExited | None:
        if code is None:
            return None
        oom = p.group.killed_for_memory()
        return ReplicaExited(
            replica=p.replica,
            attempt=p.attempt,
            code=code,
            reason=exit_reason(code, p.folder, oom_killed=oom),
            permanent=code in NOT_STARTABLE,
            checkpoint=newest(p.folder, self.jobs[p.replica.job].spec.checkpoint),
            at=None if at is None else at - self.clock.began,
        )

    def _remove(self, command: Remove, name: ReplicaId, attempt: int) -> Event:
        """Also processes that have left their cgroup."""
        p = self.ended.get((name, attempt)) or self._process(name, NodeId(""), attempt)
        for pid in procfs.marked(HEADWAY_DIR=str(p.folder), HEADWAY_ATTEMPT=str(attempt)):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not p.group.close():
            return CommandFailed(command, "still exiting")
        self.ended.pop((name, attempt), None)
        return Removed(name, attempt)

    # -- events ------------------------------------------------------------------------------------

    def poll(self, timeout: Seconds) -> list[Event]:
        events = self.events.wait(self.checkpoints.timeout(timeout))
        return [*events, *self.checkpoints.changed()]

    def read(self, replica: ReplicaId, before: UsageSample | None) -> UsageSample | None:
        p = self.processes.get(replica)
        if p is None:
            return before
        sample = p.group.read(before)
        p.held_memory = float(sample.memory)
        return sample

    def close(self) -> None:
        self.limits.close()
        self.events.close()
