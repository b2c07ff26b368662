"""A controller with one job, `x`, and a platform that does only what a test says."""

from headway.controller import commands as c
from headway.controller import events as e
from headway.controller.config import Config
from headway.controller.controller import Controller
from headway.controller.job_state import Checkpoint
from headway.core.model.decision import Place
from headway.core.model.job import JobSpec, Mode, Phase, Task
from headway.core.model.snapshot import Request
from headway.core.model.units import ReplicaId
from making import node


def workers(count, most=None):
    return (Task(name="worker", replicas=count, least=1, most=most or count),)


class Driver:
    def __init__(
        self,
        disk=None,
        *,
        adopted=False,
        now=0.0,
        found=(),
        time_limit=None,
        ttl=None,
        config=None,
        **spec,
    ):
        """`disk`: the states that an earlier process persisted; `found`: what it left running."""
        self.now, self.disk = now, {} if disk is None else disk
        self.spec = JobSpec(**{"checkpoint": Mode.SDK, "grace": 10.0, **spec})
        self.controller = Controller(
            Config(start_timeout=100.0, stuck_timeout=30.0, **(config or {}))
        )
        self.sent, self.persists, self.removes, self.saves = [], True, True, {}
        for name in "ab":
            self.event(e.NodeChanged(node(name)))
        self.controller.add(
            e.NewJob(
                id="x",
                spec=self.spec,
                submitted_at=0.0,
                adopted=adopted,
                time_limit=time_limit,
                ttl=ttl,
            )
        )
        self.run(self.controller.load(e.Loaded(dict(self.disk), tuple(found)), self.now))
        self.tick()

    @property
    def job(self):
        return self.controller.jobs["x"]

    @property
    def phase(self):
        return self.job.phase

    def __getitem__(self, name):
        return self.job.replicas[ReplicaId.named("x", name)]

    def run(self, commands):
        """Keep what is sent; states are durable at once unless the disk is full."""
        for command in commands:
            self.sent.append(command)
            if isinstance(command, c.Persist):
                if not self.persists:
                    self.event(e.CommandFailed(command, "ENOSPC"))
                    continue
                self.disk[command.job] = command.state
                self.event(e.Persisted(command.job, command.version))
            elif isinstance(command, c.Admit):
                self.event(e.Admitted(command.job))
            elif isinstance(command, c.RequestCheckpoint):
                self.event(e.CheckpointRead(command.replica, command.attempt, self.mark(command)))
            elif isinstance(command, c.Remove) and self.removes:
                self.event(e.Removed(command.replica, command.attempt))

    def mark(self, command):
        count = self.saves.get(command.replica.name, 0)
        return Checkpoint(str(count or ""), verified=bool(count))

    def event(self, event):
        self.run(self.controller.handle(event, self.now))

    def act(self, decision):
        """Why it is refused; "": it is not."""
        why, commands = self.controller.apply(decision, self.now)
        self.run(commands)
        return why

    def tick(self, seconds=0.0):
        self.now += seconds
        self.run(self.controller.tick(self.now))

    def ask(self, wish, **more):
        self.run(self.controller.request(Request(job="x", wish=wish, **more), self.now))

    def place(self, *names, node="a"):
        where = tuple((ReplicaId.named("x", n), node) for n in names or ("main-0",))
        return self.act(Place(job="x", where=where))

    def start(self, *names):
        """Place them; they run."""
        assert self.place(*names) == ""
        for name in names or ("main-0",):
            self.runs(name)

    def runs(self, name):
        self.event(e.ReplicaRunning(ReplicaId.named("x", name), self[name].attempt))

    def save(self, name, mark="step 3", *, verified=True):
        self.saves[name] = mark
        r = self[name]
        self.event(e.CheckpointRead(r.id, r.attempt, Checkpoint(mark, verified)))

    def exit(self, name, code, checkpoint=None, **more):
        r = self[name]
        mark = self.saves.get(name, "")
        last = checkpoint or Checkpoint(mark, verified=bool(mark))
        self.event(
            e.ReplicaExited(replica=r.id, attempt=r.attempt, code=code, checkpoint=last, **more)
        )

    def last(self, kind):
        """Commands of this kind since the last call."""
        found = [x for x in self.sent if isinstance(x, kind)]
        self.sent = [x for x in self.sent if not isinstance(x, kind)]
        return found

    @property
    def stopped(self):
        return [x.replica.name for x in self.last(c.Stop)]

    def crash(self, *found, **more):
        """The next process, which knows what is on disk."""
        return Driver(self.disk, now=self.now, found=found, **(vars_of(self.spec) | more))


def vars_of(spec):
    return {
        "tasks": spec.tasks,
        "checkpoint": spec.checkpoint,
        "grace": spec.grace,
        "backoff_limit": spec.backoff_limit,
    }


def found(name, attempt, *, running=True, exited=None):
    return e.ReplicaFound(ReplicaId.named("x", name), attempt, running, exited)


ENDED = (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)
