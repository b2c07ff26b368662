"""An API server that keeps objects in memory, a scheduler that binds pods to the node that they
name, and kubelets that do what a test tells them.

As much of the protocol as the backend speaks: list, watch with versions and 410, create, patch,
replace, delete with grace. It runs nothing; what pods do is for the test to say.
"""

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from threading import Condition, Thread
from time import monotonic

from kubernetes.client import ApiClient, Configuration

from fake_api import Handler, Server, merged
from headway.backend.kubernetes.client.api import Api
from headway.core.model.snapshot import Trigger
from headway.policy.registry import build
from headway.runtime.journal import Journal
from headway.runtime.loop import Loop

JOBS = "trainingjobs"
PATIENCE = 10.0


class FakeCluster:
    def __init__(self, nodes=("a", "b"), cpu="1"):
        self.objects, self.log, self.version = {}, [], 0
        self.compacted = 0
        """Watches that begin before this version are told 410."""
        self.stale = set()
        """Kinds whose watches fall silent."""
        self.dead = set()
        """Kinds whose watches are neither answered nor closed."""
        self.refuse = {}
        """(method, kind, sub): (status, message), for calls that are declined. With a name before
        sub: only for that one.
        """
        self.unanswered = set()
        """(method, kind, name): the next such call is carried out, and its answer is lost."""
        self.hanging = set()
        """(method, kind, namespace): such calls are not answered while it is here."""
        self.busy = {}
        """(method, kind): how many more calls are answered with 429 and Retry-After."""
        self.unschedulable = {}
        """Nodes to which no pod is bound, and what kube-scheduler says of them."""
        self.resized = []
        """Names of pods whose resizes were accepted, and when."""
        self.resizing = {}
        """Names of pods whose resizes their nodes do not carry out, and the reason."""
        self.tokens = {}
        """Tokens: audience, service account, uid and node of the pod that each is bound to."""
        self.kubelets = True
        """They end what is to go, a moment later."""
        self.calls = []
        self.changed = Condition()
        self.closed = False
        self.clients = []
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.fake = self
        Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        for name in nodes:
            self.put("nodes", node(name, cpu))

    def api(self):
        made = Configuration()
        made.host = f"http://127.0.0.1:{self.server.server_port}"
        self.clients.append(ApiClient(made))
        return Api(self.clients[-1])

    def close(self):
        """End every connection: watches would hold theirs, and a thread each, for a minute."""
        self.closed = True
        self.server.shutdown()
        self.server.end_connections()
        self.server.server_close()
        for client in self.clients:
            client.rest_client.pool_manager.clear()

    # -- for tests -------------------------------------------------------------------------------

    def put(self, kind, new, namespace=""):
        with self.changed:
            about = new["metadata"]
            key = kind, about.get("namespace", namespace), about["name"]
            before = self.objects.get(key)
            released = about.get("deletionTimestamp") and about.get("finalizers") == []
            if before and released and new.get("status", {}).get("phase") != "Running":
                return self.drop(kind, about["name"], key[1])
            self.version += 1
            about["resourceVersion"] = str(self.version)
            about.setdefault("uid", f"uid-{self.version}")
            about.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
            self.objects[key] = new
            self._tell(kind, "ADDED" if before is None else "MODIFIED", new)
            return new

    def drop(self, kind, name, namespace="default"):
        with self.changed:
            found = self.objects.pop((kind, namespace, name), None)
            if found is not None:
                self.version += 1
                found["metadata"]["resourceVersion"] = str(self.version)
                self._tell(kind, "DELETED", found)
            return found

    def _tell(self, kind, what, each):
        self.log.append((self.version, kind, what, deepcopy(each)))
        self.changed.notify_all()

    def all(self, kind):
        with self.changed:
            return [deepcopy(o) for (k, _, _), o in self.objects.items() if k == kind]

    def get(self, kind, name, namespace="default"):
        with self.changed:
            return deepcopy(self.objects.get((kind, namespace, name)))

    def change(self, kind, name, change, namespace="default"):
        """A merge patch, from outside."""
        with self.changed:
            found = self.objects[kind, namespace, name]
            return self.put(kind, merged(found, change), namespace)

    def schedule(self, namespace, name):
        """What kube-scheduler does with a pod whose node is given by its affinity."""
        pod = self.get("pods", name, namespace)
        if pod is None or pod["spec"].get("schedulingGates") or pod["spec"].get("nodeName"):
            return
        node = named_node(pod)
        if node in self.unschedulable:
            said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            said["message"] = self.unschedulable[node]
            self.change("pods", name, {"status": {"conditions": [said]}}, namespace)
        elif node:
            self.change("pods", name, {"spec": {"nodeName": node}}, namespace)

    def resize(self, name, namespace, change):
        """As the API server does with a strategic merge patch, and then the kubelet."""
        self.resized.append((name, monotonic()))
        with self.changed:
            pod = self.get("pods", name, namespace)
            (told,) = change["spec"]["containers"]
            own = next(c for c in pod["spec"]["containers"] if c["name"] == told["name"])
            before, why = own["resources"], self.resizing.get(name)
            own["resources"] = merged(before, told["resources"])
            pending = {"type": "PodResizePending", "status": "True", "reason": why, "message": "no"}
            pod["status"]["conditions"] = [pending] if why else []
            there = {"name": told["name"], "resources": before if why else own["resources"]}
            pod["status"]["containerStatuses"] = [there]
            return self.put("pods", pod, namespace)

    def delete(self, name, namespace="default", grace=30):
        """As the API server does: it is gone when its kubelet has ended it."""
        at = datetime.now(UTC) + timedelta(seconds=grace)
        now = {"deletionTimestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        now["deletionGracePeriodSeconds"] = grace
        return self.change("pods", name, {"metadata": now}, namespace)

    def ended(self, name, namespace="default", code=143):
        """Its kubelet has stopped it: gone, but for a finalizer."""
        pod = self.get("pods", name, namespace)
        if pod is None:
            return
        if not pod["metadata"].get("finalizers"):
            self.drop("pods", name, namespace)
        elif pod["status"].get("phase") in ("Pending", "Running"):
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            over = {"terminated": {"exitCode": code, "finishedAt": now}}
            told = {"phase": "Failed" if code else "Succeeded"}
            told["containerStatuses"] = [{"name": "training", "state": over}]
            self.change("pods", name, {"status": told}, namespace)

    def pod(self, name, phase, **status):
        """What its kubelet says of it."""
        return self.change("pods", name, {"status": {"phase": phase, **status}})

    def start_bound(self):
        """What kubelets do with new pods: one that waits in an init container goes on waiting."""
        for pod in self.all("pods"):
            new = pod["status"].get("phase") == "Pending" and pod["spec"].get("nodeName")
            if not new or "deletionTimestamp" in pod["metadata"]:
                continue
            waiters = [c["name"] for c in pod["spec"].get("initContainers", ())]
            if waiters and not begins(pod):
                told = [{"name": name, "state": {"running": {}}} for name in waiters]
                if pod["status"].get("initContainerStatuses") != told:
                    self.pod(pod["metadata"]["name"], "Pending", initContainerStatuses=told)
            else:
                self.pod(pod["metadata"]["name"], "Running")

    def submit(self, name, *, spec=None, **more):
        job = {"metadata": {"name": name, "namespace": "default", "generation": 1, **more}}
        job["spec"] = spec or {"tasks": [task()]}
        return self.put(JOBS, job, "default")


def task(name="worker", replicas=1, cpu="400m", **more):
    requests = {"requests": {"cpu": cpu}}
    command = ["python3", "train.py"]
    made = {"name": name, "replicas": replicas, "image": "x:1", "command": command}
    return {**made, "resources": requests, **more}


def node(name, cpu="1", *, ready=True, **more):
    condition = {"type": "Ready", "status": str(ready)}
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "20", "ephemeral-storage": "9Gi"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": more,
        "status": {"allocatable": amounts, "conditions": [condition]},
    }


def named_node(pod):
    """The node to which its affinity restricts it; "": none."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get(
        "nodeSelectorTerms", ()
    )
    fields = [f for term in terms for f in term.get("matchFields", ())]
    return next((f["values"][0] for f in fields if f["key"] == "metadata.name"), "")


class Headway:
    """A backend and the loop over it, stepped until something is true."""

    def __init__(self, backend, policy="@spread"):
        self.backend = backend
        self.loop = Loop(backend, build(policy), Journal())

    def until(self, claim, patience=PATIENCE):
        end = monotonic() + patience
        while not (found := claim()):
            assert monotonic() < end, "it never came true"
            trigger = self.backend.wait(0.05)
            if trigger is not None:
                self.loop.step(trigger)
        return found

    def calm(self, seconds):
        """Let time pass."""
        end = monotonic() + seconds
        while monotonic() < end:
            self.loop.step(self.backend.wait(0.05) or Trigger.TICK)


def bound(fake):
    return {p["metadata"]["name"]: p["spec"].get("nodeName") for p in fake.all("pods")}


def status(fake, name):
    return (fake.get("trainingjobs", name) or {}).get("status") or {}


def condition(fake, name, kind):
    found = [c for c in status(fake, name).get("conditions", ()) if c["type"] == kind]
    return found[0] if found else {}


def all_bound(fake, count):
    here = bound(fake)
    return here if len(here) == count and all(here.values()) else None


def run_all(fake):
    for name in bound(fake):
        fake.pod(name, "Running")


def begins(pod):
    """Whether its training may begin: all of its gang are bound."""
    return pod["metadata"]["annotations"].get("headway.dev/proceed") == "true"
