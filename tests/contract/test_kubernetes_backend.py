"""Kubernetes on an API server in memory; its kubelets start every pod that is bound."""

import pytest
from contract_pods import SharesOfPods, pod_share
from live_hands import LiveHands

from contract import BackendContract, Seen
from fake_cluster import FakeCluster, task
from headway.backend.clock import Clock
from headway.backend.kubernetes.platform.platform import CONFIG, KubernetesPlatform
from headway.backend.live import LiveBackend
from headway.core.model.units import ReplicaId
from headway.spec.manifest import TrainingJobSpec
from headway.spec.runnable import RunnableJob

CHECKPOINT = {"mode": "sigterm", "graceSeconds": 1}


class KubernetesHands(LiveHands):
    def __init__(self, fake, folder, jobs=None):
        self.fake, self.folder, self.clock = fake, folder, Clock()
        self.jobs = {} if jobs is None else jobs
        self.platform = KubernetesPlatform(
            fake.api(), self.jobs, self.clock, namespace="default", run="r1"
        )
        self.backend = LiveBackend(self.platform, folder, self.jobs, self.clock, config=CONFIG)

    def restarted(self):
        return KubernetesHands(self.fake, self.folder, dict(self.jobs))

    def submit(self, name, *, workers=1, limit=None):
        made = task("worker", workers, cpu="100m", minReplicas=1, maxReplicas=3)
        if limit is not None:
            made["resources"]["limits"] = {"cpu": limit}
        made["mounts"] = [{"path": "/headway", "claim": "checkpoints"}]
        spec = {"tasks": [made], "backoffLimit": 0, "checkpoint": CHECKPOINT}
        made = TrainingJobSpec.model_validate(spec)
        core = made.to_core(kind=name)
        self.backend.submit(RunnableJob(id=name, at=0.0, spec=core, commands={}, manifest=made))
        self.until(lambda: self.record(name).arrived)

    def under_way(self):
        self.fake.start_bound()
        return super().under_way()

    def step(self, name):
        """Nothing trains here: what counts is that it was started again."""
        return self.record(name).attempt

    def finish(self, replica):
        attempt = self.record(replica.job).replicas[replica].attempt
        self.fake.pod(f"{replica.job}-{replica.name}-{attempt}", "Succeeded")

    def share(self, replica):
        """The weight is the request in comparison to what was declared."""
        name = ReplicaId(replica)
        attempt = self.record(name.job).replicas[name].attempt
        pod = self.fake.get("pods", f"{name.job}-{name.name}-{attempt}")
        return pod_share(pod, declared=0.1, most=1.0)

    def left_on_platform(self):
        """Ended pods stay until their job is deleted, so that their logs can be read."""
        over = ("Succeeded", "Failed")
        return [p for p in self.fake.all("pods") if p["status"]["phase"] not in over]


class TestKubernetes(SharesOfPods, BackendContract):
    @pytest.fixture
    def platform(self, tmp_path):
        fake = FakeCluster()
        made = KubernetesHands(fake, tmp_path)
        yield made
        made.platform.close()
        fake.close()

    def test_a_restart_finds_everything(self, platform, seen):
        platform.submit("x")
        seen.start("x", "a")
        again = platform.restarted()
        assert [r.node for r in Seen(again).look().running] == ["a"]
        again.platform.cluster.close()
        again.platform.events.close()
