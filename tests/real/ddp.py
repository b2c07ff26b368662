"""Hands for trainings in PyTorch with DistributedDataParallel, by `headway` or by torchrun."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from elastic import EPOCH, Training
from patience import wait_for

STEPS = 4 * EPOCH
SOURCE = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
ROUNDING = 5e-4
"""Difference of the loss by the order in which gradients are added up: one, two and three workers
end with the same four digits. The losses of ten undisturbed trainings with other seeds differ by
up to 0.31.
"""


def words(python, demand=0.02, steps=STEPS):
    sizes = ["--steps", steps, "--batches", 1, "--epoch", EPOCH, "--save-every", 10]
    sizes += ["--demand", demand, "--timeout", 120]
    return [python, "-m", "headway.trainings", "ddp", *map(str, sizes)]


def job(command, env=SOURCE, **more):
    worker = {"name": "worker", "command": command, "env": env, **more}
    worker = {"replicas": 1, "minReplicas": 1, "maxReplicas": 3} | worker
    return {"name": "x", "spec": {"tasks": [worker], "checkpoint": {"mode": "sdk"}}}


@cache
def undisturbed(python, steps=STEPS):
    """What one worker makes of it that nothing happens to: the digest of the samples, the loss."""
    command = words(python, demand=1, steps=steps)
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=SOURCE)
    return last_lines(done.stdout)


def last_lines(text):
    """Digest of the samples, and the loss. torchrun restarts a worker that has announced its end
    but has not exited when another joins; it then announces the same end again, with the same
    weights: the end is saved before it is announced.
    """
    (samples,) = set(re.findall(r"samples: .* epochs of .*, each once, sha256 (\w+)", text))
    done = re.findall(r"^done: .* loss ([\d.]+), weights sha256 (\w+)", text, re.MULTILINE)
    ((loss, _),) = set(done)
    return samples, float(loss)


def check_end(text, undisturbed):
    """What the chief has printed is as if nothing had happened."""
    samples, loss = last_lines(text)
    assert samples == undisturbed[0]
    assert loss == pytest.approx(undisturbed[1], abs=ROUNDING)


class Ddp(Training):
    def starts(self):
        """The number of workers and the first step of each start, as the chief says."""
        found = re.findall(r"^rank \d of (\d), from step (\d+)", self.log(), re.MULTILINE)
        return [(int(world), int(step)) for world, step in found]

    def becomes(self, count):
        """It trains with so many workers."""
        wait_for(lambda: self.starts() and self.starts()[-1][0] == count)
        self.proceeds(2)

    def grow_and_shrink(self):
        """From one worker to three and to two, while it trains."""
        self.proceeds(2)
        self.scale(3)
        self.becomes(3)
        self.scale(2)
        self.becomes(2)

    def check_changes(self):
        worlds, steps = zip(*self.starts(), strict=True)
        assert worlds[:3] == (1, 3, 2)
        assert list(steps) == sorted(steps), "it went on from the last checkpoint"
