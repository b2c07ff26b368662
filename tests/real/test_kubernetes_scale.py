"""Many nodes, pods and gangs, as objects of a real API server without kubelets.

`HEADWAY_SCALE=1` is 1,000 nodes, 20,000 pods of others with 50 changes a second, and 1,000 gangs of
five; `HEADWAY_SCALE=0.1` a tenth of each. The same pods are bound by kube-scheduler alone, too.
"""

import json
import os
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median
from threading import Event, Thread
from time import monotonic, sleep
from urllib.request import urlopen

import pytest
from operators import Operator, task

from headway.backend.kubernetes.client.api import connect
from headway.errors import BackendError

SCALE = float(os.environ.get("HEADWAY_SCALE", "0"))
ROUNDS = int(os.environ.get("HEADWAY_SCALE_ROUNDS", "3"))
NODES, FOREIGN, GANGS = (round(SCALE * count) for count in (1000, 20_000, 1000))
CHANGES, SIZE, MEMBERS, SPACES = 50 * SCALE, 8 << 10, 5, 10
LABEL = "headway-test/scale"
AT_ONCE = 12
MEMORY, DECISION, TIMES = 400 << 20, 1.0, 3.0


class World:
    """Objects of this test. The controller manager would take nodes without kubelets for lost."""

    def __init__(self, cluster):
        self.cluster, self.api = cluster, connect(cluster.kubeconfig)
        self.spaces = [f"scale-{i}" for i in range(SPACES)]
        self.stop = Event()

    def each(self, call, items):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(call, items):
                pass  # 20,000 answers would take a gigabyte

    def create(self):
        for space in self.spaces:
            self.cluster("create", "namespace", space)
        for space in self.spaces:
            self.cluster.until(
                lambda s=space: self.cluster.run("get", "sa", "default", "-n", s).returncode == 0
            )
        self.each(lambda i: self.api.create("/api/v1/nodes", node(i)), range(NODES))
        self.each(lambda i: self.api.create(self.pods(i), foreign(i)), range(FOREIGN))

    def pods(self, i, name=""):
        path = f"/api/v1/namespaces/{self.spaces[i % SPACES]}/pods"
        return f"{path}/{name}" if name else path

    def change(self):
        """Until stopped: other controllers change their pods."""
        dice, began, count = Random(0), monotonic(), 0
        while not self.stop.is_set():
            i = dice.randrange(FOREIGN)
            body = {"metadata": {"annotations": {"changed": str(count)}}}
            self.api.patch(self.pods(i, f"foreign-{i}"), body)
            count += 1
            self.stop.wait(max(0.0, began + count / CHANGES - monotonic()))

    def bound(self, labels):
        """Until all pods of the gangs are bound; pods that are get what a kubelet would say."""
        running = set()
        while True:
            pending = "status.phase=Pending"
            pods = [p for s in self.spaces for p in self.listed(s, labels, pending)]
            new = [
                p for p in pods if p["spec"].get("nodeName") and p["metadata"]["uid"] not in running
            ]
            if len(running) + len(new) >= GANGS * MEMBERS:
                return
            self.each(self.run, new)
            running |= {p["metadata"]["uid"] for p in new}
            sleep(0.5)

    def listed(self, space, labels, fields=""):
        path = f"/api/v1/namespaces/{space}/pods"
        return self.api.list(path, labelSelector=labels, fieldSelector=fields)[0]

    def run(self, pod):
        about = pod["metadata"]
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}/status"
        self.api.patch(path, {"status": {"phase": "Running"}})

    def clear(self, labels):
        """Pods that no kubelet ends, and their finalizers."""

        def remove(pod):
            about = pod["metadata"]
            path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
            try:
                self.api.patch(path, {"metadata": {"finalizers": None}})
                self.api.delete(path, grace=0)
            except BackendError:
                pass  # it is gone

        while there := [p for s in self.spaces for p in self.listed(s, labels)]:
            self.each(remove, there)


def node(i):
    there = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    ready = {"type": "Ready", "status": "True", "reason": "Test", "lastHeartbeatTime": now}
    about = {"name": f"scale-{i}", "labels": {LABEL: "true"}}
    status = {"capacity": there, "allocatable": there, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": about, "status": status}


def foreign(i):
    """As large as pods of others are: most of it is environment and annotations."""
    env = [{"name": f"VARIABLE_{j}", "value": "x" * 60} for j in range(SIZE // 200)]
    inside = {"name": "main", "image": "x:1", "env": env}
    inside["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    about = {"name": f"foreign-{i}", "annotations": {"notes": "x" * (SIZE // 2)}}
    spec = {"containers": [inside], "nodeName": f"scale-{i % NODES}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def alone(world):
    """Seconds that kube-scheduler needs for the same pods without Headway."""

    def create(i):
        inside = {"name": "main", "image": "x:1", "resources": {"requests": {"cpu": "200m"}}}
        about = {"name": f"plain-{i}", "labels": {LABEL: "plain"}}
        spec = {"containers": [inside], "nodeSelector": {LABEL: "true"}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}
        world.api.create(world.pods(i), pod)

    began = monotonic()
    world.each(create, range(GANGS * MEMBERS))
    world.bound(f"{LABEL}=plain")
    took = monotonic() - began
    world.clear(f"{LABEL}=plain")
    return took


def with_headway(world, operator, port):
    """Seconds until all gangs are bound, and what the operator says of itself."""
    jobs = "/apis/headway.dev/v1alpha1/namespaces/{}/trainingjobs"
    made = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob"}
    inside = task(replicas=MEMBERS, nodeSelector={LABEL: "true"})

    def submit(i):
        job = {**made, "metadata": {"name": f"gang-{i}"}, "spec": {"tasks": [inside]}}
        world.api.create(jobs.format(world.spaces[i % SPACES]), job)

    operator.start("spread", port=port)
    world.cluster.until(lambda: " leads" in operator.log())
    world.cluster.until(lambda: "headway_leader 1" in metrics(port))
    began = monotonic()
    world.each(submit, range(GANGS))
    world.bound("headway.dev/job")
    took, told = monotonic() - began, metrics(port)
    memory = int(re.search(r"VmHWM:\s+(\d+)", status(operator.process.pid))[1]) << 10
    operator.end()
    for space in world.spaces:
        world.api.delete(jobs.format(space))
    world.clear("headway.dev/job")
    return took, memory, slow_cycles(told)


def metrics(port):
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return answer.read().decode()


def status(pid):
    return Path(f"/proc/{pid}/status").read_text()


def slow_cycles(told):
    """Part of the decision cycles that took longer than a second."""
    count = float(re.search(r"^headway_cycle_duration_seconds_count (\S+)", told, re.MULTILINE)[1])
    fast = re.search(r'^headway_cycle_duration_seconds_bucket{le="1"} (\S+)', told, re.MULTILINE)[1]
    return 1 - float(fast) / count


@contextmanager
def paused(cluster):
    pids = cluster.processes("kube-controller-manager")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


if SCALE:

    @pytest.mark.timeout(7200)
    def test_gangs_on_a_large_cluster(doomed_cluster, installed_operator, tmp_path):
        world = World(doomed_cluster.kube)
        operator = Operator(world.cluster, tmp_path, installed_operator)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        rounds = []
        world.create()
        with paused(doomed_cluster):
            thread = Thread(target=world.change)
            thread.start()
            try:
                rounds += [
                    (alone(world), *with_headway(world, operator, port)) for _ in range(ROUNDS)
                ]
            finally:
                world.stop.set()
                thread.join()
                operator.end()
                world.each(lambda i: world.api.delete(f"/api/v1/nodes/scale-{i}"), range(NODES))
        plain, gangs, memory, slow = zip(*rounds, strict=True)
        figures = {
            "nodes": NODES,
            "foreign pods": FOREIGN,
            "gangs": GANGS,
            "seconds, kube-scheduler alone": round(median(plain), 1),
            "seconds, gangs": round(median(gangs), 1),
            "ratio": round(median(g / p for g, p in zip(gangs, plain, strict=True)), 2),
            "operator memory, MiB": round(max(memory) / 2**20),
            "cycles over 1 s": round(max(slow), 4),
        }
        if path := os.environ.get("HEADWAY_FIGURES"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(figures) + "\n")
        assert max(memory) < MEMORY, figures
        assert max(slow) <= 0.01, figures
        assert figures["ratio"] <= TIMES, figures
