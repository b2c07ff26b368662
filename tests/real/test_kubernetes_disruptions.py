"""What a cluster does to running jobs: drain, preemption, deletion, contention with other pods.

Jobs save on SIGTERM into a folder that all nodes share: here, one of this machine.
"""

import os
from datetime import datetime
from time import monotonic, sleep

import image
import pytest
from operators import ENDS, SLEEPS, nodes, task
from patience import PATIENCE
from pod_watch import PodWatch

LONG = os.environ.get("HEADWAY_CRASH_STRIDE") == "1"
GANGS = 50 if LONG else 6
TRAINS = """
import pathlib, signal, sys, time
step, most = pathlib.Path("/shared/step"), pathlib.Path("/shared/most")
done = int(step.read_text()) if step.exists() else 0
def save(*_):
    step.write_text(str(done))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
with open("/shared/starts", "a") as starts:
    print(done, file=starts)
while done < int(most.read_text()):
    time.sleep(0.1)
    done += 1
save()
"""


@pytest.fixture
def saves(tmp_path):
    """A task that trains until the step in the file `most`, and where it saves its step."""
    tmp_path.chmod(0o777)
    (tmp_path / "most").write_text("100000")
    shared = {"name": "shared", "hostPath": {"path": str(tmp_path)}}
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    inside = {"volumes": [shared], "containers": [{"name": "training", "volumeMounts": mounts}]}
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    made = task("main", command=["python3", "-c", TRAINS], podTemplate={"spec": inside})
    return made, tmp_path / "step"


def runs(cluster, jobs, name):
    """Until it runs; where."""
    cluster.until(lambda: jobs.phase(name) == "Running")
    (node,) = jobs.running(name)
    return node


def trains(cluster, jobs, step):
    """Until its first attempt trains; where."""
    node = runs(cluster, jobs, "x")
    cluster.until(step.with_name("starts").exists)
    return node


def is_whole(cluster, jobs, step):
    """It resumes, and trains all its steps in a second attempt that was not a failure."""
    starts, part = step.with_name("starts"), step.with_name("part")
    cluster.until(lambda: starts.read_text().count("\n") == 2, 3 * PATIENCE)
    first, second = map(int, starts.read_text().split())
    assert first == 0 < second
    part.write_text(str(second + 10))
    part.rename(step.with_name("most"))
    cluster.until(lambda: jobs.phase("x") in ("Succeeded", "Failed"))
    told = jobs.status("x")
    assert (told["phase"], told["attempt"], told["failures"]) == ("Succeeded", 2, 0), told
    assert step.read_text() == str(second + 10)


def test_a_drained_job_resumes_on_another_node_and_trains_all_its_steps(cluster, jobs, saves):
    made, step = saves
    jobs.submit("x", made, backoffLimit=0, checkpoint={"mode": "sigterm", "graceSeconds": 5})
    node = trains(cluster, jobs, step)
    try:
        cluster("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
        is_whole(cluster, jobs, step)
        assert jobs.pods("x")[-1]["spec"]["nodeName"] != node
    finally:
        cluster("uncordon", node)
    # The node is cordoned first: it may be about to leave when its pod is evicted.
    told = [*jobs.told("x", "Released"), *jobs.told("x", "Moving")]
    assert any("EvictionByEvictionAPI" in text or node in text for text in told)


def test_a_preempted_job_resumes_and_its_room_is_left_to_the_preemptor(cluster, jobs, saves):
    made, step = saves
    jobs.submit("x", made, backoffLimit=0, checkpoint={"mode": "sigterm", "graceSeconds": 5})
    node = trains(cluster, jobs, step)
    about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    urgent = {**about, "metadata": {"name": "urgent"}, "value": 1000}
    inside = {"name": "main", "image": image.NAME, "command": SLEEPS}
    inside["resources"] = {"requests": {"cpu": "250m"}}
    spec = {"priorityClassName": "urgent", "nodeSelector": {"kubernetes.io/hostname": node}}
    spec |= {"containers": [inside], "terminationGracePeriodSeconds": 1}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent"}, "spec": spec}
    cluster.apply(urgent, pod)
    try:
        is_whole(cluster, jobs, step)
        assert cluster.get("pods", "urgent")["spec"]["nodeName"] == node
    finally:
        cluster("delete", "priorityclass", "urgent")
    assert any("PreemptionByScheduler" in text for text in jobs.told("x", "Released"))


def test_a_job_whose_node_is_deleted_resumes_on_another_one(cluster, jobs, saves):
    """The controller manager deletes the pods of a node that has been gone for 40 s."""
    made, step = saves
    jobs.submit("x", made, backoffLimit=0, checkpoint={"mode": "sigterm", "graceSeconds": 5})
    node = trains(cluster, jobs, step)
    there = cluster.get("nodes", node)
    cluster("delete", "node", node)
    try:
        is_whole(cluster, jobs, step)
        assert jobs.pods("x")[-1]["spec"]["nodeName"] != node
    finally:
        kept = {k: there["metadata"][k] for k in ("name", "labels", "annotations")}
        about = {"apiVersion": "v1", "kind": "Node", "metadata": kept}
        cluster.apply({**about, "spec": there["spec"]})
        cluster("wait", "--for=condition=Ready", f"node/{node}", "--timeout=120s")


def test_pending_jobs_start_by_priority_class(cluster, jobs):
    about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    cluster.apply({**about, "metadata": {"name": "rush"}, "value": 1000})
    there = nodes(cluster)
    cluster("cordon", *there)
    try:
        rush = {"podTemplate": {"spec": {"priorityClassName": "rush"}}}
        for name, more in (("first", {}), ("rush", rush)):
            jobs.submit(name, task(**more), priority=0)
            cluster.until(lambda name=name: jobs.phase(name) == "Pending")
        cluster("uncordon", there[0])  # room for one
        cluster.until(lambda: jobs.phase("rush") == "Running")
        assert not jobs.pods("first")
        cluster("uncordon", there[1])
        cluster.until(lambda: jobs.phase("first") == "Running")
    finally:
        cluster("uncordon", *there)
        cluster("delete", "priorityclass", "rush")


def test_a_job_that_is_suspended_saves_and_continues_when_it_is_resumed(cluster, jobs, saves):
    made, step = saves
    jobs.submit("x", made, backoffLimit=0, checkpoint={"mode": "sigterm", "graceSeconds": 5})
    trains(cluster, jobs, step)
    cluster.headway("pause", "x")
    cluster("wait", "--for=condition=Suspended", "tj/x", "--timeout=120s")
    cluster.until(lambda: jobs.phase("x") == "Paused")
    assert not jobs.running("x")
    assert step.exists()
    cluster.headway("resume", "x")
    is_whole(cluster, jobs, step)


def test_a_job_that_ends_while_no_operator_runs_and_loses_its_pod_has_succeeded(cluster, jobs):
    operator = jobs.operator
    jobs.submit("x", task(command=ENDS), backoffLimit=0)
    cluster.until(lambda: jobs.running("x"))
    operator.end()
    try:
        cluster.until(lambda: jobs.pods("x")[0]["status"]["phase"] == "Succeeded")
        sleep(1.1)  # times have a resolution of one second
        cluster("delete", "pods", "-l", "headway.dev/job=x", "--wait=false")
        assert jobs.pods("x"), "a finalizer keeps it"
    finally:
        led = operator.log().count(" leads")
        operator.start()
        cluster.until(lambda: operator.log().count(" leads") > led)
    cluster.until(lambda: jobs.phase("x") == "Succeeded")
    cluster.until(lambda: not jobs.pods("x"))


if LONG:  # the garbage collector takes its time

    def test_a_job_that_is_deleted_in_the_foreground_is_stopped_and_not_placed_again(cluster, jobs):
        jobs.submit("x", task(), backoffLimit=3)
        runs(cluster, jobs, "x")
        cluster("delete", "tj", "x", "--cascade=foreground", "--timeout=120s")
        assert not jobs.pods("x")


def test_gangs_among_other_pods_all_complete_and_none_runs_in_part(cluster, jobs):
    """Gangs of three where four have room, while kube-scheduler places other pods."""
    watch = PodWatch(cluster, jobs)
    for i in range(GANGS):
        jobs.submit(f"gang-{i}", task(replicas=3, cpu="100m", command=ENDS))
    inside = {"name": "main", "image": image.NAME, "command": ENDS}
    inside["resources"] = {"requests": {"cpu": "100m"}}
    pod = {"containers": [inside], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    spec = {"completions": GANGS, "parallelism": 2, "template": {"spec": pod}}
    about = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "others"}}
    cluster.apply({**about, "spec": spec})
    end, seen = monotonic() + 60 + 12 * GANGS, 0
    try:
        while True:
            told = [j.get("status", {}).get("phase") for j in cluster.get("trainingjobs")["items"]]
            seen = max(seen, told.count("Running"))
            if told.count("Succeeded") == GANGS:
                break
            assert "Failed" not in told
            assert monotonic() < end, told
            sleep(1)
    finally:
        watch.close()
        cluster("delete", "job", "others", "--cascade=foreground", "--timeout=120s")
    assert seen <= 4
    started = [check_start(gang) for gang in watch.gangs().values()]
    assert started.count(True) == GANGS


def check_start(gang):
    """Whether it trained: then all its pods were bound when the first training container began."""
    states = [c["state"] for p in gang for c in p["status"].get("containerStatuses", ())]
    began = [s.get("running") or s.get("terminated") or {} for s in states]
    started = [at(each["startedAt"]) for each in began if each.get("startedAt")]
    if not started:
        return False
    assert len(gang) == 3
    assert max(map(bound_at, gang)) <= min(started)
    return True


def bound_at(pod):
    (found,) = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert found["status"] == "True"
    return at(found["lastTransitionTime"])


def at(text):
    return datetime.fromisoformat(text)
