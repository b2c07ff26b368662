"""A real cluster: of our own (`scripts/cluster`), or the one that KUBECONFIG names."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from urllib.parse import urlencode

from kubernetes import config
from patience import PATIENCE, end_of, wait_for
from testcluster import binaries, leftovers
from testcluster.layout import Layout
from urllib3.util import Retry

KUBECTL = 4 * PATIENCE
"""`kubectl delete` waits for a week."""
BUSY = 5
"""How often a call is repeated that the API server asks to repeat later."""
SCRIPT = Path(__file__).parents[2] / "scripts" / "cluster"
GROUPS = {
    "trainingjobs": "/apis/headway.dev/v1alpha1",
    "jobs": "/apis/batch/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
}
"""Of resources that are not in the core group."""


def missing():
    """Why there can be no cluster here; "": there can. Programs are only built where the tier is
    required: that takes minutes.
    """
    why = binaries.missing()
    if why:
        return why
    required = "kubernetes" in os.environ.get("HEADWAY_REQUIRE", "").split(",")
    names = (*binaries.PROGRAMS, *binaries.OTHERS)
    lacking = [name for name in names if binaries.find(name) is None]
    if lacking and not required:
        return f"not built yet: {', '.join(lacking)}; scripts/cluster build makes them, once"
    return ""


def sweep():
    """Take down the clusters of tests that were killed."""
    there = Layout("").root
    for path in there.parent.glob(f"{there.name}*-*"):
        name = path.name.removeprefix(there.name)
        word, _, pid = name.partition("-")
        if word in ("pytest", "broken") and pid.isdigit() and not Path(f"/proc/{pid}").exists():
            leftovers.end(Layout(name))


class Private:
    """A cluster that `scripts/cluster` makes and takes down."""

    def __init__(self, name, nodes):
        self.layout, self.nodes = Layout(name), nodes

    def _script(self, act, *words, env=None):
        told = [sys.executable, str(SCRIPT), act, "--name", self.layout.name, *words]
        return subprocess.run(
            told, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}
        )

    def try_up(self, **env):
        return self._script("up", "--nodes", str(self.nodes), env=env)

    def up(self):
        done = self.try_up()
        assert done.returncode == 0, done.stderr

    @property
    def kube(self):
        return Kube(self.layout.kubeconfig)

    def status(self):
        return self._script("status")

    def down(self):
        done = self._script("down")
        assert done.returncode == 0, done.stderr

    def left(self):
        return leftovers.left(self.layout)

    def processes(self, word):
        """Those of the cluster that run a program of that name."""
        found = []
        for pid in leftovers.processes(self.layout):
            with suppress(OSError):  # it may have ended
                told = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
                if Path(told).name.startswith(word):
                    found.append(pid)
        return found


class Kube:
    """kubectl, and the API server itself: what tests ask again and again goes over one connection,
    because a process for each question keeps half a CPU busy.
    """

    def __init__(self, kubeconfig):
        self.kubeconfig = str(kubeconfig)
        self.program = str(binaries.find("kubectl"))

    def run(self, *words, text=None):
        told = [self.program, "--kubeconfig", self.kubeconfig, *words]
        pipe = subprocess.PIPE
        with subprocess.Popen(told, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            return end_of(process, KUBECTL, text)

    def __call__(self, *words, text=None):
        done = self.run(*words, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def headway(self, *words):
        """A command of Headway about a job on the cluster."""
        there = ["--backend", "kubernetes", "--kubeconfig", self.kubeconfig]
        command = [sys.executable, "-m", "headway", *words, *there]
        subprocess.run(command, check=True, timeout=KUBECTL)

    @cached_property
    def client(self):
        return config.new_client_from_config(self.kubeconfig)

    def ask(self, method, path, body=None, *, user="", **query):
        """Status and text of an answer of the API server. `user`: as this one."""
        known, headers = self.client.configuration, {"Content-Type": "application/json"}
        if token := known.auth_settings().get("BearerToken"):
            headers["Authorization"] = token["value"]
        if user:
            headers["Impersonate-User"] = user
        answer = self.client.rest_client.pool_manager.request(
            method,
            f"{known.host}{path}?{urlencode(query)}",
            body=None if body is None else json.dumps(body),
            headers=headers,
            timeout=PATIENCE,
            retries=Retry(BUSY, allowed_methods=None, raise_on_status=False),
        )
        return answer.status, answer.data.decode(errors="replace")

    def path(self, kind, name="", namespace="default"):
        """`kind`: as in paths, such as pods."""
        within = "" if kind in ("nodes", "namespaces") else f"/namespaces/{namespace}"
        return f"{GROUPS.get(kind, '/api/v1')}{within}/{kind}" + (f"/{name}" if name else "")

    def get(self, kind, name="", *, namespace="default", labels="", fields=""):
        chosen = {"labelSelector": labels, "fieldSelector": fields}
        query = {key: value for key, value in chosen.items() if value}
        status, text = self.ask("GET", self.path(kind, name, namespace), **query)
        assert status == 200, text
        return json.loads(text)

    def create(self, kind, made):
        status, text = self.ask("POST", self.path(kind), made, fieldValidation="Strict")
        assert status == 201, text

    def log(self, pod):
        """What a pod has printed so far."""
        status, text = self.ask("GET", f"{self.path('pods', pod)}/log")
        return text if status == 200 else ""

    def counted(self, quota):
        """The requested CPU that a quota counts."""
        return (
            self.get("resourcequotas", quota).get("status", {}).get("used", {}).get("requests.cpu")
        )

    def has(self, kind, name, namespace="default"):
        return self.ask("GET", self.path(kind, name, namespace))[0] == 200

    def clear(self, kind, **options):
        """Delete all in the default namespace, and wait until they are gone."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        status, text = self.ask("DELETE", self.path(kind), options)
        assert status == 200, text
        self.until(lambda: not self.get(kind)["items"], 2 * PATIENCE)

    def apply(self, *objects):
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        return self("apply", "-f", "-", text=json.dumps(listed))

    def until(self, claim, patience=PATIENCE):
        return wait_for(claim, patience, every=0.1)


class Kubectl:
    """kubectl on a cluster; what is `given` goes in as a file."""

    def __init__(self, kube):
        self.kube = kube

    def __call__(self, *words, given=None):
        more = ["-f", "-"] if given is not None else []
        text = None if given is None else json.dumps(given)
        return self.kube.run(*map(str, words), *more, text=text)

    def done(self, *words, given=None):
        """It must go well; what it printed."""
        ran = self(*words, given=given)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout
