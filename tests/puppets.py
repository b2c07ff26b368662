"""A platform whose replicas do what a test says, and whose clock stands until it is moved on."""

import signal

from headway.backend import requests
from headway.backend.live import LiveBackend
from headway.backend.state import Member
from headway.backend.usage import UsageSample
from headway.core.model.decision import Place, Started
from headway.core.model.job import JobSpec, Mode, Task
from headway.core.model.snapshot import Request
from headway.core.model.units import ReplicaId
from headway.spec.runnable import LiveJob
from making import node


class Still:
    now = began = 0.0

    def __call__(self):
        return self.now


class Puppet(Member):
    def __init__(self, *what):
        super().__init__(*what)
        self.signals = []

    def read(self, before):
        del before
        return UsageSample()

    def save(self, text, name="LATEST"):
        (self.folder / "checkpoint" / name).write_text(text)


class Puppets(LiveBackend):
    kind = "puppets"
    how = ("strings", "strings")

    def __init__(self, folder, **spec):
        """One job, `x`, that waits."""
        spec = JobSpec(**{"checkpoint": Mode.SDK, "grace": 10.0, **spec})
        super().__init__(
            folder,
            [node("a"), node("b")],
            [LiveJob(id="x", at=0.0, spec=spec, commands={})],
            Still(),
        )
        self.work, self.started = self.works["x"], []
        self.wait(0)

    def start(self, work, name, node, rank):
        m = Puppet(name, work, node)
        (m.folder / "checkpoint").mkdir(parents=True, exist_ok=True)
        m.epoch, m.rank = 1 + sum(n == name for n, _, _ in self.started), rank
        self.started.append((name, node, rank))
        return self.host(m)

    def signal(self, m, number):
        m.signals.append(number)

    def share(self, m, limit, weight):
        pass

    def refusal(self, tasks):
        del tasks
        return ""

    def release(self, m):
        pass

    def cleared(self, m):
        del m
        return True

    def killed_for_memory(self, m):
        del m
        return False

    # -- hands -----------------------------------------------------------------------------------

    def place(self, *names):
        where = tuple((ReplicaId.named("x", n), "a") for n in names or ("main-0",))
        return isinstance(self.act(Place(job="x", where=where)), Started)

    def pass_(self, seconds=0.0):
        self.clock.now += seconds
        self.wait(0)

    def ask(self, wish):
        requests.put(self.folder, Request(job="x", wish=wish))
        self.pass_()

    def __getitem__(self, name):
        return self.members[f"x/{name}"]

    def exit(self, name, code):
        self.ended(self[name], code)

    @property
    def stopped(self):
        """Who has been told to leave."""
        told = [m.id[2:] for m in self.members.values() if signal.SIGTERM in m.signals]
        return sorted(told)


def workers(count):
    return (Task(name="worker", replicas=count, least=1, most=count),)
