"""A PyTorch job under torchrun in pods: agents join and leave while it trains."""

import re
import shutil

import pytest
from ddp import check_end, undisturbed, words
from image import ROOT
from operators import task
from patience import PATIENCE
from test_kubernetes_elastic import log, volume
from test_local_torchrun import AGENT

BORROWED = {"libraries": "/usr/lib", "programs": "/usr/bin", "chosen": "/etc/alternatives"}
"""The interpreter of this machine, which has PyTorch, is shown to the pods."""


def borrowing(folder):
    """A pod template: the shared volume, and this machine's interpreter."""
    made = volume(folder)
    spec = made["podTemplate"]["spec"]
    spec["volumes"] += [{"name": n, "hostPath": {"path": p}} for n, p in BORROWED.items()]
    mounts = spec["containers"][0]["volumeMounts"]
    mounts += [{"name": n, "mountPath": p, "readOnly": True} for n, p in BORROWED.items()]
    return made


def test_agents_of_torchrun_join_and_leave_in_pods(cluster, jobs, tmp_path, torch_python):
    if not torch_python.startswith("/usr/bin/"):
        pytest.skip("tool not installed: Debian's python3-torch")
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    folder = tmp_path / "kept"
    template = borrowing(folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    command = [torch_python, *AGENT, *words(torch_python, 0.005)[1:]]
    bounds = {"minReplicas": 1, "maxReplicas": 3, "elastic": "torchrun"}
    env = {"PYTHONPATH": "/headway/src"}
    worker = task(cpu="100m", command=command, env=env, **bounds, **template)
    jobs.submit("x", worker, checkpoint={"mode": "sigterm", "graceSeconds": 20})

    def starts():
        """The number of workers and the first step of each start."""
        text = log(cluster, "x-worker-0-1")
        found = re.findall(r"^rank \d of (\d), from step (\d+)", text, re.MULTILINE)
        return [(int(world), int(step)) for world, step in found]

    def becomes(count):
        cluster.until(lambda: starts() and starts()[-1][0] == count, 5 * PATIENCE)

    becomes(1)
    cluster("scale", "tj", "x", "--replicas=3")
    becomes(3)
    cluster("scale", "tj", "x", "--replicas=1")  # at the end, agents may wait long for each other
    becomes(1)
    cluster.until(lambda: jobs.phase("x") == "Succeeded", 5 * PATIENCE)
    assert jobs.status("x")["failures"] == 0
    check_end(log(cluster, "x-worker-0-1"), undisturbed(torch_python))
    steps = [step for _, step in starts()]
    assert steps == sorted(steps), "it went on from the last checkpoint"
