"""Hands for real distributed trainings: start, scale, and check what they have trained."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from functools import cache

from local import processes, start
from patience import wait_for
from typer.testing import CliRunner

from headway.backend import inbox, procfs
from headway.backend.job_store import JobStore
from headway.cli import app
from headway.core.model.snapshot import Request

EPOCHS, EPOCH = 16, 10
STEPS = EPOCHS * EPOCH

ABSENT = """
import os, sys, time
if os.environ["HEADWAY_REPLICA"] == "worker-1":
    time.sleep(600)  # it hangs before it joins
os.execvp(sys.argv[1], sys.argv[1:])
"""


def words(model="ps-sync", *, steps=STEPS, demand=0.07, python=sys.executable):
    """Of a training that takes some seconds with one worker, most of them asleep: on a busy machine
    it does not end before Headway has done what is asked of it.
    """
    sizes = ["--steps", steps, "--batches", 1, "--epoch", EPOCH, "--save-every", 20]
    sizes += ["--demand", demand]
    return [python, "-m", "headway.trainings", model, *map(str, sizes)]


def spec(command, *, replicas=1, most=3, elastic="restart", **worker):
    tasks = [
        {"name": "ps", "command": command},
        {"name": "worker", "command": command, "replicas": replicas, "minReplicas": 1,
         "maxReplicas": most, "elastic": elastic, **worker},
    ]  # fmt: skip
    return {"tasks": tasks, "checkpoint": {"mode": "sdk", "graceSeconds": 20}}


@cache
def undisturbed(steps=STEPS):
    """What one worker makes of it that nothing happens to: digests of weights and of samples."""
    done = subprocess.run(words(steps=steps, demand=1), check=True, capture_output=True, text=True)
    return digests(done.stdout)


def digests(text):
    (samples,) = re.findall(r"samples: .* epochs of .*, each once, sha256 (\w+)", text)
    (weights,) = re.findall(r"weights sha256 (\w+)", text)
    return weights, samples


@contextmanager
def running(*words, data, env=None):
    """A run that leaves nothing behind, also if the test fails."""
    child = start(*words, data=data, env=env)
    try:
        yield child
    finally:
        while child.poll() is None:  # the second time, it kills its jobs
            child.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                child.wait(10)


class Training:
    """A job of the latest run, by its output."""

    def __init__(self, data, name="x"):
        self.data, self.name = data, name

    def log(self, replica="worker-0"):
        path = self.data / "runs" / "latest" / "jobs" / self.name / replica / "out.log"
        return path.read_text() if path.exists() else ""

    @property
    def step(self):
        return max(map(int, re.findall(r"^step (\d+)/", self.log(), re.MULTILINE)), default=0)

    def joined(self, worker):
        """At which steps this worker has joined the server."""
        pattern = rf"^worker-{worker} joined at step (\d+)"
        return list(map(int, re.findall(pattern, self.log("ps-0"), re.MULTILINE)))

    def proceeds(self, steps=5):
        goal = self.step + steps
        wait_for(lambda: self.step >= goal)

    def scale(self, count):
        """By the command, without the start of another process, which may take seconds."""
        env = {"HEADWAY_DATA": str(self.data)}
        done = CliRunner().invoke(app, ["scale", self.name, f"worker={count}"], env=env)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    def crash_while_scaled(self, workload, fault, count):
        """Run it with a fault that kills Headway after a request for so many workers; resume it."""
        env = {"HEADWAY_FAULT": f"{fault}=kill"}
        with running("run", workload, "--policy", "gang", data=self.data, env=env) as run:
            self.proceeds()
            latest = (self.data / "runs" / "latest").resolve()
            inbox.put(latest, Request(job=self.name, wish="scale", task="worker", count=count))
            assert run.wait(120) == -signal.SIGKILL
            for pid in processes(self.data):  # the trainings, until Headway continues them
                if not procfs.words(pid).startswith(b"/bin/sh"):
                    os.kill(pid, signal.SIGSTOP)
        with running("run", "--resume", "latest", data=self.data) as run:
            assert run.wait(240) == 0
        assert JobStore(latest).load([self.name])[self.name].sizes == (("worker", count),)

    def grow_and_shrink(self):
        """From one worker to three and to two, while it trains."""
        self.proceeds()
        assert f"{self.name}: scale started" in self.scale(3)
        wait_for(lambda: self.joined(2))
        self.proceeds()
        self.scale(2)
        wait_for(lambda: len(self.joined(1)) == 2)
        self.proceeds()
