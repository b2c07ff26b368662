"""The chart on a real cluster: the operator runs as a pod, with the rights of the chart."""

import json
import subprocess
from pathlib import Path
from time import sleep

import image
import pytest
from operators import SLEEPS, task
from test_kubernetes import NUMPY

from headway.deploy import render
from headway.deploy.render import Values
from headway.spec.manifest import NAME

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "headway"
CHOSEN = {"image": image.OPERATOR, "policy": "spread", "resources": {"cpu": "20m"}}


class Release:
    """An installation of the chart in a namespace, as a user."""

    def __init__(self, helm, cluster, namespace, *words):
        self.helm, self.cluster, self.namespace, self.words = helm, cluster, namespace, words

    def __call__(self, act, *words):
        told = [self.helm, "--kubeconfig", self.cluster.kubeconfig, "-n", self.namespace]
        done = subprocess.run(
            [*told, *self.words, act, "headway", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr + self.logs()
        return done.stdout

    def install(self, *, wait=True, **values):
        words = ["--timeout", "90s", "--skip-crds", *(["--wait"] if wait else [])]
        words += [] if self.words else ["--create-namespace"]
        chosen = [f"{key}={json.dumps(value)}" for key, value in {**CHOSEN, **values}.items()]
        for each in chosen:
            words += ["--set-json", each]
        return self("install", str(CHART), *words)

    def logs(self):
        return self.cluster.run("logs", "-n", self.namespace, "deployment/headway").stdout

    def left(self):
        kinds = (
            "deployment,pod,service,job,role,rolebinding,serviceaccount,pdb,networkpolicy,secret"
        )
        found = self.cluster("get", kinds, "-n", self.namespace, "-o", "name").split()
        found += self.cluster("get", "clusterrole,clusterrolebinding,pc", "-o", "name").split()
        return [name for name in found if "headway" in name]


@pytest.fixture
def crd(cluster):
    cluster.apply(*render.objects("crd", Values()))
    cluster.until(lambda: cluster.run("get", "tj").returncode == 0)
    yield
    cluster("delete", "crd", NAME, "--timeout=60s")


@pytest.mark.usefixtures("crd")
def test_the_chart_installs_an_operator_that_runs_jobs_and_leaves_nothing(cluster, helm):
    release = Release(helm, cluster, "headway")
    assert "all namespaces" in release.install()
    try:
        text = NUMPY.read_text().replace("headway-workloads", image.NAME)
        cluster("apply", "-f", "-", text=text)
        cluster("wait", "--for=condition=Complete", "tj/distributed", "--timeout=120s")
        metrics = "".join(read(cluster, pod, "metrics") for pod in pods(cluster, "headway"))
        assert 'headway_decisions_total{kind="Place",outcome="Started"} 1' in metrics
        assert "headway_leader 1" in metrics
        assert "headway_leader 0" in metrics, "the other one stands by"
        assert {read(cluster, pod, "readyz") for pod in pods(cluster, "headway")} == {"ok\n"}
        job = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob"}
        spec = {"tasks": [task(command=SLEEPS)], "checkpoint": {"graceSeconds": 1}}
        job |= {"metadata": {"name": "runs"}, "spec": spec}
        cluster.apply(job)
        cluster("wait", "--for=condition=Running", "tj/runs", "--timeout=60s")
    finally:
        release("uninstall", "--wait", "--timeout", "120s")
    cluster.until(lambda: release.left() == [], patience=20)
    cluster("delete", "namespace", "headway", "--wait=false")
    cluster("delete", "tj", "--all", "--timeout=120s")  # its pods wait for no operator
    cluster.until(lambda: not cluster.get("pods")["items"])


def pods(cluster, namespace):
    """Those of the operator."""
    ours = "app.kubernetes.io/component=operator"
    found = cluster.get("pods", namespace=namespace, labels=ours)["items"]
    return [f"{namespace}/pods/{p['metadata']['name']}" for p in found]


def read(cluster, pod, path):
    return cluster("get", "--raw", f"/api/v1/namespaces/{pod}:8080/proxy/{path}")


@pytest.mark.usefixtures("crd")
def test_the_administrator_of_one_namespace_installs_an_operator_for_it(cluster, helm):
    """What belongs to the whole cluster, an administrator of the cluster has installed."""
    cluster.apply(*render.objects("cluster", Values()))
    cluster("create", "namespace", "team")
    cluster("create", "rolebinding", "ann", "--clusterrole=admin", "--user=ann", "-n", "team")
    nodes = ["clusterrolebinding", "team-nodes"]
    cluster("create", *nodes, "--clusterrole=headway-nodes", "--serviceaccount=team:headway")
    may_bind = ["auth", "can-i", "bind", "clusterroles/headway-operator", "--as=ann", "-n", "team"]
    cluster.until(lambda: cluster.run(*may_bind).stdout.strip() == "yes")
    release = Release(helm, cluster, "team", "--kube-as-user", "ann")
    try:
        release.install(watchNamespace="team", replicas=1)
        made = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob"}
        spec = {"tasks": [task(replicas=2, cpu="50m", command=["python3", "-c", "print(1)"])]}
        for space in ("team", "default"):
            cluster.apply({**made, "metadata": {"name": "x", "namespace": space}, "spec": spec})
        cluster("wait", "--for=condition=Complete", "tj/x", "-n", "team", "--timeout=90s")
        sleep(1)
        assert "status" not in cluster.get("trainingjobs", "x"), "another namespace is not managed"
    finally:
        release("uninstall", "--wait", "--timeout", "120s")
        cluster("delete", *nodes)
        cluster("delete", "namespace", "team", "--timeout=60s")
        for each in render.objects("cluster", Values()):
            cluster("delete", each["kind"], each["metadata"]["name"])
