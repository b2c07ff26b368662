"""A platform that executes commands late, fails them, repeats events and crashes the controller.

What survives a crash is what was persisted (`disk`) and the processes. Everything else, commands
and events under way, is lost.
"""

from dataclasses import dataclass, field, replace
from math import inf

from headway.controller import commands as c
from headway.controller import events as e
from headway.controller import lifecycle
from headway.controller.config import Config
from headway.controller.controller import Controller
from headway.controller.job_state import Checkpoint
from headway.core.model.decision import Move, Place, Scale, SetShare, Suspend
from headway.core.model.job import Elastic, JobSpec, Mode, Phase, Task
from headway.core.model.snapshot import Request
from headway.core.model.units import ReplicaId
from making import node

NODES = ("a", "b")
RESTLESS = (Phase.PENDING, Phase.PAUSED)


def worker(job, index=0):
    return ReplicaId.of(job, "worker", index)


def spec(mode=Mode.SDK, replicas=1, elastic=Elastic.RESTART):
    task = Task(name="worker", replicas=replicas, least=1, most=3, elastic=elastic)
    return JobSpec(tasks=(task,), checkpoint=mode, grace=5.0, backoff_limit=2)


JOBS = {
    "single": spec(),
    "sigterm": spec(Mode.SIGTERM),
    "plain": spec(Mode.NONE),
    "gang": spec(replicas=2),
    "plain gang": spec(Mode.NONE, replicas=2),
    "loose": spec(replicas=2, elastic=Elastic.INDEPENDENT),
}


@dataclass
class Process:
    node: str
    code: int | None = None
    saves: int = 0
    disrupted: bool = False

    @property
    def running(self):
        return self.code is None

    @property
    def checkpoint(self):
        return Checkpoint(str(self.saves), self.saves > 0)


@dataclass
class Machine:
    """What survives a crash: the disk and the processes. It executes commands."""

    disk: dict = field(default_factory=dict)
    processes: dict = field(default_factory=dict)
    saves: dict = field(default_factory=dict)
    """Checkpoints of each replica: they outlive its attempts."""
    waiting: dict = field(default_factory=dict)
    """Attempts that hold room on a node, and do nothing else."""
    asked: set = field(default_factory=set)
    removed: set = field(default_factory=set)
    completed: set = field(default_factory=set)
    """Jobs whose chief has completed their work."""
    events: list = field(default_factory=list)

    def carry_out(self, x):
        match x:
            case c.Persist():
                self.save_state(x)
            case c.Admit():
                self.events.append(e.Admitted(x.job))
            case c.Start() | c.Reserve():
                for a in x.replicas:
                    (self.start if isinstance(x, c.Start) else self.reserve)(x.job, a)
            case c.Stop():
                self.may_stop(x)
            case c.Kill():
                self.may_stop(x)
                self.exit(x.replica, x.attempt, 137)
            case c.Remove():
                self.remove(x)
            case c.RequestCheckpoint():
                if x.ask:
                    self.asked.add(x.replica)
                self.read_checkpoint(x.replica, x.attempt)
            case c.CancelCheckpoint():
                self.asked.discard(x.replica)
            case c.ApplyShare():
                self.events.append(e.ShareInEffect(x.replica, x.attempt, x.limit, x.weight))

    def save_state(self, x):
        before = self.disk.get(x.job)
        if before is not None and before.phase.ended:
            assert x.state.phase is before.phase, "finished twice"
        if before is not None and before.target is Phase.CANCELLED:
            assert Phase.CANCELLED in (x.state.phase, x.state.target), "a cancel was forgotten"
        self.disk[x.job] = x.state
        self.events.append(e.Persisted(x.job, x.version))

    def start(self, job, a):
        state = self.disk[job]
        noted = {(r.replica, r.attempt) for r in state.replicas}
        assert (a.replica, a.attempt) in noted, "started before it was persisted"
        assert not (state.paused and state.phase is Phase.PAUSED), "started while paused"
        assert (a.replica, a.attempt) not in self.removed, "an attempt number was used twice"
        if (a.replica, a.attempt) not in self.processes:
            assert job not in self.completed, f"{a.replica} runs again after {job} has completed"
            running = [k for k, p in self.processes.items() if k[0] == a.replica and p.running]
            assert not running, f"{a.replica} runs twice"
            self.waiting.pop((a.replica, a.attempt), None)
            self.processes[a.replica, a.attempt] = Process(a.node)
        if self.processes[a.replica, a.attempt].running:
            self.events.append(e.ReplicaRunning(a.replica, a.attempt))
        else:
            self.events.append(self.exit_of(a.replica, a.attempt))

    def reserve(self, job, a):
        noted = {(r.replica, r.reserved) for r in self.disk[job].replicas}
        if (a.replica, a.attempt) in noted:  # otherwise it is withdrawn already, and removed next
            assert (a.replica, a.attempt) not in self.removed, "an attempt number was used twice"
        self.waiting[a.replica, a.attempt] = a.node
        self.events.append(e.ReplicaPrepared(a.replica, a.attempt))

    def may_stop(self, x):
        state = self.disk.get(x.replica.job)
        noted = {r.replica: r for r in state.replicas} if state else {}
        r = noted.get(x.replica)
        fine = r is None or r.attempt != x.attempt or r.stopping or r.leaving
        assert fine or state.target is not None, "stopped before that was persisted"

    def remove(self, x):
        state, p = self.disk.get(x.replica.job), self.processes.get((x.replica, x.attempt))
        if p is not None and state is not None and state.phase is not Phase.STOPPING:
            noted = {(r.replica, r.attempt) for r in state.replicas if not r.starting}
            assert (x.replica, x.attempt) not in noted, "its exit code is lost"
        if self.waiting.pop((x.replica, x.attempt), None):
            self.removed.add((x.replica, x.attempt))
        if p is not None:
            del self.processes[x.replica, x.attempt]
            self.removed.add((x.replica, x.attempt))
        self.events.append(e.Removed(x.replica, x.attempt))

    def loses_room(self, i):
        """What holds the room of a replica on its target disappears, or runs on its own."""
        if self.waiting:
            key = list(self.waiting)[i % len(self.waiting)]
            if i % 2:
                del self.waiting[key]
                self.removed.add(key)
                self.events.append(e.ReplicaExited(*key, code=137))
            else:
                self.events.append(e.ReplicaRunning(*key))

    def exit_of(self, name, attempt):
        p = self.processes[name, attempt]
        saved = Checkpoint(str(self.saves.get(name, 0)), self.saves.get(name, 0) > 0)
        ended = {"code": p.code or 0, "disrupted": p.disrupted}
        return e.ReplicaExited(replica=name, attempt=attempt, checkpoint=saved, **ended)

    def exit(self, name, attempt, code):
        p = self.processes.get((name, attempt))
        if p is not None and p.running:
            p.code = code
            self.events.append(self.exit_of(name, attempt))

    def read_checkpoint(self, name, attempt):
        count = self.saves.get(name, 0)
        self.events.append(e.CheckpointRead(name, attempt, Checkpoint(str(count), count > 0)))


@dataclass
class World(Machine):
    now: float = 0.0
    commands: list = field(default_factory=list)
    last_event: object = None
    up: dict = field(default_factory=lambda: dict.fromkeys(NODES, True))
    reserves: bool = False
    """Whether the platform holds room on the target of a move."""
    ended: dict = field(default_factory=dict)
    crashes: int = 0

    def __post_init__(self):
        self.begin()
        self.calm()

    def begin(self):
        """A new process of Headway: it knows what is on disk and what runs."""
        self.commands, self.events, self.last_event = [], [], None
        self.controller = Controller(
            Config(start_timeout=30.0, stuck_timeout=5.0, reserves=self.reserves)
        )
        for name in NODES:
            self.give(self.controller.handle(e.NodeChanged(self.node(name)), self.now))
        for name, job in JOBS.items():
            self.controller.add(e.NewJob(id=name, spec=job, submitted_at=0.0))
        found = tuple(
            e.ReplicaFound(name, n, p.running, None if p.running else self.exit_of(name, n))
            for (name, n), p in self.processes.items()
        )
        found += tuple(e.ReplicaFound(name, n, running=False) for name, n in self.waiting)
        self.give(self.controller.load(e.Loaded(dict(self.disk), found), self.now))
        self.give(self.controller.tick(self.now))

    def node(self, name):
        return node(name) if self.up[name] else replace(node(name), up=False)

    def give(self, commands):
        self.commands += commands
        self.check()

    # -- what may happen ---------------------------------------------------------------------------

    def execute(self, i=0):
        """One command that no other of the same job precedes."""
        ready = [x for n, x in enumerate(self.commands) if self.first(n)]
        if ready:
            command = ready[i % len(ready)]
            self.commands.remove(command)
            self.carry_out(command)

    def first(self, n):
        return all(job_of(x) != job_of(self.commands[n]) for x in self.commands[:n])

    def fail(self, i=0):
        ready = [x for n, x in enumerate(self.commands) if self.first(n)]
        if ready:
            command = ready[i % len(ready)]
            self.commands.remove(command)
            self.events.append(e.CommandFailed(command, "no", disrupted=bool(i % 2)))

    def some_process(self, i):
        running = [k for k, p in self.processes.items() if p.running]
        return running[i % len(running)] if running else None

    def exits(self, i):
        key = self.some_process(i)
        if key:
            self.processes[key].disrupted = i % 4 > 1 and i % 8 > 3
            self.exit(*key, (0, 1, 143, 137)[i % 4])
            job = key[0].job
            if i % 4 == 0 and key[0] == worker(job) and JOBS[job].checkpoint is Mode.NONE:
                self.completed.add(job)

    def saves_itself(self, i):
        key = self.some_process(i)
        if key:
            self.saves[key[0]] = self.saves.get(key[0], 0) + 1
            if key[0] in self.asked:
                self.read_checkpoint(*key)

    def reports(self, i):
        key = self.some_process(i)
        if key:
            self.events.append(e.ReplicaReported(*key))

    def waits(self, i):
        key = self.some_process(i)
        if key:
            key = next((k for k in self.waiting if i % 2), key)
            why = ("", "ImagePullBackOff", "Unschedulable")[i % 3]
            self.events.append(e.ReplicaWaiting(*key, why, why == "Unschedulable"))

    def prepares(self, i):
        key = self.some_process(i)
        if key:
            self.events.append(e.ReplicaPrepared(*key))

    def deliver(self, _=0):
        if self.events:
            self.last_event = self.events.pop(0)
            self.give(self.controller.handle(self.last_event, self.now))

    def deliver_again(self, _=0):
        if self.last_event is not None:
            self.give(self.controller.handle(self.last_event, self.now))

    def tick(self, _=0):
        due = self.controller.next_deadline()
        self.now = max(self.now, min(due, self.now + 60.0))
        self.give(self.controller.tick(self.now))

    def calm(self, i=0):
        """All that is under way arrives."""
        for _ in range(100):
            if not self.commands and not self.events:
                return
            self.execute(i)
            self.deliver()

    def node_changes(self, i):
        name = NODES[i % 2]
        self.up[name] = not self.up[name]
        self.give(self.controller.handle(e.NodeChanged(self.node(name)), self.now))

    def decides(self, i):
        jobs = list(JOBS)
        name, to = jobs[i % len(jobs)], NODES[(i // 5) % 2]
        count = JOBS[name].tasks[0].replicas
        place = Place(job=name, where=tuple((worker(name, n), to) for n in range(count)))
        extra = worker(name, 2)
        rest = [
            Move(replica=worker(name, (i // 3) % count), to=to),
            Suspend(job=name),
            Scale(job=name, task="worker", add=((extra, to),)),
            Scale(job=name, task="worker", remove=(extra,)),
            SetShare(replica=worker(name), limit=0.5, weight=1.0 + i % 3),
        ]
        for decision in (place, rest[(i // 10) % len(rest)]):
            why, commands = self.controller.apply(decision, self.now)
            self.give(commands)
            if not why:
                return

    def requests(self, i):
        jobs = list(JOBS)
        wish = ("pause", "resume", "pause", "cancel")[i % 4]
        self.give(self.controller.request(Request(job=jobs[i % len(jobs)], wish=wish), self.now))

    def crash(self, _=0):
        self.crashes += 1
        self.begin()

    # -- what must hold ----------------------------------------------------------------------------

    def check(self):
        self.check_agenda(self.controller.jobs.values())
        for job in self.controller.jobs.values():
            if job.phase.ended:
                assert self.ended.setdefault(job.id, job.phase) is job.phase or self.crashes
                assert not job.replicas
            elif job.arrived and job.phase not in RESTLESS:
                assert self.will_move(job), f"{job.id} is {job.phase} for ever"
            for r in job.replicas.values():
                assert r.attempt <= job.attempt

    def check_agenda(self, jobs):
        """What the controller keeps up to date is what a look at every job would find."""
        due = min((lifecycle.next_deadline(job) for job in jobs), default=inf)
        assert self.controller.next_deadline() <= due, "a deadline was forgotten"
        replicas = [r for job in jobs for r in job.replicas.values()]
        assert self.controller.arriving == any(r.arriving for r in replicas)
        assert not self.controller.finished or all(job.finished for job in jobs)

    def will_move(self, job):
        """A deadline, a command that is waited for, or a process whose exit will be seen."""
        has_deadline = min(job.retry_at, job.persist_at) < inf
        has_deadline |= any(r.deadline < inf for r in job.replicas.values())
        waits = job.version > job.persisted
        return has_deadline or waits or any(r.running for r in job.replicas.values())

    def drain(self):
        """Everything works from now on: each job must come to an end once it is cancelled."""
        for name in NODES:
            self.up[name] = True
            self.give(self.controller.handle(e.NodeChanged(self.node(name)), self.now))
        self.give(self.controller.cancel("the end", self.now))
        for _ in range(400):
            while self.commands or self.events:
                while self.commands:
                    self.execute()
                self.deliver()
            if self.controller.finished:
                return
            self.tick()
        left = {j.id: j.phase for j in self.controller.jobs.values() if not j.phase.ended}
        raise AssertionError(f"these never end: {left}")


def job_of(command):
    return command.job if hasattr(command, "job") else command.replica.job


STEPS = (
    World.execute, World.execute, World.execute, World.deliver, World.deliver, World.deliver,
    World.decides, World.decides, World.decides, World.calm, World.calm, World.tick, World.exits,
    World.saves_itself, World.reports, World.requests, World.fail, World.deliver_again,
    World.node_changes, World.crash, World.waits, World.prepares, World.loses_room,
)  # fmt: skip
