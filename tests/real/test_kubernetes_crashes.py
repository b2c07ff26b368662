"""The operator is killed at one of its writes through a move; the next one completes it.

The node of the job is cordoned, so that each operator wants to move it.
"""

import os
import signal

import pytest
from local import note
from operators import HOME, nodes, task
from patience import PATIENCE
from pod_watch import PodWatch

STRIDE = int(os.environ.get("HEADWAY_CRASH_STRIDE", "0"))
CRASHES = range(1, 61, STRIDE) if STRIDE else [14, 22]
COUNTS = """
import pathlib, signal, sys, time
kept, stops = pathlib.Path("/headway"), []
signal.signal(signal.SIGTERM, lambda *_: stops.append(1))
step = kept / "step"
done = int(step.read_text()) if step.exists() else 0
while not (kept / "end").exists():
    if stops:
        step.write_text(str(done))
        sys.exit(143)
    with (kept / "log").open("a") as log:
        log.write(f"{done}\\n")
    done += 1
    time.sleep(0.1)
"""
"""Every step is written once, if the training continues where it was and never runs twice."""


@pytest.fixture
def kept(tmp_path):
    """The nodes are on this machine: a folder of the host is a shared volume."""
    found = tmp_path / "kept"
    found.mkdir()
    found.chmod(0o777)  # for the user of the pods
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    return found


def counting(folder):
    mount = {"name": "kept", "mountPath": "/headway"}
    containers = [{"name": "training", "volumeMounts": [mount]}]
    volumes = [{"name": "kept", "hostPath": {"path": str(folder)}}]
    template = {"spec": {"containers": containers, "volumes": volumes}}
    return task(command=["python3", "-c", COUNTS], podTemplate=template)


@pytest.mark.parametrize("writes", CRASHES)
def test_a_move_is_completed_by_the_next_leader(cluster, operator, jobs, kept, writes):
    jobs.submit("x", counting(kept), checkpoint={"mode": "sigterm", "graceSeconds": 5})
    cluster.until(lambda: jobs.phase("x") == "Running")
    (node,) = jobs.running("x")
    operator.end()
    watch = PodWatch(cluster, jobs)
    try:
        cluster("cordon", node)
        operator.start(HEADWAY_CRASH_AFTER_WRITES=str(writes))
        died = operator.process.poll
        cluster.until(lambda: died() is not None or has_left(jobs, node))
        code = operator.end()
        assert code in (0, -signal.SIGKILL)  # the last of them are undisturbed
        note("crash points of a move", int(code == -signal.SIGKILL))
        # Rather than wait for the end of its lease:
        cluster("delete", "lease", "headway", "--namespace", HOME, "--ignore-not-found")
        led = operator.log().count(" leads")
        operator.start()
        cluster.until(lambda: operator.log().count(" leads") > led)  # it handles SIGTERM by now
        cluster.until(lambda: has_left(jobs, node), 2 * PATIENCE)
        (kept / "end").touch()
        cluster.until(lambda: jobs.phase("x") == "Succeeded")
    finally:
        watch.close()
        for each in nodes(cluster):
            cluster("uncordon", each)
    assert jobs.status("x")["failures"] == 0
    steps = [int(line) for line in (kept / "log").read_text().split()]
    assert steps == list(range(len(steps)))
    assert watch.check_attempts("x") == 2
    cluster.until(lambda: {p["status"]["phase"] for p in jobs.pods("x")} <= {"Succeeded", "Failed"})


def has_left(jobs, node):
    """It trains elsewhere, and nothing waits."""
    found = jobs.status("x")
    there = found.get("phase") == "Running" and found.get("nodes") not in (None, node)
    return there and len(jobs.running("x")) == 1 and node not in jobs.running("x")
