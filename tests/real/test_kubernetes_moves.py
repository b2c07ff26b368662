"""Moves of real trainings on a real cluster: the room on the target is held before anything stops.

The training saves on SIGTERM into a folder that all nodes share: here, one of this machine.
"""

import os
import re
from contextlib import contextmanager
from itertools import cycle

import image
import pytest
from elastic import digests, undisturbed, words
from operators import SLEEPS, nodes, task
from patience import PATIENCE
from pod_watch import PodWatch

from headway.core.model.snapshot import Request
from headway.runtime.request_client import ask
from headway.runtime.run_directory import RunDirectory

MOVES = int(os.environ.get("HEADWAY_MOVES", "3"))
SIGTERM = {"mode": "sigterm", "graceSeconds": 5}
DEAF = [
    "python3",
    "-c",
    "import signal, time; signal.signal(15, lambda *_: exit(1)); time.sleep(600)",
]


@pytest.fixture
def volume(tmp_path):
    """The nodes are on this machine: a folder of the host is a shared volume."""
    kept = tmp_path / "kept"
    kept.mkdir()
    kept.chmod(0o777)  # for the user of the pods
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    mount = {"name": "kept", "mountPath": "/headway"}
    containers = [{"name": "training", "volumeMounts": [mount]}]
    volumes = [{"name": "kept", "hostPath": {"path": str(kept)}}]
    return {"podTemplate": {"spec": {"containers": containers, "volumes": volumes}}}


@contextmanager
def watching(cluster, jobs):
    watch = PodWatch(cluster, jobs)
    try:
        yield watch
    finally:
        watch.close()


def move(operator, to):
    """As `headway move` does in a run."""
    folder = RunDirectory((operator.folder / "runs" / "latest").resolve())
    assert ask(folder, Request(job="default/x", wish="move", to=to)) == ""


def trains(cluster, jobs, after=0):
    """Until it has trained more than `after` steps, and runs; the step, and the node."""

    def step():
        attempt = jobs.status("x").get("attempt", 0)
        log = cluster.log(f"x-worker-0-{attempt}")
        found = max(map(int, re.findall(r"^step (\d+)/", log, re.MULTILINE)), default=0)
        settled = jobs.phase("x") == "Running" and jobs.running("x")
        return (found, *settled) if found > after and settled else None

    return cluster.until(step, 2 * PATIENCE)


def pod_for(name, node, cpu):
    """Somebody else's, which kube-scheduler binds."""
    inside = {"name": "main", "image": image.NAME, "command": SLEEPS}
    inside["resources"] = {"requests": {"cpu": cpu}}
    spec = {"containers": [inside], "terminationGracePeriodSeconds": 1}
    spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_a_training_that_is_moved_often_trains_every_batch_once(cluster, operator, jobs, volume):
    """Its state is that of a training which nothing happened to, and no two attempts ever ran."""
    steps = 60 * (MOVES + 1)
    command = words(steps=steps, demand=0.02, python="python3")
    with watching(cluster, jobs) as watch:
        jobs.submit("x", task(command=command, **volume), checkpoint=SIGTERM)
        step, node = trains(cluster, jobs)
        others = cycle(n for n in nodes(cluster) if n != node)
        for done in range(MOVES):
            to = next(n for n in others if n != node)
            move(operator, to)
            cluster.until(lambda n=done: jobs.status("x")["attempt"] > n + 1)
            step, node = trains(cluster, jobs, step)
            assert node == to
        cluster.until(lambda: jobs.phase("x") == "Succeeded", 3 * PATIENCE)
    status = jobs.status("x")
    assert (status["failures"], status["attempt"]) == (0, MOVES + 1)
    assert digests(cluster.log(f"x-worker-0-{MOVES + 1}")) == undisturbed(steps)
    assert watch.check_attempts("x") == MOVES + 1
    assert jobs.told("x", "Moving")
    assert jobs.told("x", "NotMoved") == []


def test_the_room_on_the_target_is_not_taken_while_the_job_saves(cluster, operator, jobs, volume):
    """The script takes its time to save. Another pod wants the room meanwhile."""
    slow = "import signal, sys, time\n"
    slow += "signal.signal(15, lambda *_: (time.sleep(8), sys.exit(143)))\n"
    slow += "while True: time.sleep(1)\n"
    grace = {"mode": "sigterm", "graceSeconds": 30}
    jobs.submit("x", task(command=["python3", "-c", slow], **volume), checkpoint=grace)
    cluster.until(lambda: jobs.phase("x") == "Running")
    (node,) = jobs.running("x")
    to = next(n for n in nodes(cluster) if n != node)
    with watching(cluster, jobs) as watch:
        move(operator, to)
        cluster.until(
            lambda: "deletionTimestamp" in cluster.get("pods", "x-worker-0-1")["metadata"]
        )
        held = cluster.get("pods", "x-worker-0-2")
        assert (held["spec"]["nodeName"], held["status"]["phase"]) == (to, "Pending")
        cluster.apply(pod_for("greedy", to, "200m"))
        cluster.until(lambda: to in jobs.running("x"))
    assert watch.check_attempts("x") == 2
    greedy = cluster.get("pods", "greedy")
    assert "nodeName" not in greedy["spec"], "it waits for room"


def still_runs(cluster, jobs, why):
    """Where it was, in its first attempt; an event says why."""
    cluster.until(lambda: any(why in text for text in jobs.told("x", "NotMoved")))
    cluster.until(lambda: jobs.phase("x") == "Running")
    cluster.until(lambda: [p["metadata"]["name"] for p in jobs.pods("x")] == ["x-worker-0-1"])
    (pod,) = jobs.pods("x")
    assert "deletionTimestamp" not in pod["metadata"]
    assert jobs.status("x")["failures"] == 0


def test_a_job_is_not_moved_to_a_node_that_refuses_it(cluster, operator, jobs, volume):
    """The policy does not know of ports; kube-scheduler does."""
    port = {"ports": [{"containerPort": 80, "hostPort": 7999}]}
    volume["podTemplate"]["spec"]["containers"][0] |= port
    jobs.submit("x", task(**volume), checkpoint=SIGTERM)
    cluster.until(lambda: jobs.phase("x") == "Running")
    (node,) = jobs.running("x")
    to = next(n for n in nodes(cluster) if n != node)
    other = pod_for("other", to, "10m")
    other["spec"]["containers"][0] |= port
    cluster.apply(other)
    cluster("wait", "--for=condition=Ready", "pod/other", "--timeout=60s")
    move(operator, to)
    still_runs(cluster, jobs, "didn't have free ports")


def test_a_job_is_not_moved_if_its_quota_has_no_room_for_both_pods(cluster, operator, jobs, volume):
    jobs.submit("x", task(**volume), checkpoint=SIGTERM)
    cluster.until(lambda: jobs.phase("x") == "Running")
    (node,) = jobs.running("x")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}}
    cluster.apply({**quota, "spec": {"hard": {"requests.cpu": "300m"}}})
    try:
        cluster.until(lambda: cluster.counted("team") == "200m")
        move(operator, next(n for n in nodes(cluster) if n != node))
        still_runs(cluster, jobs, "exceeded quota: team")
    finally:
        cluster("delete", "resourcequota", "team")


def test_a_script_that_does_not_save_starts_again_where_it_was(cluster, operator, jobs, volume):
    jobs.submit("x", task(command=DEAF, **volume), checkpoint=SIGTERM)
    cluster.until(lambda: jobs.phase("x") == "Running")
    (node,) = jobs.running("x")
    move(operator, next(n for n in nodes(cluster) if n != node))
    cluster.until(lambda: jobs.status("x")["attempt"] == 3)  # 2 has held its room
    cluster.until(lambda: jobs.running("x") == [node])
    assert [p["metadata"]["name"] for p in jobs.pods("x")][-1] == "x-worker-0-3"


@pytest.fixture
def cordons(cluster):
    """Nodes that a test cordons are open again after it."""
    yield
    for node in nodes(cluster):
        cluster("uncordon", node)


@pytest.mark.usefixtures("cordons")
def test_a_job_leaves_a_node_that_is_cordoned(cluster, jobs, volume):
    steps = 120
    command = words(steps=steps, demand=0.02, python="python3")
    with watching(cluster, jobs) as watch:
        jobs.submit("x", task(command=command, **volume), checkpoint=SIGTERM)
        _, node = trains(cluster, jobs)
        cluster("cordon", node)
        cluster.until(lambda: jobs.running("x") and node not in jobs.running("x"))
        cluster.until(lambda: jobs.phase("x") == "Succeeded", 3 * PATIENCE)
    assert (jobs.status("x")["failures"], jobs.status("x")["attempt"]) == (0, 2)
    assert digests(cluster.log("x-worker-0-2")) == undisturbed(steps)
    assert watch.check_attempts("x") == 2


@pytest.mark.usefixtures("cordons")
def test_a_drain_waits_for_a_job_with_a_disruption_budget_to_leave(cluster, jobs, volume):
    """The eviction is refused until the job has moved. It is not interrupted without a save."""
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}}
    chosen = {"matchLabels": {"headway.dev/job": "x"}}
    cluster.apply({**budget, "spec": {"minAvailable": 1, "selector": chosen}})
    try:
        steps = 120
        command = words(steps=steps, demand=0.02, python="python3")
        jobs.submit("x", task(command=command, **volume), checkpoint=SIGTERM)
        _, node = trains(cluster, jobs)
        cluster.until(
            lambda: cluster.get("poddisruptionbudgets", "x")["status"].get("currentHealthy") == 1
        )
        cluster("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=100s")
        cluster.until(lambda: jobs.phase("x") == "Succeeded", 3 * PATIENCE)
    finally:
        cluster("delete", "pdb", "x")
    assert (jobs.status("x")["failures"], jobs.status("x")["attempt"]) == (0, 2)
    assert (len(jobs.told("x", "Moving")), jobs.told("x", "Released")) == (1, [])
    assert digests(cluster.log("x-worker-0-2")) == undisturbed(steps)


SAVES = """
import time, headway
run = headway.attach()
while True:
    print("saved", run.save(1, lambda folder: None), flush=True)
    time.sleep(0.5)
"""


def test_a_pod_of_an_earlier_attempt_that_returns_saves_nothing(cluster, jobs, volume):
    """As if its node had been lost: the pod is there again beside the next attempt."""
    jobs.submit("x", task(command=["python3", "-c", SAVES], **volume), checkpoint=SIGTERM)
    cluster.until(lambda: "saved True" in cluster.log("x-worker-0-1"))
    first = cluster.get("pods", "x-worker-0-1")
    cluster("delete", "pod", "x-worker-0-1", "--grace-period=1", "--wait=false")
    cluster.until(lambda: "saved True" in cluster.log("x-worker-0-2"))
    spec = {k: v for k, v in first["spec"].items() if k not in ("nodeName", "affinity")}
    about = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late"}}
    cluster.apply({**about, "spec": spec})
    said = cluster.until(lambda: text if (text := cluster.log("late")).count("saved") > 2 else "")
    assert "True" not in said
    saved = cluster.log("x-worker-0-2").count("saved True")
    cluster.until(lambda: cluster.log("x-worker-0-2").count("saved True") > saved)


def test_a_job_with_a_volume_for_one_pod_is_not_movable(cluster, jobs):
    about = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "single"}}
    spec = {"accessModes": ["ReadWriteOncePod"], "storageClassName": ""}
    cluster.apply({**about, "spec": {**spec, "resources": {"requests": {"storage": "1Mi"}}}})
    try:
        mounts = [{"path": "/headway", "claim": "single"}]
        jobs.submit("x", task(mounts=mounts), checkpoint=SIGTERM)
        cluster.until(lambda: jobs.condition("x", "Movable"))
        assert jobs.condition("x", "Movable")["reason"] == "ReadWriteOncePod"
    finally:
        cluster("delete", "tj", "x", "--timeout=60s")
        cluster("delete", "pvc", "single", "--timeout=60s")
