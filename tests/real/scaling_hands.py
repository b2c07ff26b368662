"""A distributed job of real processes, or containers, on two nodes, which a test scales and kills
step by step.
"""

import os
import signal
from contextlib import contextmanager, suppress
from itertools import product

from live_hands import LiveHands
from local import processes
from patience import Deadline

from headway.backend import procfs
from headway.backend.clock import Clock
from headway.backend.cpu_partition import Cut
from headway.backend.docker.client import Client
from headway.backend.docker.engine import Engine
from headway.backend.docker.platform import DockerPlatform
from headway.backend.local.enforcement.select import choose
from headway.backend.local.platform import LocalPlatform
from headway.core.model.decision import Place, Scale, Started
from headway.core.model.job import Elastic, JobSpec, Mode, Phase, Task, gang
from headway.core.model.units import ReplicaId
from headway.errors import Declined
from headway.spec.runnable import Command, RunnableJob
from making import node


class Hands(LiveHands):
    """Two workers, and a parameter server if it is wanted."""

    def __init__(
        self, folder, argv, *, server=True, elastic=Elastic.RESTART, grace=20.0, env=None, image=""
    ):  # fmt: skip
        tasks = (Task(name="worker", replicas=2, least=1, most=3, elastic=elastic),)
        if server:
            tasks = (Task(name="ps"), *tasks)
        where = "" if image else "/"
        command = Command(argv=tuple(argv), where=where, env=env or {}, image=image)
        made = RunnableJob(
            id="x",
            at=0.0,
            spec=JobSpec(tasks=tasks, checkpoint=Mode.SDK, grace=grace),
            commands={task.name: command for task in tasks},
        )
        clock, jobs = Clock(), {"x": made}
        super().__init__(self.connect(folder, jobs, clock), clock, folder, jobs)
        self.job = self.record("x")

    def connect(self, folder, jobs, clock):
        chosen = choose(f"elastic-{os.getpid()}-{folder.name}")
        return LocalPlatform(folder, [Cut(node("a")), Cut(node("b"))], jobs, chosen, clock)

    def drive(self, claim):
        """Until it is true; meanwhile a pending job is started."""

        def claimed():
            if self.job.phase is Phase.PENDING and self.job.arrived:
                where = tuple(
                    (name, "ab"[i % 2]) for i, name in enumerate(gang(self.job.to_core()))
                )
                assert isinstance(self.backend.act(Place(job="x", where=where)), Started)
            return claim()

        deadline = Deadline(120)
        while not claimed():
            assert not self.job.phase.ended, "it did not come true before the end of the job"
            assert not deadline.passed(), "it never came true"
            self.backend.wait(0.02)

    def grow(self):
        add = ((ReplicaId.of("x", "worker", 2), "b"),)
        assert isinstance(self.backend.act(Scale(job="x", task="worker", add=add)), Started)

    def shrink(self):
        remove = (ReplicaId.of("x", "worker", 1),)
        assert isinstance(self.backend.act(Scale(job="x", task="worker", remove=remove)), Started)

    def log(self, name="worker-0"):
        path = self.folder / "jobs" / "x" / name / "out.log"
        return path.read_text() if path.exists() else ""

    def training(self, name):
        """The process that trains, below the shell of a replica."""
        p = self.platform.processes.get(ReplicaId.named("x", name))
        found = procfs.marked(HEADWAY_REPLICA=name, HEADWAY_DIR=str(p.folder)) if p else ()
        return [pid for pid in found if pid != p.pid]

    def kill(self, name, number=signal.SIGKILL):
        self.drive(lambda: self.kill_now(name, number))

    def kill_now(self, name, number=signal.SIGKILL):
        """Whether there was a process; one that is stopping may just have exited."""
        found = self.training(name)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return bool(found)

    def left_on_platform(self):
        return processes(self.folder)

    def kill_while(self, change, phase, victim):
        """Scale the training job, and kill a replica in this phase of it."""
        gone = change == "shrink" and phase == "starting" and victim == "worker-1"
        self.drive(lambda: "step 5/" in self.log())
        getattr(self, change)()
        stopping = phase == "stopping"  # the victim may have exited
        self.drive(lambda: PHASES[phase](self) and (self.kill_now(victim) or gone or stopping))
        self.drive(lambda: self.job.phase.ended)
        assert (self.job.phase, self.job.reason) == (Phase.SUCCEEDED, "")


class ContainerHands(Hands):
    """The same as containers on two engines."""

    def __init__(self, engines, folder, argv, **more):
        self.engines = engines
        super().__init__(folder, argv, **more)

    def connect(self, folder, jobs, clock):
        nodes = [Engine(n, Client(e.url)) for n, e in zip("ab", self.engines, strict=True)]
        return DockerPlatform(folder, nodes, jobs, clock)

    def kill_now(self, name, number=signal.SIGKILL):
        c = self.platform.containers.current.get(ReplicaId.named("x", name))
        if c is None:
            return False
        with suppress(Declined):  # it has not started, or just stopped
            c.engine.client.post(f"/containers/{c.name}/kill", signal=number.name)
            return True
        return False

    def left_on_platform(self):
        return [c for e in self.engines for c in e.containers()]


PHASES = {
    "saving": lambda x: x.job.phase is Phase.MIGRATING,
    "stopping": lambda x: any(r.transfer and r.transfer.stopping for r in x.job.replicas.values()),
    "starting": lambda x: x.job.attempt > 1,  # the process of a replica is killed once there is one
}


def kills(victims, sampled):
    """A change of size, a phase of it, and the replica that is killed: some of all."""
    if os.environ.get("HEADWAY_KILLS") != "all":
        return sampled
    return list(product(("grow", "shrink"), PHASES, victims))


@contextmanager
def making(folder, kind=Hands):
    """A function that makes the hands; nothing is left behind, also if the test fails."""
    made = []

    def make(*given, **more):
        made.append(kind(folder, *given, **more))
        return made[0]

    yield make
    made[0].backend.cancel("the test is over", force=True)
    made[0].until(lambda: made[0].backend.controller.finished)
    made[0].platform.close()
    assert made[0].left_on_platform() == []
