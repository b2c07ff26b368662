"""A live backend under test: the same hands for every platform."""

from pathlib import Path
from tempfile import mkdtemp
from typing import ClassVar

from patience import Deadline

from headway.backend.live import LiveBackend
from headway.core.model.job import JobSpec, Mode, Task
from headway.spec.runnable import RunnableJob


class Clock:
    """A clock that a test moves on."""

    now = began = 0.0

    def __call__(self):
        return self.now

    def at(self, wall):
        return wall - self.began


def long_job(workers, limit):
    task = Task(name="worker", replicas=workers, least=1, most=3, limit=limit)
    return JobSpec(tasks=(task,), checkpoint=Mode.SDK, grace=10.0, backoff_limit=0)


class LiveHands:
    commands: ClassVar = {}

    def __init__(self, platform, clock=None, folder=None, jobs=None):
        self.platform, self.clock = platform, clock or Clock()
        self.folder = folder or Path(mkdtemp())
        self.jobs = {} if jobs is None else jobs
        self.backend = LiveBackend(platform, self.folder, self.jobs, self.clock)

    @property
    def capabilities(self):
        return self.platform.capabilities

    def restarted(self):
        """The same world under a new process of Headway."""
        again = object.__new__(type(self))
        LiveHands.__init__(again, self.platform, self.clock, self.folder, self.jobs)
        return again

    def submit(self, name, *, workers=1, limit=None):
        spec = long_job(workers, limit)
        self.backend.submit(RunnableJob(id=name, at=0.0, spec=spec, commands=self.commands))
        self.backend.wait(0)

    def until(self, claim):
        deadline = Deadline()
        while not claim():
            assert not deadline.passed(), "it never came true"
            self.backend.wait(0.02)

    def record(self, name):
        return self.backend.controller.jobs[name]

    def phase(self, name):
        return self.record(name).phase

    def replicas(self):
        return [r for j in self.backend.controller.jobs.values() for r in j.replicas.values()]

    def settle(self):
        """Until nothing is under way."""
        self.until(lambda: not self.under_way())

    def under_way(self):
        jobs = self.backend.controller.jobs.values()
        replicas = self.replicas()
        return (
            any(j.phase.in_transit or j.phase == "starting" for j in jobs)
            or any(not r.running or r.transfer or r.phase.in_transit for r in replicas)
            or any((r.limit, r.weight) != r.in_effect for r in replicas)
        )

    def end(self, name):
        for r in list(self.record(name).replicas):
            self.finish(r)
        self.until(lambda: self.record(name).finished_at is not None)

    def leftovers(self):
        self.until(lambda: self.backend.controller.finished)
        return [*self.replicas(), *self.left_on_platform()]
