"""The operator as a process of this machine, and training jobs on a real cluster."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import image
import yaml
from patience import end_of

HOME = "headway-system"
SLEEPS = ["python3", "-c", "import time; time.sleep(600)"]
ENDS = ["python3", "-c", "import time; time.sleep(1)"]


class Operator:
    """`headway operator` as a process of this machine, in the cluster a service account."""

    def __init__(self, cluster, folder, token):
        self.cluster, self.folder = cluster, folder
        config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
        config["users"][0]["user"] = {"token": token}
        (folder / "kubeconfig").write_text(yaml.safe_dump(config))
        self.process = None

    def start(self, policy="spread", *, port=0, **env):
        words = [sys.executable, "-m", "headway", "operator", "--home", HOME, "--policy", policy]
        words += ["--port", str(port)] if port else []
        words += ["--data", str(self.folder), "--kubeconfig", str(self.folder / "kubeconfig")]
        with (self.folder / "operator.log").open("ab") as log:
            env = {**os.environ, "HEADWAY_IMAGE": image.NAME, **env}
            self.process = subprocess.Popen(words, stderr=log, env=env)
        return self

    def end(self, number=signal.SIGTERM):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            end_of(self.process)
        code, self.process = self.process and self.process.returncode, None
        return code

    def log(self):
        return (self.folder / "operator.log").read_text()


class Jobs:
    def __init__(self, cluster, operator):
        self.cluster, self.operator = cluster, operator

    def submit(self, name, *tasks, **spec):
        made = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob"}
        checkpoint = {"checkpoint": {"graceSeconds": 1}}
        made |= {"metadata": {"name": name}, "spec": {"tasks": list(tasks), **checkpoint, **spec}}
        self.cluster.create("trainingjobs", made)

    def occupy(self, name, node, cpu):
        """Somebody else's pod, bound by hand."""
        inside = {"name": "main", "image": image.NAME, "command": SLEEPS}
        inside["resources"] = {"requests": {"cpu": cpu}}
        spec = {"nodeName": node, "containers": [inside], "terminationGracePeriodSeconds": 1}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.cluster.create("pods", made)

    def status(self, name):
        return self.cluster.get("trainingjobs", name).get("status") or {}

    def phase(self, name):
        return self.status(name).get("phase")

    def condition(self, name, kind):
        found = [c for c in self.status(name).get("conditions", ()) if c["type"] == kind]
        return found[0] if found else {}

    def pods(self, name):
        return self.cluster.get("pods", labels=f"headway.dev/job={name}")["items"]

    def running(self, name):
        here = self.pods(name)
        return [p["spec"]["nodeName"] for p in here if p["status"]["phase"] == "Running"]

    def _events(self, name):
        uid = self.cluster.get("trainingjobs", name)["metadata"]["uid"]
        found = self.cluster.get("events", fields=f"involvedObject.uid={uid}")
        return sorted(found["items"], key=lambda e: int(e["metadata"]["resourceVersion"]))

    def events(self, name):
        return [e["reason"] for e in self._events(name)]

    def told(self, name, reason):
        return [e["message"] for e in self._events(name) if e["reason"] == reason]


def task(name="worker", replicas=1, cpu="200m", command=SLEEPS, **more):
    resources = {"requests": {"cpu": cpu}}
    made = {"name": name, "replicas": replicas, "image": image.NAME, "command": command}
    return {**made, "resources": resources, **more}


def nodes(cluster):
    return [n["metadata"]["name"] for n in cluster.get("nodes")["items"]]


def trains(pod):
    """Whether its training container has ever run."""
    told = [c["state"] for c in pod["status"].get("containerStatuses", ())]
    return any("waiting" not in state for state in told)


def bound(pod):
    over = pod["status"]["phase"] in ("Succeeded", "Failed")
    return bool(pod["spec"].get("nodeName")) and not over
