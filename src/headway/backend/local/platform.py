"""The local platform: replicas are process trees on this machine, limited by the kernel.

The shell that starts a replica (`launcher.py`) records its pid and exit code, so that the next
Headway process finds them.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from errno import E2BIG, EAGAIN, EDQUOT, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, EROFS
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from headway.backend import memory_admission, procfs
from headway.backend.base import MetricsInFiles
from headway.backend.checkpoints import CheckpointWatch, newest
from headway.backend.claims import Claims, Ports, ports_of
from headway.backend.clock import Clock
from headway.backend.cpu_partition import Cut
from headway.backend.exit_reason import KILLED, exit_reason, is_permanent
from headway.backend.foreign_load import ForeignLoad
from headway.backend.job_store import JobStore
from headway.backend.local import launcher
from headway.backend.local.enforcement import homes
from headway.backend.local.enforcement.select import ABOUT, Enforcement, Group
from headway.backend.local.process_control import DirectControl, ProcessControl, StartRequest
from headway.backend.local.run_as import find_user
from headway.backend.promised_memory import PromisedMemory
from headway.backend.replica_env import is_distributed, port_count, port_env
from headway.backend.report_channel import ReportChannel, Reporter
from headway.backend.usage import UsageSample
from headway.backend.worker import EventQueue, Worker
from headway.controller import commands, events
from headway.core.model.capabilities import Capabilities
from headway.core.model.node import Node
from headway.core.model.units import Bytes, JobId, NodeId, ReplicaId, Seconds, Where
from headway.errors import FULL
from headway.metrics import job_files
from headway.spec.runnable import RunnableJob, environment, threads

if TYPE_CHECKING:
    from headway.backend.local.relays import Relays

NOT_ITS_FAULT = (EAGAIN, EDQUOT, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, EROFS)
"""Errors at a start that the job has not caused."""
PATH = "/usr/local/bin:/usr/bin:/bin"
"""PATH of a job of another user, if its submission has none."""


@dataclass(slots=True)
class Process:
    """One attempt of a replica: the shell, the training, and the group that limits both."""

    replica: ReplicaId
    attempt: int
    node: NodeId
    folder: Path
    group: Group
    requested_memory: Bytes = 0.0
    held_memory: Bytes = 0.0
    pid: int = 0
    pidfd: int = -1
    """Readable when the process has exited."""
    child: subprocess.Popen[bytes] | None = None
    at_exit: UsageSample | None = None
    """Usage at the exit."""

    def reap(self) -> None:
        if self.child is not None:
            self.child.wait()
            self.child = None
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


class LocalPlatform(MetricsInFiles):
    kind: ClassVar = "local"
    capabilities = Capabilities(adopt=True)

    def __init__(
        self,
        folder: Path,
        cuts: Sequence[Cut],
        jobs: Mapping[JobId, RunnableJob],
        enforcement: Enforcement,
        clock: Clock,
        foreign: ForeignLoad | None = None,
        claims: Claims | None = None,
    ) -> None:
        """`claims`: claims of the CPUs of its nodes, which `close` releases."""
        self.control: ProcessControl = DirectControl()
        """Starts, signals and kills processes. Replaced if this process has no permission to do
        so."""
        self.relays: Relays | None = None
        """Relays between its nodes, if a link is declared."""
        self.channel: ReportChannel | None = None
        """Channel for reports over HTTP, if enabled."""
        self.events, self.clock, self._run = EventQueue(), clock, folder
        self.jobs, self.limits, self._foreign = jobs, enforcement, foreign
        self.store, self._disk = JobStore(folder), Worker("job store", self.events)
        self.cuts = {c.node.id: c for c in cuts}
        self.processes: dict[ReplicaId, Process] = {}
        """The running attempt of each replica."""
        self.ended: dict[tuple[ReplicaId, int], Process] = {}
        """Attempts that have exited and are not removed yet."""
        self.checkpoints = CheckpointWatch()
        self._claims, self._promised = claims or Claims(), PromisedMemory(folder.name)
        self._ports = Ports(folder, self._claims)
        for name, part in self.cuts.items():
            enforcement.add_node(name, part.node.capacity.cpu, part.ceiling)

    @property
    def enforcement(self) -> tuple[str, str]:
        return self.limits.name, ABOUT[self.limits.name]

    def nodes(self) -> list[Node]:
        return [c.node for c in self.cuts.values()]

    def load(self) -> events.Loaded:
        states, found = self.store.load(self.jobs, repair=True), []
        for r in (r for state in states.values() for r in state.replicas):
            records = self.store.records(r.replica)
            claim = launcher.claim_of(records, r.attempt)
            if claim is None:
                continue  # not started
            p = self._process(r.replica, r.node, r.attempt)
            job_files.remove_file(p.folder, "ask")
            if claim.alive:
                self._watch(p, claim.pid)
                self.control.signal(p.group, signal.SIGCONT)  # the pacer may have been killed
                left = events.ReplicaFound(r.replica, r.attempt, True, None, *p.group.share())
            else:
                at = self.clock.at(launcher.ended_at(records, r.attempt))
                left = events.ReplicaFound(r.replica, r.attempt, False, self._exited(p, at))
            found.append(left)
        if self.relays:
            self.relays.keep({r.job for r in self.processes})
        known = {(f.replica, f.attempt) for f in found}
        sessions = procfs.sessions()
        for name, attempt in (a for job in states for a in self.store.attempts(job)):
            claim = launcher.claim_of(self.store.records(name), attempt)
            if claim and claim.left(sessions) and (name, attempt) not in known:  # an orphan
                found.append(events.ReplicaFound(name, attempt, running=False))
        return events.Loaded(states, tuple(found))

    def refusal(self, job: JobId, where: Where) -> str:
        if self.jobs[job].adopted is not None:
            return ""
        tasks = [self.jobs[job].spec.task(name.task) for name, _ in where]
        running = ((p.requested_memory, p.held_memory) for p in self.processes.values())
        available = procfs.available_memory() - self._promised.of_others()
        return memory_admission.refusal(tasks, running, available)

    def _publish(self) -> None:
        """Publish the promised memory that is not in use yet, for other runs."""
        both = ((p.requested_memory, p.held_memory) for p in self.processes.values())
        self._promised.publish(sum(max(0.0, asked - held) for asked, held in both))

    def execute(self, command: commands.Command) -> list[events.Event]:
        match command:
            case commands.Start():
                return self._start_all(command)
            case commands.Remove():
                return [self._remove(command)]
            case commands.OfJob():
                return self.store.execute(command, self._disk)
            case _:
                return self._to_process(command)

    def _to_process(self, command: commands.ReplicaCommand) -> list[events.Event]:
        p = self.processes.get(command.replica)
        if p is None or p.attempt != command.attempt:
            return [events.CommandFailed(command, "not running")]
        match command:
            case commands.Stop():
                if not self.control.signal(p.group, signal.SIGTERM, p.pid):
                    return [events.CommandFailed(command, "the training has not begun yet")]
            case commands.Kill():
                self.control.signal(p.group, signal.SIGKILL)
            case commands.Release():
                p.group.release()
                return self._ended(p)
            case commands.RequestCheckpoint():
                mode = self.jobs[p.replica.job].spec.checkpoint
                return [self.checkpoints.request(command, p.folder, mode)]
            case commands.CancelCheckpoint():
                self.checkpoints.cancel(p.replica, p.folder)
            case commands.ApplyShare(limit=limit, weight=weight):
                try:
                    p.group.set_share(limit, weight)
                except OSError as error:
                    return [events.CommandFailed(command, str(error))]
                return [events.ShareInEffect(p.replica, p.attempt, limit, weight)]
        return []

    def _start_all(self, command: commands.Start) -> list[events.Event]:
        done: list[events.Event] = []
        for assigned in command.replicas:
            try:
                self._start(assigned, command)
            except OSError as error:
                lacking, never = error.errno in NOT_ITS_FAULT, error.errno == E2BIG
                why = FULL.get(error.errno or 0) or str(error)
                return [*done, events.CommandFailed(command, why, never, lacking)]
            except (ValueError, KeyError) as error:  # a NUL in its command, an unknown user
                return [*done, events.CommandFailed(command, str(error), permanent=True)]
            done.append(events.ReplicaRunning(assigned.replica, assigned.attempt))
        self._publish()
        return done

    def _start(self, a: commands.Assignment, command: commands.Start) -> None:
        job, cut = self.jobs[a.replica.job], self.cuts[a.node]
        p = self._process(a.replica, a.node, a.attempt)
        if isinstance(job.adopted, int):
            self._adopt(p, job.adopted)
            return
        spec, made = job.spec.task(a.replica.task), job.commands[a.replica.task]
        here = (x for x in self.processes.values() if x.node == p.node and x.replica != a.replica)
        others = (x.requested_memory for x in here)
        p.group.set_memory(memory_admission.memory_limit(made.memory, cut.node, others))
        if spec.limit is not None:
            p.group.set_share(spec.limit, 1.0)
        first, relayed = self._ports_of(job, a, command)
        ours = port_env(
            a.replica, a.attempt,
            folder=str(p.folder),
            gang=command.gang,
            spec=job.spec,
            first=first,
            relayed=relayed,
        )  # fmt: skip
        if self.channel is not None:
            reporting = self.channel.open_for(p.folder, Reporter(a.replica, job.metric))
            ours |= {name: v for name, v in reporting.items() if name not in made.env}
        user = find_user(made.user) if made.user else None
        # A job of a user gets the environment of its submission, and nothing from the server.
        base = {"PATH": PATH} if job.spec.owner else os.environ
        inherited = dict(base) if user is None else user.environment(base)
        started = self.control.start(
            StartRequest(
                replica=a.replica,
                files=self._files(a.replica, a.attempt),
                argv=made.argv,
                env=environment(inherited, made, threads(spec, cut.node), ours),
                where=made.where,
                cpus=cut.cpus,
                group=p.group,
                user=user,
                data=self.store.data,
                prefix=self.limits.prefix,
            )
        )
        p.child = started.child
        self._watch(p, started.pid, started.pidfd)

    def _ports_of(
        self, job: RunnableJob, a: commands.Assignment, command: commands.Start
    ) -> tuple[int, Sequence[ReplicaId]]:
        """Return the first port of the job, and the replicas that are reached through a relay."""
        running = {r.job for r in self.processes}
        if not self.relays or not is_distributed(job.spec):
            return ports_of(self._ports, job, running), ()
        first = ports_of(self._ports, job, running, times=2)
        self.relays.start(job.id, first, port_count(job.spec))
        nodes = {r: p.node for r, p in self.processes.items()}
        nodes |= {other.replica: other.node for other in command.replicas}
        return first, [r for r in command.gang if nodes.get(r, a.node) != a.node]

    def _files(self, replica: ReplicaId, attempt: int) -> launcher.Files:
        return launcher.Files(self.store.replica(replica), self.store.records(replica), attempt)

    def _adopt(self, p: Process, pid: int) -> None:
        try:
            p.group.take(pid, homes.record(pid, self._run))
            self._watch(p, pid)
        except OSError:
            p.group.release()
            raise

    def _process(self, replica: ReplicaId, node: NodeId, attempt: int) -> Process:
        here = node if node in self.cuts else next(iter(self.cuts))
        group = self.limits.group(here, f"{replica.replace('/', '_')}.{attempt}")
        request = self.jobs[replica.job].spec.task(replica.task).request.memory
        return Process(replica, attempt, here, self.store.replica(replica), group, request)

    def _watch(self, p: Process, pid: int, pidfd: int = -1) -> None:
        """Watch a process, and report its end."""
        p.group.lead(pid)
        self.processes[p.replica] = p
        p.pid, p.pidfd = pid, pidfd if pidfd >= 0 else os.pidfd_open(pid)
        self.events.watch(p.pidfd, partial(self._ended, p))

    def _ended(self, p: Process) -> list[events.Event]:
        self.events.unwatch(p.pidfd)
        owner = launcher.claim_of(self.store.records(p.replica), p.attempt)
        if owner is not None and owner.pid != p.pid and owner.alive:
            p.reap()  # an earlier Headway process has started this attempt: watch that process
            self._watch(p, owner.pid)
            return []
        with suppress(OSError):
            used = p.group.read()
            total = procfs.cpu(p.pid) if p.child else 0.0
            p.at_exit = replace(used, cpu=max(used.cpu, total))
        p.reap()
        if self.jobs[p.replica.job].adopted is not None:
            p.group.release()  # processes that it started and left continue
            p.group.close()
        self.checkpoints.cancel(p.replica, p.folder)
        self.ended[p.replica, p.attempt] = self.processes.pop(p.replica)
        if self.relays and all(r.job != p.replica.job for r in self.processes):
            self.relays.stop(p.replica.job)
        return [self._exited(p)]

    def _exited(self, p: Process, at: Seconds | None = None) -> events.ReplicaExited:
        job, oom = self.jobs[p.replica.job], p.group.killed_for_memory()
        records, lost = self.store.records(p.replica), ""
        code = 0 if job.adopted is not None else launcher.exit_code(records, p.attempt)
        if code is None:
            code, claim = KILLED, launcher.claim_of(records, p.attempt)
            if claim is None or not claim.pid:
                lost = "its start was interrupted"
            elif not claim.of_this_boot:
                lost = "the machine was rebooted"
        reason = lost or exit_reason(code, p.folder, oom_killed=oom)
        return events.ReplicaExited(
            replica=p.replica,
            attempt=p.attempt,
            code=code,
            reason=reason,
            permanent=is_permanent(code, reason),
            disrupted=bool(lost),
            checkpoint=newest(p.folder, job.spec.checkpoint),
            at=at,
        )

    def _remove(self, command: commands.Remove) -> events.Event:
        """Remove what an attempt left, including processes that have left its cgroup."""
        name, attempt = command.replica, command.attempt
        if self.jobs[name.job].adopted is not None:
            return events.Removed(name, attempt)
        p = self.ended.get((name, attempt)) or self._process(name, NodeId(""), attempt)
        user = next((c.user for c in self.jobs[name.job].commands.values()), "")
        left = self.control.kill_left(
            name, self._files(name, attempt), find_user(user) if user else None
        )
        if not self.control.close_group(p.group) or left:
            return events.CommandFailed(command, "still exiting")
        self.ended.pop((name, attempt), None)
        return events.Removed(name, attempt)

    def poll(self, timeout: Seconds) -> list[events.Event]:
        found = self.events.wait(self.checkpoints.timeout(timeout))
        self._publish()
        return [*found, *self.checkpoints.changed(), *self._foreign_changes()]

    def _foreign_changes(self) -> list[events.Event]:
        found: list[events.Event] = []
        for name, load in (self._foreign.changes(self.clock()) if self._foreign else {}).items():
            cut = self.cuts[name]
            node = replace(cut.node, foreign=load)
            self.cuts[name] = replace(cut, node=node)
            self.limits.set_available(name, node.available)
            found.append(events.NodeChanged(node))
        return found

    def read(self, replica: ReplicaId, before: UsageSample | None) -> UsageSample | None:
        p = self.processes.get(replica)
        if p is None:
            ended = (e.at_exit for e in reversed(self.ended.values()) if e.replica == replica)
            return next(ended, None) or before
        sample = p.group.read(before)
        p.held_memory = float(sample.memory)
        return replace(sample, idle=procfs.idle_time())

    def close(self) -> None:
        if not self.processes:  # a shell that has just started has yet to enter its empty group
            self.limits.remove_groups()
        self.limits.close()
        self._claims.close()
        self._promised.close()
        self._disk.close()
        self.events.close()
