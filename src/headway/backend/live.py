"""The live backend: composes a controller and a platform. It is the same for every platform."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from headway import failpoint
from headway.backend import drained_nodes
from headway.backend.base import Platform
from headway.backend.containment import Containment
from headway.backend.inbox import Answer, Inbox
from headway.backend.monitor import Monitor, Totals
from headway.backend.new_job import new_job
from headway.controller import events
from headway.controller.commands import Command, Start
from headway.controller.config import Config
from headway.controller.controller import DEFAULTS, Controller
from headway.controller.records import JobRecord
from headway.controller.transfer import can_scale
from headway.core.model import decision as decisions
from headway.core.model.capabilities import Capabilities
from headway.core.model.job import Phase
from headway.core.model.snapshot import Observation, Request, Trigger
from headway.core.model.units import JobId, NodeId, Seconds
from headway.spec.runnable import RunnableJob

INBOX: Seconds = 0.5
"""Interval between two checks for user requests."""
STOP, DETACH = "stop", "detach"
"""Requests to the process itself. They name no job."""
GONE = NodeId("")
"""Placeholder for the node of a replica that has exited."""
SHOWN = 100
"""Maximum number of names in a message."""
ARRIVAL: Seconds = 0.05
"""Interval between two checks for the first report of a restarted replica."""
NEEDS = {
    decisions.SetShare: ("shares", "change shares"),
    decisions.Move: ("migrate", "move replicas"),
    decisions.Scale: ("scale", "scale running jobs"),
    decisions.Suspend: ("suspend", "suspend jobs"),
}
"""Capability that each kind of decision needs, and a description for messages."""
URGENCY = (Trigger.FINISHED, Trigger.ASKED, Trigger.ARRIVED, Trigger.STARTED, Trigger.NODE)


class LiveBackend:
    def __init__(
        self,
        platform: Platform,
        folder: Path,
        jobs: dict[JobId, RunnableJob],
        clock: Callable[[], Seconds],
        *,
        endless: bool = False,
        config: Config = DEFAULTS,
    ) -> None:
        """`jobs` is shared with the platform. `endless`: the platform adds jobs; the run never
        ends.
        """
        self.platform, self.clock, self.endless = platform, clock, endless
        can = platform.capabilities
        config = replace(config, can_suspend=can.suspend, can_scale=can.scale)
        self.jobs, self.controller = jobs, Controller(config)
        self.monitor = Monitor(platform, folder, self.jobs)
        self.inbox, self.contained = Inbox(folder, self._refusal), Containment()
        self._complete, self._stopped = False, False
        self.on_end: Callable[[JobRecord, Totals], None] = lambda job, totals: None
        """Called before an ended job of an endless run is forgotten."""
        self.take_new: Callable[[Request], None] = lambda request: None
        """Called before a request about an unknown job is refused: the job may be new."""
        self.on_stop: Callable[[bool], None] = lambda jobs: self.stop()
        """Called when a user ends the process. `jobs`: whether the jobs are stopped too."""
        self.unplaced: dict[JobId, str] = {}
        """Why the last placement of each pending job was refused, for `explain`."""
        self._folder = folder
        if drained := drained_nodes.read(folder):
            drained_nodes.use(self.controller, drained, clock())
        loaded, now = platform.load(), clock()
        for node in platform.nodes():
            self._run(self.controller.handle(events.NodeChanged(node), now))
        for new in map(new_job, self.jobs.values()):
            if new.node is None or new.id in loaded.states:
                self.controller.add(new)
            else:
                self._run(self.controller.handle(events.JobSeen(new), now))
        for found in loaded.replicas:
            if found.exited is not None:  # while no Headway ran: read its last report
                self.monitor.open(found.replica, found.attempt, GONE, now, resumed=True)
                self.monitor.close(found.replica, found.attempt)
        self._run(self.controller.load(loaded, now))
        for job in self.controller.jobs.values():
            for r in job.replicas.values():
                if r.running:
                    self.monitor.open(r.id, r.attempt, r.node, now, resumed=True)

    def submit(self, job: RunnableJob) -> None:
        """Add a job. It joins the queue when it is due."""
        self.jobs[job.id] = job
        self.controller.add(new_job(job))

    # -- commands and events ---------------------------------------------------------------------

    def _run(self, commands: Iterable[Command]) -> list[events.CommandFailed]:
        """Execute commands and those that follow from them. Return immediate failures."""
        queue, failures = deque(commands), list[events.CommandFailed]()
        while queue:
            failpoint.hit("platform.execute")
            command = queue.popleft()
            for event in self._execute(command):
                queue.extend(self._handle(event))
                if isinstance(event, events.CommandFailed):
                    failures.append(event)
        return failures

    def _execute(self, command: Command) -> Sequence[events.Event]:
        try:
            for a in command.replicas if isinstance(command, Start) else ():
                self.monitor.expect(a.replica, a.attempt)
            return self.platform.execute(command)
        except Exception as error:  # noqa: BLE001 - the outermost guard of a job
            what = type(command).__name__
            return [events.CommandFailed(command, self.contained.note(command.job, what, error))]

    def _handle(self, event: events.Event) -> list[Command]:
        now, commands = self.clock(), list[Command]()
        if isinstance(event, events.NodeChanged):
            return self.controller.handle(event, now)
        job = _job_of(event)
        if isinstance(event, events.ReplicaExited):
            with self.contained.of(job, "metrics"):
                self.monitor.close(event.replica, event.attempt)
        with self.contained.of(job, type(event).__name__):
            commands = self.controller.handle(event, now)
        if isinstance(event, events.ReplicaRunning):
            r = self.controller.records.replica(event.replica)
            if r is not None and r.attempt == event.attempt:
                with self.contained.of(job, "metrics"):
                    self.monitor.open(r.id, r.attempt, r.node, now, resumed=False)
        return commands

    def _give_up(self) -> None:
        """Reject jobs that caused the same error twice."""
        for job, reason in self.contained.take_rejected().items():
            self._run(self._handle(events.JobRejected(job, reason)))

    # -- the backend's two methods ---------------------------------------------------------------

    def observe(self, look: tuple[NodeId, ...] = ()) -> Observation:
        now, controller = self.clock(), self.controller
        self._learn_totals()
        gone, outbox = controller.cordons.forget(), controller.take_outbox(now)
        self.inbox.give()
        jobs, nodes = list(outbox.jobs), list(outbox.nodes)
        replicas = list(outbox.replicas.values())
        complete, self._complete = not self._complete, True
        if complete:
            jobs = [name for name, job in controller.jobs.items() if job.arrived]
            replicas = [r for job in controller.jobs.values() for r in job.replicas.values()]
            nodes = list(controller.nodes)
        measured = {*outbox.to_measure, *look}
        reports = []
        for w in [w for w in self.monitor.replicas.values() if w.node in measured]:
            if controller.records.replica(w.id) is not None:
                with self.contained.of(w.id.job, "report"):
                    report = self.monitor.report(w, now, outbox.notices.get(w.id, ""))
                    reports += [] if report is None else [report]
        seen = Observation(
            at=now,
            complete=complete,
            nodes=tuple(controller.nodes[n] for n in nodes),
            jobs=tuple(controller.records.to_core(j) for j in jobs),
            replicas=tuple(r.to_core() for r in replicas),
            reports=tuple(reports),
            gone=gone,
            requests=tuple(outbox.requests),
            capabilities=self.platform.capabilities if complete else None,
        )
        if self.endless:
            self._forget_ended(now)
        return seen

    def act(self, decision: decisions.Decision) -> decisions.Outcome:
        why = undeclared(decision, self.platform.capabilities)
        try:
            match decision:
                case decisions.Place(job=job, where=where) | decisions.Scale(job=job, add=where):
                    if not why and job in self.controller.jobs:
                        why = self.platform.refusal(job, where)
            if not why:
                why, commands = self.controller.apply(decision, self.clock())
        except Exception as error:  # noqa: BLE001 - the outermost guard of a job
            job, what = decisions.job_of(decision), type(decision).__name__
            why = self.contained.note(job, what, error)
        failures = [] if why else self._run(commands)
        if isinstance(decision, decisions.Place):
            self._note_place(decision.job, why)
        if why:
            return decisions.Refused(decision=decision, why=why)
        if failures:
            return decisions.Failed(decision=decision, why=failures[0].reason)
        if isinstance(decision, decisions.SetShare):
            r = self.controller.records.replica(decision.replica)
            if r is not None and r.in_effect == (decision.limit, decision.weight):
                return decisions.Applied(decision=decision)
        return decisions.Started(decision=decision)

    def _note_place(self, job: JobId, why: str) -> None:
        if why and job in self.controller.jobs:
            self.unplaced[job] = why
        else:
            self.unplaced.pop(job, None)

    def _learn_totals(self) -> None:
        """Use the number of steps that a script announces, if none is declared."""
        for w in [w for w in self.monitor.replicas.values() if w.reader.total]:
            job = self.controller.jobs.get(w.id.job)
            if job and w.reader.total and job.spec.total_steps is None and w.id == job.chief():
                self.controller.learn_total(job.id, w.reader.total)

    def _forget_ended(self, now: Seconds) -> None:
        """Forget jobs whose end is durable and was reported. New jobs can use their names."""
        ended = [j for j in self.controller.jobs.values() if j.phase.ended]
        for job in ended:
            if job.id in self.controller.outbox.jobs:
                continue
            if job.persisted == job.version and (job.new.ttl is None or job.deleted):
                self.unplaced.pop(job.id, None)
                self.on_end(job, self.monitor.totals.pop(job.id, Totals()))
                self._run(self.controller.forget(job.id, now))

    def totals(self, job: JobId) -> Totals:
        """Return the totals of the ended replicas of a job."""
        return self.monitor.totals.get(job, Totals())

    # -- the driver's side -------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        return self._stopped or (not self.endless and self.controller.finished)

    def stop(self) -> None:
        """End the run of this process. The jobs continue."""
        self._stopped = True

    def wait(self, timeout: Seconds) -> Trigger | None:
        """Wait until something happens, at most `timeout`. Return the trigger; None: nothing
        happened.
        """
        self.inbox.acknowledge(self._stored)
        outbox = self.controller.outbox
        if not outbox.triggers:
            for event in self.platform.poll(min(timeout, self._due() - self.clock())):
                self._run(self._handle(event))
        self._run(self.controller.tick(self.clock()))
        if self.endless:
            self._forget_ended(self.clock())
        for request in self.inbox.new():
            self._run(self.controller.request(request, self.clock()))
        self._find_arrivals()
        self.monitor.bound_logs(self.clock())
        self._give_up()
        triggers, outbox.triggers = outbox.triggers, []
        return min(triggers, key=URGENCY.index, default=None)

    def _stored(self, job: JobId) -> bool:
        found = self.controller.jobs.get(job)
        return found is None or found.persisted == found.version

    def _refusal(self, request: Request) -> Answer | None:
        """Return the answer if a request of a user is refused, otherwise None."""
        if not request.job:
            return self._of_process(request)
        if request.job not in self.controller.jobs:
            self.take_new(request)
        job, nodes = self.controller.jobs.get(request.job), self.controller.nodes
        if job is None:
            return Answer(unknown="job", known=tuple(islice(self.controller.jobs, SHOWN)))
        if request.to is not None and request.to not in nodes:
            return Answer(unknown="node", known=tuple(islice(nodes, SHOWN)))
        tasks = [task.name for task in job.spec.tasks]
        if request.wish == "scale" and request.task not in tasks:
            return Answer(unknown="task", known=tuple(tasks))
        why = ""
        if job.phase.ended:
            why = "it has ended"
        elif request.wish == "scale":
            why = not_scalable(job, request, self.platform.capabilities)
        elif request.wish == "resume":
            why = "" if job.paused else "it is not paused"
        elif job.phase is Phase.PAUSED:
            why = "it is paused"
        return Answer(why=why) if why else None

    def _of_process(self, request: Request) -> Answer:
        """Carry out a request to the process, which is not about a job."""
        nodes = self.controller.nodes
        if request.wish in (STOP, DETACH):
            self.on_stop(request.wish == STOP)
        elif request.wish not in (drained_nodes.DRAIN, drained_nodes.UNDRAIN):
            return Answer(why="it is not known to this version of Headway")
        elif request.to not in nodes:
            return Answer(unknown="node", known=tuple(islice(nodes, SHOWN)))
        else:
            drain = request.wish == drained_nodes.DRAIN
            now = self.clock()
            self._run(
                drained_nodes.change(self._folder, self.controller, request.to, now, drain=drain)
            )
        return Answer()

    def _due(self) -> Seconds:
        now = self.clock()
        soon = ARRIVAL if self.controller.arriving else INBOX
        return min(self.controller.next_deadline(), now + soon)

    def _find_arrivals(self) -> None:
        for w in list(self.monitor.replicas.values()) if self.controller.arriving else ():
            with self.contained.of(w.id.job, "metrics"):
                w.reader.listen()
            if w.reader.spoke:
                self._run(self._handle(events.ReplicaReported(w.id, w.attempt)))

    def wake_by(self, descriptor: int, then: Callable[[], None]) -> None:
        """Wake up and call a function when the descriptor is readable."""

        def call() -> list[events.Event]:
            then()
            return []

        self.platform.events.watch(descriptor, call)

    def stop_waking(self, descriptor: int) -> None:
        self.platform.events.unwatch(descriptor)

    def cancel(self, reason: str, *, force: bool = False) -> None:
        self._run(self.controller.cancel(reason, self.clock(), force=force))

    def close(self) -> None:
        """Wait until the remains of ended replicas are removed. Then close the platform."""
        self.inbox.acknowledge()
        while not self.endless and not self.controller.finished:
            self.wait(ARRIVAL)
        self.platform.close()


def _job_of(event: events.Event) -> JobId:
    match event:
        case events.JobSeen(job=new):
            return new.id
        case events.CommandFailed(command=command):
            return command.job
        case events.NodeChanged():
            return JobId("")
        case _:
            return event.job


def not_scalable(job: JobRecord, request: Request, can: Capabilities) -> str:
    """Return why a task cannot have the requested number of replicas; "": it can."""
    task = job.spec.task(request.task)
    if not (can.scale and job.to_core().capabilities is None):
        return undeclared(decisions.Scale(job=job.id, task=task.name), replace(can, scale=False))
    if not task.least <= (request.count or 0) <= task.most:
        least = f"{task.least} to " if task.least < task.most else "only "
        count = f"{least}{task.most} replica{'s' * (task.most > 1)}"
        return f"{task.name} can have {count}: set minReplicas and maxReplicas"
    there = sum(name.task == task.name for name in job.replicas)
    if request.count == (there if job.replicas else task.replicas):
        return f"{task.name} has {request.count} replica{'s' * (request.count != 1)} already"
    if job.replicas and not can_scale(job, task.name):
        return "it cannot save checkpoints, which it needs to start in another size"
    return ""


def undeclared(decision: decisions.Decision, can: Capabilities) -> str:
    """Return why a platform with these capabilities refuses this kind of decision; "":
    it does not.
    """
    capability, what = NEEDS.get(type(decision), ("", ""))
    return f"this platform cannot {what}" if capability and not getattr(can, capability) else ""
