"""A Docker backend of two engines under test, and the hands that a test needs."""

from typing import ClassVar

from live_hands import LiveHands

from headway.backend.clock import Clock
from headway.backend.docker import cpu_limits
from headway.backend.docker.client import Client
from headway.backend.docker.engine import Engine
from headway.backend.docker.platform import DockerPlatform
from headway.spec.runnable import Command

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


class DockerHands(LiveHands):
    commands: ClassVar = {"worker": Command(argv=("python3", "-c", TRAINS), image=IMAGE)}

    def __init__(self, folder, engines):
        self.urls, self.engines = [e.url for e in engines], engines
        jobs, clock = {}, Clock()
        super().__init__(self.connect(folder, jobs, clock), clock, folder, jobs)

    def connect(self, folder, jobs, clock):
        nodes = [Engine(n, Client(u)) for n, u in zip("ab", self.urls, strict=True)]
        return DockerPlatform(folder, nodes, jobs, clock)

    def crash(self):
        """As if Headway had died; another takes over."""
        self.platform.close()
        platform = self.connect(self.folder, self.jobs, self.clock)
        LiveHands.__init__(self, platform, self.clock, self.folder, self.jobs)

    def settle(self):
        """Also until every replica has reported."""
        self.until(lambda: not self.under_way() and self.all_reported())

    def all_reported(self):
        watched = self.backend.monitor.replicas.values()
        for w in watched:
            w.reader.listen()
        return all(w.reader.spoke for w in watched)

    def container(self, replica):
        return self.platform.containers.current[replica]

    def finish(self, replica):
        c = self.container(replica)
        (c.folder / "enough").touch()
        if c.sync is not None:
            c.sync.upload_file("enough")

    def inspect(self, replica):
        c = self.container(replica)
        return c.engine.client.get(f"/containers/{c.name}/json")

    def share(self, replica):
        return cpu_limits.share(self.inspect(replica)["HostConfig"], 2.0)

    def step(self, name):
        watched = [w for w in self.backend.monitor.replicas.values() if w.id.job == name]
        for w in watched:
            w.reader.listen()
        return max(w.reader.step for w in watched)

    def left_on_platform(self):
        wanted = {"label": [f"headway.dev/run={self.folder.name}"]}
        clients = [Client(url) for url in dict.fromkeys(self.urls)]
        return [
            x["Names"] for c in clients for x in c.get("/containers/json", all=True, filters=wanted)
        ]

    def close(self):
        self.backend.cancel("the test is over", force=True)
        self.until(lambda: self.backend.controller.finished)
        self.backend.close()
