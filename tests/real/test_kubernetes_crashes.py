"""The operator is killed at one of its writes while it changes a job; the next one completes it.

What is asked for is in the cluster before the operator starts: the node of the job is cordoned, so
that each operator wants to move it, or `spec.suspend` or `spec.elasticReplicas` has changed.
"""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from local import note
from operators import HOME, nodes, task
from patience import PATIENCE
from pod_watch import PodWatch

STRIDE = int(os.environ.get("HEADWAY_CRASH_STRIDE", "0"))
FIRST = int(os.environ.get("HEADWAY_CRASH_FIRST", "1"))
COUNTS = """
import os, pathlib, signal, sys, time
kept, stops, rank = pathlib.Path("/headway"), [], os.environ.get("RANK", "0")
signal.signal(signal.SIGTERM, lambda *_: stops.append(1))
step = kept / f"step-{rank}"
done = int(step.read_text()) if step.exists() else 0
while not (kept / "end").exists():
    if stops:
        step.write_text(str(done))
        sys.exit(143)
    with (kept / f"log-{rank}").open("a") as log:
        log.write(f"{done}\\n")
    done += 1
    time.sleep(0.1)
"""
"""Each replica writes every step once, if it continues where it was and never runs twice."""


@dataclass(frozen=True)
class Change:
    workers: int
    """Before the change."""
    ask: Callable
    """Of a cluster, with the node of the chief."""
    holds: Callable
    """Whether the change is done: of the status, and the nodes of the pods that run."""
    trained: int
    """How many pods train in all, until the job has ended."""
    writes: int
    """Of an operator that is not killed, from its start; about."""
    point: int
    """The write at which it is killed in CI."""


def patch(cluster, **spec):
    cluster("patch", "tj", "x", "--type=merge", "-p", json.dumps({"spec": spec}))


def runs(there, phase="Running", *, count, elsewhere=""):
    """So many pods, and nothing waits."""
    status, running, pods = there
    settled = status.get("phase") == phase and len(running) == count
    left = elsewhere not in (*running, status.get("nodes"))
    return settled and left and pods == count


CHANGES = {
    "move": Change(
        1,
        lambda cluster, node: cluster("cordon", node),
        lambda there, node: runs(there, count=1, elsewhere=node),
        trained=2,
        writes=48,
        point=22,
    ),
    "suspend": Change(
        2,
        lambda cluster, node: patch(cluster, suspend=True),
        lambda there, node: runs(there, "Paused", count=0),
        trained=4,
        writes=30,
        point=13,
    ),
    "scale-up": Change(
        1,
        lambda cluster, node: patch(cluster, elasticReplicas=2),
        lambda there, node: runs(there, count=2),
        trained=3,
        writes=47,
        point=18,
    ),
    "scale-down": Change(
        2,
        lambda cluster, node: patch(cluster, elasticReplicas=1),
        lambda there, node: runs(there, count=1),
        trained=3,
        writes=46,
        point=30,
    ),
}


def crashes(change):
    return range(FIRST, change.writes + 1, STRIDE) if STRIDE else [change.point]


@pytest.fixture
def kept(tmp_path):
    """The nodes are on this machine: a folder of the host is a shared volume."""
    found = tmp_path / "kept"
    found.mkdir()
    found.chmod(0o777)  # for the user of the pods
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    return found


def counting(folder, workers):
    mount = {"name": "kept", "mountPath": "/headway"}
    containers = [{"name": "training", "volumeMounts": [mount]}]
    volumes = [{"name": "kept", "hostPath": {"path": str(folder)}}]
    template = {"spec": {"containers": containers, "volumes": volumes}}
    sizes = {"replicas": workers, "minReplicas": 1, "maxReplicas": 2}
    return task(command=["python3", "-c", COUNTS], podTemplate=template, **sizes)


@pytest.mark.parametrize(
    ("name", "writes"), [(name, n) for name, each in CHANGES.items() for n in crashes(each)]
)
def test_a_change_is_completed_by_the_next_leader(cluster, operator, jobs, kept, name, writes):
    change = CHANGES[name]
    checkpoint = {"mode": "sigterm", "graceSeconds": 5}
    jobs.submit("x", counting(kept, change.workers), checkpoint=checkpoint)
    cluster.until(lambda: jobs.phase("x") == "Running")
    node = jobs.running("x")[0]

    def done():
        there = [p for p in jobs.pods("x") if p["status"]["phase"] in ("Pending", "Running")]
        return change.holds((jobs.status("x"), jobs.running("x"), len(there)), node)

    operator.end()
    watch = PodWatch(cluster, jobs)
    try:
        change.ask(cluster, node)
        operator.start(HEADWAY_CRASH_AFTER_WRITES=str(writes))
        died = operator.process.poll
        cluster.until(lambda: died() is not None or done())
        code = operator.end()
        assert code in (0, -signal.SIGKILL)  # the last of them are undisturbed
        note(f"crash points, {name}", int(code == -signal.SIGKILL))
        # Rather than wait for the end of its lease:
        cluster("delete", "lease", "headway", "--namespace", HOME, "--ignore-not-found")
        led = operator.log().count(" leads")
        operator.start()
        cluster.until(lambda: operator.log().count(" leads") > led)  # it handles SIGTERM by now
        cluster.until(done, 2 * PATIENCE)
        patch(cluster, suspend=False)
        cluster.until(lambda: jobs.phase("x") == "Running")
        (kept / "end").touch()
        cluster.until(lambda: jobs.phase("x") == "Succeeded")
    finally:
        watch.close()
        for each in nodes(cluster):
            cluster("uncordon", each)
    assert jobs.status("x")["failures"] == 0
    for log in kept.glob("log-*"):
        steps = [int(line) for line in log.read_text().split()]
        assert steps == list(range(len(steps))), log.name
    assert watch.check_attempts("x") == change.trained
    cluster.until(lambda: {p["status"]["phase"] for p in jobs.pods("x")} <= {"Succeeded", "Failed"})
