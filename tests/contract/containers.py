"""A Docker backend of two engines under test, and the hands that a test needs."""

from time import monotonic

from headway.backend.clock import Clock
from headway.backend.docker import cpu_limits
from headway.backend.docker.client import Client
from headway.backend.docker.engine import Engine
from headway.backend.docker.platform import DockerBackend
from headway.backend.state import Work
from headway.core.model.job import JobSpec, Mode, Phase, Task
from headway.spec.runnable import Command, LiveJob

PATIENCE = 30.0
IMAGE = "headway-workloads:test"
TRAINS = """
import os, time, headway.sdk as sdk
run = sdk.attach()
step = int((run.latest.folder / "step").read_text()) if run.latest else 0
while not os.path.exists(os.environ["HEADWAY_DIR"] + "/enough"):
    step += 1
    time.sleep(0.01)
    run.report(step, loss=1 / step)
    if run.should_checkpoint():
        run.save(step, lambda folder: (folder / "step").write_text(str(step)))
"""


class DockerPlatform:
    must = frozenset({"place", "share", "move", "suspend"})

    def __init__(self, folder, engines, jobs=()):
        self.folder, self.urls = folder, [e.url for e in engines]
        self.engines = engines
        self.backend = self.look(jobs)

    def look(self, jobs):
        nodes = [Engine(n, Client(u)) for n, u in zip("ab", self.urls, strict=True)]
        return DockerBackend(self.folder, nodes, jobs, Clock())

    def submit(self, name, *, workers=1, limit=None):
        task = Task(name="worker", replicas=workers, least=1, most=3, limit=limit)
        spec = JobSpec(tasks=(task,), checkpoint=Mode.SDK, grace=10.0, backoff_limit=0)
        command = Command(argv=("python3", "-c", TRAINS), image=IMAGE)
        made = LiveJob(id=name, at=0.0, spec=spec, commands={"worker": command})
        self.backend.works[name] = Work(made, self.folder / "jobs" / name)
        self.backend.set_phase(self.backend.works[name], Phase.PENDING)

    def until(self, claim):
        end = monotonic() + PATIENCE
        while not claim():
            assert monotonic() < end, "it never came true"
            self.backend.wait(0.02)

    def settle(self):
        """Until who is in transit has arrived, and who has started has said something."""
        self.until(lambda: not self._in_transit() and self._all_spoke())

    def _in_transit(self):
        works = self.backend.works.values()
        shares = [m for m in self.backend.members.values() if m.wanted is not None]
        return shares or any(w.phase in (Phase.LEAVING, Phase.STARTING) for w in works)

    def _all_spoke(self):
        for m in self.backend.members.values():
            m.voice.listen()
        return all(m.voice.spoke for m in self.backend.members.values())

    def end(self, name):
        work = self.backend.works[name]
        for m in work.members.values():
            (m.folder / "enough").touch()
            if m.mirror is not None:
                m.mirror._bring("enough")
        self.until(lambda: work.finished_at is not None)

    def inspect(self, replica):
        m = self.backend.members[replica]
        return m.engine.client.get(f"/containers/{m.container}/json")

    def share(self, replica):
        return cpu_limits.share(self.inspect(replica)["HostConfig"], 2.0)

    def step(self, name):
        members = self.backend.works[name].members.values()
        for m in members:
            m.voice.listen()
        return max(m.voice.step for m in members)

    def containers(self):
        wanted = {"label": [f"headway.dev/run={self.folder.name}"]}
        clients = [Client(url) for url in dict.fromkeys(self.urls)]
        return [
            x["Names"] for c in clients for x in c.get("/containers/json", all=True, filters=wanted)
        ]

    def leftovers(self):
        self.until(lambda: not self.backend._closing)
        return [*self.backend.members, *self.containers()]

    def close(self):
        self.backend.cancel("the test is over", now=True)
        self.until(lambda: not self.backend.members and not self.backend._closing)
        self.backend.close()
