"""A distributed job of real processes on two nodes, which a test scales and kills step by step."""

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
from headway.backend.local.enforcement.select import choose
from headway.backend.local.platform import LocalPlatform
from headway.core.model.decision import Place, Scale, Started
from headway.core.model.job import Elastic, JobSpec, Mode, Phase, Task, gang
from headway.core.model.units import ReplicaId
from headway.spec.runnable import Command, RunnableJob
from making import node


class Hands(LiveHands):
    """Two workers, and a parameter server if it is wanted."""

    def __init__(
        self, folder, argv, *, server=True, elastic=Elastic.RESTART, grace=20.0, env=None
    ):  # fmt: skip
        tasks = (Task(name="worker", replicas=2, least=1, most=3, elastic=elastic),)
        if server:
            tasks = (Task(name="ps"), *tasks)
        command = Command(argv=tuple(argv), where="/", env=env or {})
        made = RunnableJob(
            id="x",
            at=0.0,
            spec=JobSpec(tasks=tasks, checkpoint=Mode.SDK, grace=grace),
            commands={task.name: command for task in tasks},
        )
        clock, jobs = Clock(), {"x": made}
        chosen = choose(f"elastic-{os.getpid()}-{folder.name}")
        cuts = [Cut(node("a")), Cut(node("b"))]
        super().__init__(LocalPlatform(folder, cuts, jobs, chosen, clock), clock, folder, jobs)
        self.job = self.record("x")

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

    def kill_while(self, change, phase, victim):
        """Scale the training job, and kill a replica in this phase of it."""
        gone = change == "shrink" and phase == "starting" and victim == "worker-1"
        self.drive(lambda: "step 5/" in self.log())
        getattr(self, change)()
        stopping = phase == "stopping"  # the victim may have exited
        self.drive(lambda: PHASES[phase](self) and (self.kill_now(victim) or gone or stopping))
        self.drive(lambda: self.job.phase.ended)
        assert (self.job.phase, self.job.reason) == (Phase.SUCCEEDED, "")


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
def making(folder):
    """A function that makes the hands; nothing is left behind, also if the test fails."""
    made = []

    def make(*given, **more):
        made.append(Hands(folder, *given, **more))
        return made[0]

    yield make
    made[0].backend.cancel("the test is over", force=True)
    made[0].until(lambda: made[0].backend.controller.finished)
    made[0].platform.close()
    assert processes(folder) == []
