"""Adoption on a real cluster: Jobs of batch/v1, an operator from the chart, and the agents."""

import image
import pytest
from operators import nodes
from test_kubernetes_reports import installed

LOSS = """
import time
for i in range(1, 10**6):
    end = time.monotonic() + 0.1
    while time.monotonic() < end: pass
    print(f"step {i} loss {LOSS:.6f}", flush=True)
"""
LEARNS, CONVERGED = LOSS.replace("LOSS", "1000 - i / 10"), LOSS.replace("LOSS", "1 / min(i, 20)")
OWN = {"requests": {"cpu": "60m"}, "limits": {"cpu": "290m"}}


@pytest.fixture(scope="module")
def jobs(cluster, own_cluster, helm):
    """Two Jobs of one pod each, on one node, of which one learns."""
    with installed(cluster, own_cluster, helm, policy="flowcon:interval=10"):
        made = Jobs(cluster, nodes(cluster)[0])
        made.create("learns", LEARNS)
        made.create("converged", CONVERGED)
        yield made
        cluster("delete", "jobs", "--all", "--wait=true", "--timeout=60s")


class Jobs:
    def __init__(self, cluster, node):
        self.cluster, self.node = cluster, node

    def create(self, name, script):
        inside = {"name": "main", "image": image.NAME, "command": ["python3", "-c", script]}
        on = {"kubernetes.io/hostname": self.node}
        spec = {"containers": [{**inside, "resources": OWN}], "nodeSelector": on}
        spec |= {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
        made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
        self.cluster.apply({**made, "spec": {"template": {"spec": spec}, "backoffLimit": 2}})

    def label(self, name, value):
        self.cluster("label", "job", name, f"headway.dev/adopt{value}")

    def pods(self, name):
        return self.cluster.get("pods", labels=f"job-name={name}")["items"]

    def request(self, name):
        (pod,) = self.pods(name)
        amount = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        return int(amount.removesuffix("m"))

    def refusal(self, name):
        (pod,) = self.pods(name)
        return pod["metadata"].get("annotations", {}).get("headway.dev/not-adopted")

    def events(self, name, reason):
        uid = self.cluster.get("jobs", name)["metadata"]["uid"]
        found = self.cluster.get("events", fields=f"involvedObject.uid={uid}")
        return [e["message"] for e in found["items"] if e["reason"] == reason]


def test_the_share_of_adopted_jobs_follows_their_progress_until_the_label_is_removed(cluster, jobs):
    names = ("learns", "converged")
    cluster.until(lambda: all(p["status"]["phase"] == "Running" for p in pods_of(jobs, names)))
    before = {p["metadata"]["uid"]: p["spec"] for p in pods_of(jobs, names)}
    for name in names:
        jobs.label(name, "=true")
    cluster.until(lambda: all(jobs.events(name, "Adopted") for name in names))
    cluster.until(lambda: jobs.request("learns") > 1.5 * jobs.request("converged"), patience=120)
    assert jobs.request("learns") + jobs.request("converged") == 120, "as declared"
    for name in names:
        jobs.label(name, "-")
    cluster.until(lambda: {p["metadata"]["uid"]: p["spec"] for p in pods_of(jobs, names)} == before)
    cluster.until(lambda: not any("annotations" in p["metadata"] for p in pods_of(jobs, names)))
    for pod in pods_of(jobs, names):
        (told,) = pod["status"]["containerStatuses"]
        assert (told["restartCount"], told["resources"]["requests"]) == (0, {"cpu": "60m"})
    for name in names:
        status = cluster.get("jobs", name)["status"]
        assert (status["active"], status.get("failed", 0)) == (1, 0)


def pods_of(jobs, names):
    return [pod for name in names for pod in jobs.pods(name)]


def test_the_back_off_of_an_adopted_job_is_its_own(cluster, jobs):
    """Its pod fails: the Job starts another one, which is adopted, until its own limit."""
    jobs.create("fails", "import time; time.sleep(4); raise SystemExit(3)")
    jobs.label("fails", "=true")
    cluster("wait", "--for=condition=Failed", "job/fails", "--timeout=180s")
    assert cluster.get("jobs", "fails")["status"]["failed"] == 3
    assert len(jobs.events("fails", "Adopted")) == 3
    assert {p["status"]["phase"] for p in jobs.pods("fails")} == {"Failed"}


def test_a_job_of_a_queue_of_kueue_is_refused_and_a_suspended_one_is_adopted_again(cluster, jobs):
    cluster("label", "job", "converged", "kueue.x-k8s.io/queue-name=team")
    jobs.label("converged", "=true")
    (told,) = cluster.until(lambda: jobs.events("converged", "NotAdopted"))
    assert "kueue.x-k8s.io/queue-name" in told
    assert cluster.until(lambda: jobs.refusal("converged")) in told
    jobs.label("learns", "=true")
    seen = len(cluster.until(lambda: jobs.events("learns", "Adopted")))
    for suspend in ("true", "false"):
        cluster("patch", "job", "learns", "-p", f'{{"spec": {{"suspend": {suspend}}}}}')
    cluster.until(lambda: len(jobs.events("learns", "Adopted")) > seen)
