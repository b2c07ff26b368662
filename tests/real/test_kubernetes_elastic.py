"""Distributed trainings on a real cluster, scaled while they run; every sample counts once."""

import json
import re
from contextlib import contextmanager

from elastic import digests, undisturbed, words
from operators import nodes, task

from headway.spec.quantity import parse_quantity

STEPS = 60
DRAGON = "dragon:starve_after=2,grow_after=2,restart=0.1"


@contextmanager
def policy(cluster, operator, name):
    """An operator with another policy leads meanwhile."""

    def restart(**more):
        led = operator.log().count(" leads")
        operator.end()
        operator.start(**more)
        cluster.until(lambda: operator.log().count(" leads") > led)

    restart(policy=name)
    try:
        yield
    finally:
        restart()


def volume(folder):
    """The nodes are on this machine: a folder of the host is a shared volume."""
    folder.mkdir()
    folder.chmod(0o777)  # for the user of the pods
    mount = {"name": "kept", "mountPath": "/headway"}
    kept = {"name": "kept", "hostPath": {"path": str(folder)}}
    containers = [{"name": "training", "volumeMounts": [mount]}]
    return {"podTemplate": {"spec": {"containers": containers, "volumes": [kept]}}}


def training(model, *, replicas, most, steps=STEPS, demand=0.02, cpu="100m", **worker):
    command = words(model, steps=steps, demand=demand, python="python3")
    sizes = {"replicas": replicas, "minReplicas": 1, "maxReplicas": most}
    return [
        task("ps", cpu="50m", command=command),
        task("worker", cpu=cpu, command=command, **sizes, **worker),
    ]


def log(cluster, pod):
    return cluster.log(pod)


def test_kubectl_scale_changes_a_synchronous_job_while_it_trains(cluster, jobs, tmp_path):
    checkpoint = {"mode": "sigterm", "graceSeconds": 20}
    tasks = training("ps-sync", replicas=1, most=3, **volume(tmp_path / "kept"))
    jobs.submit("sync", *tasks, checkpoint=checkpoint)
    cluster.until(lambda: "step 5/" in log(cluster, "sync-worker-0-1"))
    assert jobs.condition("sync", "Movable")["status"] == "True"
    cluster("scale", "tj", "sync", "--replicas=3")
    cluster.until(lambda: "worker-2 joined" in log(cluster, "sync-ps-0-2"))
    assert jobs.status("sync")["replicas"] == 3
    cluster.until(lambda: jobs.phase("sync") == "Succeeded")
    assert jobs.status("sync")["failures"] == 0
    assert digests(log(cluster, "sync-worker-0-2")) == undisturbed(STEPS)


def autoscaler(least, most):
    """It needs no metrics to keep a job between these numbers."""
    spec = {"minReplicas": least, "maxReplicas": most}
    spec["scaleTargetRef"] = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob"}
    spec["scaleTargetRef"]["name"] = "auto"
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    spec["metrics"] = [{"type": "Resource", "resource": cpu}]
    about = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    return {**about, "metadata": {"name": "auto"}, "spec": spec}


def test_an_autoscaler_scales_a_running_job_within_its_bounds(cluster, jobs):
    tasks = training("ps-async", replicas=1, most=3, steps=2000, elastic="independent")
    jobs.submit("auto", *tasks, elasticReplicas=1)
    cluster.until(lambda: "worker-0 joined" in log(cluster, "auto-ps-0-1"))
    try:
        cluster.apply(autoscaler(2, 3))
        cluster.until(lambda: "worker-1 joined" in log(cluster, "auto-ps-0-1"))
        cluster.until(lambda: jobs.status("auto")["replicas"] == 2)
        cluster.apply(autoscaler(1, 1))
        cluster.until(lambda: "worker-1 left" in log(cluster, "auto-ps-0-1"))
        cluster.until(lambda: jobs.status("auto")["replicas"] == 1)
        cluster.apply(autoscaler(4, 5))
        refused = "must be between minReplicas and maxReplicas"
        cluster.until(lambda: refused in str(cluster.get("horizontalpodautoscalers", "auto")))
    finally:
        cluster("delete", "hpa", "auto")
    assert (jobs.phase("auto"), jobs.status("auto")["failures"]) == ("Running", 0)
    cluster("delete", "tj", "auto")


def evict(cluster, pod):
    about = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/default/pods/{pod}/eviction"
    cluster("create", "--raw", path, "-f", "-", text=json.dumps(about))


def test_an_evicted_worker_of_an_asynchronous_job_is_replaced(cluster, jobs):
    tasks = training("ps-async", replicas=2, most=2, steps=2000, elastic="independent")
    jobs.submit("async", *tasks)
    cluster.until(lambda: "worker-1 joined" in log(cluster, "async-ps-0-1"))
    evict(cluster, "async-worker-1-1")
    cluster.until(lambda: log(cluster, "async-ps-0-1").count("worker-1 joined") == 2)
    assert "async-worker-1-2" in [p["metadata"]["name"] for p in jobs.pods("async")]
    cluster.until(lambda: jobs.status("async")["replicas"] == 2)
    assert (jobs.status("async")["failures"], jobs.phase("async")) == (0, "Running")
    cluster("delete", "tj", "async")


def test_dragon_takes_workers_for_a_gang_that_waits(cluster, operator, jobs):
    """A worker on each node leaves no room for another. An asynchronous training is not restarted
    when it loses one.
    """
    full = {"cpu": "200m", "elastic": "independent"}
    rich = training("ps-async", replicas=4, most=4, steps=2000, **full)
    with policy(cluster, operator, DRAGON):
        jobs.submit("rich", *rich)
        cluster.until(lambda: len(jobs.running("rich")) == 5)
        cluster.until(lambda: "step 5/" in log(cluster, "rich-worker-0-1"))
        jobs.submit("poor", task(command=words(steps=5, demand=1, python="python3")))
        cluster.until(lambda: jobs.phase("poor") == "Succeeded")
        joined = re.findall(r"worker-(\d) joined", log(cluster, "rich-ps-0-1"))
        (left,) = re.findall(r"worker-(\d) left", log(cluster, "rich-ps-0-1"))
        assert set(joined) == {"0", "1", "2", "3"}
        assert left != "0", "the chief stays"
        cluster.until(lambda: log(cluster, "rich-ps-0-1").count(f"worker-{left} joined") == 2)
        status = jobs.status("rich")
        assert (status["failures"], status["phase"], status["replicas"]) == (0, "Running", 4)
        cluster("delete", "tj", "rich")


def test_kips_gives_a_worker_the_cpu_that_is_left_and_takes_it_back(cluster, operator, jobs):
    """No whole worker is to be added: the CPU limit of the one that runs is raised instead, until
    another job needs the room.
    """
    node = nodes(cluster)[0]
    there = {"nodeSelector": {"kubernetes.io/hostname": node}}

    def limit():
        (inside,) = cluster.get("pods", "alone-worker-0-1")["spec"]["containers"]
        return parse_quantity(inside["resources"].get("limits", {}).get("cpu", "0"))

    def resized():
        chosen = "involvedObject.name=alone-worker-0-1,reason=ResizeCompleted"
        return [e["message"] for e in cluster.get("events", fields=chosen)["items"]]

    with policy(cluster, operator, "kips:interval=2"):
        jobs.submit("alone", task(cpu="100m", **there))
        cluster.until(lambda: jobs.pods("alone"))
        cluster.until(lambda: limit() > 0.2)
        cluster.until(lambda: len(resized()) == 1)
        jobs.submit("second", task(cpu="150m", **there))
        cluster.until(lambda: jobs.phase("second") == "Running")
        cluster.until(lambda: 0.1 <= limit() <= 0.15)
        cluster.until(lambda: len(resized()) == 2)
        (told,) = cluster.get("pods", "alone-worker-0-1")["status"]["containerStatuses"]
        assert (told["restartCount"], jobs.status("alone")["attempt"]) == (0, 1)
        cluster("delete", "tj", "alone", "second")
