"""Shares on a real cluster: what is decided is read from the cgroups of the node."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import image
import operators
import pytest
from operators import nodes, task
from patience import PATIENCE

from headway.backend.kubernetes.client.api import connect
from headway.backend.kubernetes.client.state_object import StateObject
from reference_world import served

BUSY = ["python3", "-c", "import os\nos.sched_setaffinity(0, {0})\nwhile True: pass"]
"""All on one CPU: a weight counts among the processes of a CPU."""
SHIFTS = int(os.environ.get("HEADWAY_SHIFTS", "4"))
"""Changes of shares beside a pending pod; each takes ten seconds."""
AWAY = float(os.environ.get("HEADWAY_AWAY", "3"))
"""Seconds without an operator."""
WITHIN = 5.0
"""Seconds from the request of a resize to its effect in the cgroup."""
SCRIPT = Path(__file__).with_name("scripted_operator.py")


class Operator(operators.Operator):
    """It decides what a test writes to a file."""

    @property
    def file(self):
        return self.folder / "shares.json"

    def decide(self, **shares):
        """Limit and weight of single-replica jobs in the namespace default, by name."""
        found = {f"default/{name}/worker-0": share for name, share in shares.items()}
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.rename(self.file)

    def start(self, *more, policy="scripted"):
        """Returns when it leads."""
        self.decide()
        self.earlier = self.run_directory
        words = [sys.executable, str(SCRIPT), str(self.file), "operator", "--home", operators.HOME]
        words += ["--policy", policy, "--data", str(self.folder), *more]
        words += ["--kubeconfig", str(self.folder / "kubeconfig")]
        with (self.folder / "operator.log").open("a+b") as log:
            env = {**os.environ, "HEADWAY_IMAGE": image.NAME}
            self.process = subprocess.Popen(words, stderr=log, env=env)
            before = log.tell()
        self.cluster.until(lambda: " leads" in self.log()[before:])
        return self

    @property
    def run_directory(self):
        """Of the last leader. A new one makes its own shortly after it leads."""
        return (self.folder / "runs" / "latest").resolve()

    def first_line(self):
        """Of the journal of the present leader, which has the memory of the policy."""
        if self.run_directory == self.earlier:
            return None
        there = self.run_directory / "journal.jsonl"
        lines = there.read_text().splitlines() if there.exists() else []
        return json.loads(lines[0]) if lines and lines[0].endswith("}") else None


@pytest.fixture(scope="module")
def operator(cluster, installed_operator, tmp_path_factory):
    made = Operator(cluster, tmp_path_factory.mktemp("operator"), installed_operator).start()
    yield made
    assert made.end() == 0, made.log()


class Pods:
    """Single pods of training jobs on one node, and their cgroups."""

    def __init__(self, cluster, jobs, node):
        self.cluster, self.jobs, self.node = cluster, jobs, node
        self.uids = {}

    def start(self, *names, cpu="100m", command=BUSY, **more):
        on = {"kubernetes.io/hostname": self.node}
        for name in names:
            self.jobs.submit(name, task(cpu=cpu, command=command, nodeSelector=on, **more))
        for name in names:
            self.cluster.until(lambda name=name: self.jobs.phase(name) == "Running")
            self.uids[name] = self.pod(name)["metadata"]["uid"]

    def pod(self, name):
        return self.cluster.get("pods", f"{name}-worker-0-1")

    def asks(self, name):
        """CPU request and limit."""
        amounts = self.pod(name)["spec"]["containers"][0]["resources"]
        return amounts["requests"]["cpu"], (amounts.get("limits") or {}).get("cpu")

    def cgroup(self, name, kind="cpu"):
        """Of the pod: its weight counts among other pods."""
        (found,) = Path(f"/sys/fs/cgroup/{kind}").glob(f"**/kubepods/**/pod{self.uids[name]}")
        return found

    def enforced(self, name):
        """Weight and quota of the pod, and quota of its training."""
        there = self.cgroup(name)
        quotas = [int((c / "cpu.cfs_quota_us").read_text()) for c in there.iterdir() if c.is_dir()]
        pod = int((there / "cpu.cfs_quota_us").read_text())
        return int((there / "cpu.shares").read_text()), pod, max(quotas)

    def used(self, name):
        return int((self.cgroup(name, "cpuacct") / "cpuacct.usage").read_text()) / 1e9

    def restarts(self, name):
        return self.pod(name)["status"]["containerStatuses"][0]["restartCount"]

    def arrives(self, name, asked, enforced):
        """Wait for the request, and from then for its effect; return how long the effect took."""
        self.cluster.until(lambda: self.asks(name) == asked)
        began = monotonic()
        self.cluster.until(lambda: self.enforced(name) == enforced)
        return monotonic() - began


@pytest.fixture
def pods(cluster, operator, own_cluster):
    if own_cluster is None:
        pytest.skip("tool not installed: the cgroups of another cluster's nodes are not here")
    jobs = operators.Jobs(cluster, operator)
    made = Pods(cluster, jobs, nodes(cluster)[0])
    yield made
    operator.decide()
    cluster.clear("trainingjobs")
    cluster.clear("pods", gracePeriodSeconds=0)


def test_decided_shares_are_in_the_cgroups_and_divide_the_cpu(pods, operator):
    pods.start("x", "y")
    took = []
    operator.decide(x=(None, 3.0), y=(None, 1.0))
    took += [pods.arrives("y", ("50m", None), (51, -1, -1))]
    took += [pods.arrives("x", ("150m", None), (153, -1, -1))]
    before = {name: pods.used(name) for name in "xy"}
    sleep(6)  # how the CPU is divided can only be seen over time
    x, y = (pods.used(name) - before[name] for name in "xy")
    assert x / y == pytest.approx(3.0, rel=0.15)
    operator.decide(x=(0.16, 3.0), y=(0.06, 1.0))
    took += [pods.arrives("x", ("150m", "160m"), (153, 16000, 16000))]
    took += [pods.arrives("y", ("50m", "60m"), (51, 6000, 6000))]
    operator.decide(x=(None, 1.0), y=(0.2, 1.0))
    took += [pods.arrives("x", ("100m", "300m"), (102, 30000, 30000))]
    took += [pods.arrives("y", ("100m", "200m"), (102, 20000, 20000))]
    assert max(took) < WITHIN
    assert (pods.restarts("x"), pods.restarts("y")) == (0, 0)


def test_a_pod_that_does_not_fit_does_not_fit_during_many_changes_of_shares(
    pods, operator, cluster
):
    """100m are free. What one pod gives goes to the other; when one ends, its own part is free."""
    pods.start("x", "y", command=operators.SLEEPS)
    inside = {"name": "main", "image": image.NAME, "command": operators.SLEEPS}
    inside["resources"] = {"requests": {"cpu": "150m"}}
    spec = {"containers": [inside], "nodeSelector": {"kubernetes.io/hostname": pods.node}}
    about = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}}
    cluster.apply({**about, "spec": {**spec, "terminationGracePeriodSeconds": 1}})
    for i in range(SHIFTS):
        operator.decide(x=(None, 9.0 if i % 2 else 1.0), y=(None, 1.0))
        cluster.until(lambda i=i: pods.asks("x")[0] == ("180m" if i % 2 else "100m"))
    cluster.until(lambda: pods.asks("y")[0] == "20m")
    assert "nodeName" not in cluster.get("pods", "other")["spec"]
    cluster("delete", "pod", "other", "--wait=true")
    cluster("delete", "tj", "x", "--wait=true")
    cluster.until(lambda: pods.asks("y")[0] == "100m")


def test_shares_stay_while_no_operator_runs(pods, operator, cluster):
    pods.start("x", "y", command=operators.SLEEPS)
    operator.decide(x=(None, 3.0), y=(None, 1.0))
    cluster.until(lambda: (pods.asks("x")[0], pods.asks("y")[0]) == ("150m", "50m"))
    assert operator.end() == 0, operator.log()
    try:
        sleep(AWAY)
        assert (pods.asks("x")[0], pods.asks("y")[0]) == ("150m", "50m")
    finally:
        operator.start()


@contextmanager
def rule(cluster, kind, spec):
    about = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "rule"}, "spec": spec}
    cluster.apply(about)
    try:
        yield
    finally:
        cluster("delete", kind.lower(), "rule")


def test_what_a_rule_of_the_namespace_refuses_is_an_outcome_and_is_not_repeated(
    pods, operator, cluster
):
    pods.start("x", "y", command=operators.SLEEPS)
    most = [{"type": "Container", "max": {"cpu": "120m"}}]
    with rule(cluster, "LimitRange", {"limits": most}):
        operator.decide(x=(None, 3.0), y=(None, 1.0))
        told = cluster.until(lambda: pods.jobs.told("x", "NotResized"))
        assert "120m" in told[0]
        sleep(3)  # in which the policy decides the same fifteen times
        told = pods.jobs._events("x")
        assert [e["count"] for e in told if e["reason"] == "NotResized"] == [1]
        cluster.until(lambda: (pods.asks("x")[0], pods.asks("y")[0]) == ("100m", "100m"))
    assert pods.pod("x")["metadata"]["generation"] == 1
    operator.decide()


def test_a_quota_that_allows_what_is_declared_allows_every_change_of_shares(
    pods, operator, cluster
):
    """Raising first would exceed it for a moment: after the first refusal, it lowers first."""
    pods.start("x", "y", command=operators.SLEEPS)
    with rule(cluster, "ResourceQuota", {"hard": {"requests.cpu": "200m"}}):
        cluster.until(lambda: cluster.counted("rule") == "200m")
        operator.decide(x=(None, 3.0), y=(None, 1.0))
        told = cluster.until(lambda: pods.jobs.told("x", "NotResized"))
        assert "exceeded quota" in told[0]
        cluster.until(lambda: (pods.asks("x")[0], pods.asks("y")[0]) == ("150m", "50m"))


def test_clean_up_restores_what_was_declared(pods, operator, cluster):
    pods.start("x", "y", command=operators.SLEEPS)
    operator.decide(x=(0.2, 3.0), y=(None, 1.0))
    cluster.until(lambda: (pods.asks("x")[0], pods.asks("y")[0]) == ("150m", "50m"))
    words = [sys.executable, "-m", "headway", "kubernetes", "cleanup"]
    words += ["--kubeconfig", str(operator.folder / "kubeconfig")]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "restored the requests and limits of 2 pods" in said
    assert (pods.asks("x"), pods.asks("y")) == (("100m", "300m"), ("100m", None))
    cluster.until(lambda: pods.enforced("y")[0] == 102)
    sleep(2)  # the operator still runs, and leaves them alone
    assert (pods.asks("x")[0], pods.asks("y")[0]) == ("100m", "100m")


def test_declared_values_return_when_the_operator_only_observes(pods, operator, cluster):
    pods.start("x", "y", command=operators.SLEEPS)
    operator.decide(x=(0.2, 3.0), y=(None, 1.0))
    cluster.until(lambda: (pods.asks("x")[0], pods.asks("y")[0]) == ("150m", "50m"))
    operator.end()
    operator.start("--observe-only")
    operator.decide(x=(0.2, 3.0), y=(None, 1.0))
    cluster.until(lambda: (pods.asks("x"), pods.asks("y")) == (("100m", "300m"), ("100m", None)))
    operator.end()
    operator.start()


def test_the_memory_of_the_policy_survives_a_leader_that_is_killed(pods, operator, cluster):
    operator.end()
    operator.start(policy="headway:interval=1")
    pods.start("x", "y", command=operators.SLEEPS)
    api = connect(str(operator.folder / "kubeconfig"))

    def written():
        return json.loads(StateObject(api, operators.HOME).load() or b"{}")

    cluster.until(lambda: len(served(written())) == 2)
    operator.end(signal.SIGKILL)
    cluster("delete", "lease", "headway", "-n", operators.HOME)  # it would last for 15 s
    before = written()
    operator.start(policy="headway:interval=1")
    first = cluster.until(operator.first_line)
    elapsed = first["at_s"] - before["state"]["seen"]["at"]
    old, new = served(before), served(first["memory"])
    assert 0 <= elapsed < PATIENCE
    assert old.keys() == new.keys()
    assert all(0 <= new[name] - old[name] <= 0.3 * elapsed + 1e-6 for name in old), "of the node"
    operator.end()
    operator.start()
