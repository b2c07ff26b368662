"""What happens to the pods of a real cluster, as a watch tells it."""

import json
import subprocess
from threading import Thread

from operators import nodes


class PodWatch:
    """Remembers each state of each pod, in the order of the API server, and the last of each."""

    def __init__(self, cluster, jobs):
        self.pods, self.states = {}, []
        words = [cluster.program, "--kubeconfig", cluster.kubeconfig, "get", "pods"]
        words += ["--watch", "-o", "json", "--output-watch-events"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.thread = Thread(target=self.follow)
        self.thread.start()
        jobs.occupy("first", nodes(cluster)[0], "1m")
        cluster.until(lambda: self.pods)

    def follow(self):
        with self.process.stdout as lines:
            for told in map(json.loads, lines):
                pod = told["object"] if told["type"] != "DELETED" else ended(told["object"])
                self.states.append(pod)
                self.pods[pod["metadata"]["uid"]] = told["object"]

    def close(self):
        self.process.terminate()
        self.process.wait(10)
        self.thread.join(10)

    def gangs(self):
        """Pods by job and attempt."""
        found = {}
        for pod in self.pods.values():
            labels = pod["metadata"].get("labels") or {}
            if "headway.dev/job" in labels:
                gang = labels["headway.dev/job"], labels["headway.dev/attempt"]
                found.setdefault(gang, []).append(pod)
        return found

    def check_attempts(self, job):
        """No replica of this job ever had two training containers that ran. Returns how many
        attempts of it have trained.
        """
        running, trained = {}, set()
        for pod in self.states:
            labels = pod["metadata"].get("labels") or {}
            if labels.get("headway.dev/job") == job:
                name, replica = pod["metadata"]["name"], labels["headway.dev/replica"]
                here = running.setdefault(replica, set())
                here.add(name) if runs(pod) else here.discard(name)
                trained |= here
                assert len(here) < 2, f"two attempts of {replica} run: {here}"
        return len(trained)


def ended(pod):
    return {**pod, "status": {"phase": "Failed"}}


def runs(pod):
    """Its training container runs."""
    told = pod["status"].get("containerStatuses") or ()
    return any(c["name"] == "training" and "running" in c["state"] for c in told)
