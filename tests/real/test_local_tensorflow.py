"""A TensorFlow job with MultiWorkerMirroredStrategy as real processes, which find each other by
`TF_CONFIG`.
"""

import re
import sys

import numpy as np
import pytest
from elastic import Training, running
from local import processes, result, workload
from patience import wait_for

from headway.trainings import CHUNKS
from headway.trainings.parameter_server.shared_model import Recipe, ledger_digest

STEPS = 400
PROFILE = {"steps": STEPS, "work": STEPS * CHUNKS * 0.6e-3, "demand": 0.1}
"""Ten samples for each chunk, and pauses, so that it does not end before it is scaled."""


class Mirrored(Training):
    def starts(self):
        """The number of workers and the first step of each start."""
        found = re.findall(r"^rank 0 of (\d), from step (\d+)", self.log(), re.MULTILINE)
        return [(int(world), int(step)) for world, step in found]

    def losses(self):
        return [float(x) for x in re.findall(r"^step .* loss ([\d.]+)", self.log(), re.MULTILINE)]


def test_a_tensorflow_job_of_two_workers_goes_on_with_one_where_it_was(tmp_path, tensorflow):
    job = {"name": "x", "model": "mirrored", "workers": {"replicas": 2, "min": 1, "max": 2}}
    path = workload(tmp_path, job | {"profile": PROFILE}, nodes=[{"cpu": 1, "count": 2}])
    x, env = Mirrored(tmp_path), {"PYTHONPATH": tensorflow}
    with running("run", path, "--policy", "gang", data=tmp_path, env=env) as run:
        wait_for(lambda: x.step >= 5, 240)
        x.scale(1)
        wait_for(lambda: len(x.starts()) == 2, 240)
        assert run.wait(240) == 0
    outcome = result(tmp_path)
    assert [j["outcome"] for j in outcome["per_job"]] == ["succeeded"], outcome["reasons"]
    (two, first), (one, later) = x.starts()
    assert (two, first, one) == (2, 0, 1)
    assert 5 <= later < STEPS
    steps = [int(n) for n in re.findall(r"^step (\d+)/", x.log(), re.MULTILINE)]
    assert steps == list(range(1, STEPS + 1)), "no step was lost, and none was repeated"
    losses = x.losses()
    assert np.mean(losses[-20:]) < 0.5 * np.mean(losses[:20])
    recipe = Recipe(steps=STEPS, size=10)
    every = np.ones((recipe.epochs, recipe.samples), np.uint8)
    assert f"each once, sha256 {ledger_digest(every)}" in x.log()
    assert processes(tmp_path) == []


@pytest.mark.long
def test_a_tensorflow_worker_that_never_joins_ends_the_job_in_time(tmp_path, tensorflow):
    hangs = "import os, sys, time; time.sleep(600 * os.environ['HEADWAY_REPLICA'].endswith('1')); "
    hangs += "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = [sys.executable, "-c", hangs, "-m", "headway.trainings", "mirrored", "--steps", "9"]
    command += ["--timeout", "5"]
    worker = {"name": "worker", "command": command, "env": {"PYTHONPATH": tensorflow}}
    spec = {"tasks": [worker | {"replicas": 2}], "backoffLimit": 0}
    path = workload(tmp_path, {"name": "x", "spec": spec}, nodes=[{"cpu": 1, "count": 2}])
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        assert run.wait(240) != 0
    why = "replica worker-0: exited with code 1: error: worker-1 did not join within 5 s"
    assert result(tmp_path)["reasons"]["x"] == why
    assert processes(tmp_path) == []
