"""The conformance suite on a real cluster. Undeclared capabilities are skipped by name."""

from dataclasses import replace

import image
import pytest
from contract_pods import SharesOfPods, pod_share
from live_hands import LiveHands

from contract import BackendContract, Seen
from headway.backend.clock import Clock
from headway.backend.kubernetes.client.api import connect
from headway.backend.kubernetes.platform.platform import CONFIG, KubernetesPlatform
from headway.backend.live import LiveBackend
from headway.core.model.decision import Move, Place, Scale
from headway.core.model.units import ReplicaId
from headway.deploy import render
from headway.deploy.render import Values
from headway.spec.manifest import NAME, TrainingJobSpec
from headway.spec.runnable import RunnableJob

WAITS = """
import pathlib, signal, sys, time
kept = pathlib.Path("/headway/step")
step = int(kept.read_text()) if kept.exists() else 0
def save(*_):
    kept.write_text(str(step))
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
while not pathlib.Path("/tmp/done").exists():
    step += 1
    time.sleep(0.05)
"""
DONE = "import pathlib; pathlib.Path('/tmp/done').touch()"
KILLED = 137


@pytest.fixture(scope="module")
def crd(cluster):
    kinds = ("CustomResourceDefinition", "PriorityClass")
    made = [o for o in render.stream(Values()) if o["kind"] in kinds]
    cluster.apply(*made)
    cluster.until(lambda: cluster.run("get", "tj").returncode == 0)
    yield
    cluster("delete", "crd", NAME)
    cluster("delete", "priorityclass", "headway-gang")


class Renamed:
    """A backend whose first two nodes are called as in the contract: a and b."""

    def __init__(self, backend, names):
        self.backend, self.names = backend, dict(zip("ab", names, strict=False))
        self.back = {name: word for word, name in self.names.items()}

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def act(self, decision):
        if isinstance(decision, Place):
            where = tuple((r, self.names.get(n, n)) for r, n in decision.where)
            decision = replace(decision, where=where)
        if isinstance(decision, Move):
            decision = replace(decision, to=self.names.get(decision.to, decision.to))
        if isinstance(decision, Scale):
            add = tuple((r, self.names.get(n, n)) for r, n in decision.add)
            decision = replace(decision, add=add)
        return self.backend.act(decision)

    def observe(self):
        seen = self.backend.observe()
        nodes = tuple(replace(n, id=self.back.get(n.id, n.id)) for n in seen.nodes)
        replicas = tuple(replace(r, node=self.back.get(r.node, r.node)) for r in seen.replicas)
        return replace(seen, nodes=nodes, replicas=replicas)


class RealHands(LiveHands):
    def __init__(self, cluster, folder, run, jobs=None):
        self.cluster, self.folder, self.run, self.clock = cluster, folder, run, Clock()
        self.jobs, self.kept = {} if jobs is None else jobs, folder / "kept"
        self.platform = KubernetesPlatform(
            connect(cluster.kubeconfig),
            self.jobs,
            self.clock,
            namespace="default",
            run=run,
            image=image.NAME,
        )
        made = LiveBackend(self.platform, folder, self.jobs, self.clock, config=CONFIG)
        self.backend = Renamed(made, sorted(made.controller.nodes))

    def restarted(self):
        return RealHands(self.cluster, self.folder, self.run, dict(self.jobs))

    def submit(self, name, *, workers=1, limit=None):
        task = {"name": "worker", "replicas": workers, "minReplicas": 1, "maxReplicas": 3}
        task |= {"image": image.NAME, "command": ["python3", "-c", WAITS]}
        task["resources"] = {"requests": {"cpu": "50m"}}
        if limit is not None:
            task["resources"]["limits"] = {"cpu": limit}
        (self.kept / name).mkdir(parents=True)
        (self.kept / name).chmod(0o777)  # for the user of the pods
        # The nodes are on this machine: a folder of the host is a shared volume.
        kept = {"hostPath": {"path": str(self.kept / name), "type": "Directory"}}
        mount = {"name": "kept", "mountPath": "/headway"}
        inside = {"containers": [{"name": "training", "volumeMounts": [mount]}]}
        inside |= {"volumes": [{"name": "kept", **kept}]}
        task["podTemplate"] = {"spec": inside}
        checkpoint = {"mode": "sigterm", "graceSeconds": 5}
        spec = {"tasks": [task], "backoffLimit": 0, "checkpoint": checkpoint}
        made = TrainingJobSpec.model_validate(spec)
        core = made.to_core(kind=name)
        self.backend.submit(RunnableJob(id=name, at=0.0, spec=core, commands={}, manifest=made))
        self.until(lambda: self.record(name).arrived)

    def step(self, name):
        """The last that was saved."""
        found = self.kept / name / "step"
        return int(found.read_text()) if found.exists() else 0

    def finish(self, replica):
        attempt = self.record(replica.job).replicas[replica].attempt
        pod = f"{replica.job}-{replica.name}-{attempt}"
        done = self.cluster.run("exec", pod, "--", "python3", "-c", DONE)
        # The container may end, and its processes with it, before this command returns.
        assert done.returncode in (0, KILLED), done.stderr

    def share(self, replica):
        """The weight is the request in comparison to what was declared."""
        name = ReplicaId(replica)
        attempt = self.record(name.job).replicas[name].attempt
        pod = self.cluster.get("pods", f"{name.job}-{name.name}-{attempt}")
        return pod_share(pod, declared=0.05, most=0.3)

    def left_on_platform(self):
        """Ended pods stay until their job is deleted, so that their logs can be read."""
        ours = self.cluster.get("pods", labels=f"headway.dev/run={self.run}")["items"]
        return [p for p in ours if p["status"]["phase"] not in ("Succeeded", "Failed")]


class TestKubernetes(SharesOfPods, BackendContract):
    @pytest.fixture
    def platform(self, cluster, crd, tmp_path):  # noqa: ARG002
        made = RealHands(cluster, tmp_path, run=tmp_path.name[-40:].strip("-_."))
        yield made
        made.platform.close()
        cluster.until(lambda: not cluster.get("trainingjobs")["items"])
        cluster.until(lambda: not cluster.get("pods")["items"])

    def test_a_restart_finds_everything(self, platform, seen):
        platform.submit("x")
        seen.start("x", "a")
        again = platform.restarted()
        assert [r.node for r in Seen(again).look().running] == ["a"]
        again.platform.cluster.close()
