"""What several trainings at once cost this machine, as processes and as containers.

`make evidence NAME=machine` measures up to twelve of them, on one core and on two.
"""

import json
import os
import signal
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import pytest
from patience import Deadline

from headway.machine import Processes, measure
from headway.trainings.counter import LAYOUT, read

ROUNDS = int(os.environ.get("HEADWAY_MACHINE_ROUNDS", "1"))
MOST = 12 if ROUNDS > 1 else 3
MODELS = os.environ.get("HEADWAY_MACHINE_MODELS", "vae").split(",")
SECONDS = 1.0 if ROUNDS > 1 else 0.3
TRIES = 1 if ROUNDS > 1 else 4
"""Measurements, until one is not disturbed: a test cluster beside it needs CPU too."""


class Containers:
    """Trainings that a Docker engine runs."""

    def __init__(self, engine, folder, cores, model):
        self.engine, self.ids, self.pids = engine, [], []
        self.paths = [folder / str(i) for i in range(MOST)]
        cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[-cores:]))
        folder.chmod(0o777)  # the image has a user of its own
        for path in self.paths:
            path.write_bytes(LAYOUT.pack(0.0, 0.0))
            path.chmod(0o666)
            words = ["python3", "-m", "headway.trainings.counter", model]
            host = {"Binds": [f"{folder}:/count"], "CpusetCpus": cpus, "Init": False}
            self.ids.append(engine.create([*words, f"/count/{path.name}"], **host))
            self.pids.append(engine.inspect(self.ids[-1])["State"]["Pid"])
        deadline = Deadline()
        for pid, path in zip(self.pids, self.paths, strict=True):
            while not read(path)[0]:
                assert not deadline.passed(), "it never began to train"
                assert Path(f"/proc/{pid}").exists(), "it ended"
                sleep(0.02)
            os.kill(pid, signal.SIGSTOP)

    def counted(self):
        return [read(path) for path in self.paths]

    def limit(self, number, cores):
        quota = -1 if cores is None else max(1000, round(cores * 100_000))
        body = {"CpuPeriod": 100_000, "CpuQuota": quota}
        self.engine.client.post(f"/containers/{self.ids[number]}/update", body)

    def close(self):
        for each in self.ids:
            self.engine.client.delete(f"/containers/{each}", force=True)


@contextmanager
def trainings(kind, engines, folder, cores, model):
    if kind == "processes":
        with Processes(cores, model, MOST) as made:
            yield made
        return
    made = Containers(engines[0], folder, cores, model)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("cores", [1, 2] if ROUNDS > 1 else [1])
@pytest.mark.parametrize("kind", ["processes", "containers"])
def test_trainings_at_once_lose_little(kind, cores, model, engines, tmp_path):
    with trainings(kind, engines, tmp_path, cores, model) as made:
        judge(made, kind, cores, model)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("cores", [1, 2] if ROUNDS > 1 else [1])
def test_pytorch_trainings_at_once_lose_little(cores, torch_python):
    with Processes(cores, most=MOST, torch=torch_python) as made:
        judge(made, "processes", cores, "torch")


def judge(made, kind, cores, model):
    for _ in range(TRIES):
        found = measure(made, cores, seconds=SECONDS, repetitions=ROUNDS)
        good = all(p.efficiency > 0.5 for p in found.points)
        if good and -0.2 < found.sharing.value < 0.5:
            break
    assert good
    assert -0.2 < found.sharing.value < 0.5
    if path := os.environ.get("HEADWAY_FIGURES"):
        load = float(Path("/proc/loadavg").read_text().split()[0])
        figures = {"kind": kind, "model": model, "load": load, **found.plain()}
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")
