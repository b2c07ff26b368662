"""A long run of short jobs, some of them hostile, during which Headway is killed three times.

Headway is killed at 1/9, 2/9 and 3/9 of the time and then left alone: minutes 10, 20 and 30 of 90.
Memory, descriptors and the duration of cycles are judged over the time after the last kill.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean, median
from time import sleep, time
from typing import Any

from headway.backend import procfs
from headway.backend.local.enforcement.cgroupfs import sweep
from headway.bench.figure import Figure
from headway.bench.soak_process import SAMPLES
from headway.core.estimate.progress import percentile
from headway.core.model.units import Seconds

MINUTES = 90.0
RATE = 10_000 / MINUTES
"""Jobs a minute."""
SLOTS = 8
ENDLESS = 2
"""Jobs that never end; each holds a slot."""
NORMAL = "for i in 1 2 3 4; do echo step: $i loss: 0.$((9 - i)); sleep 0.4; done"
HOSTILE = {
    "flood": "yes 'step: 1 loss: 0.5' | head -c 20000000",
    "unbroken": "head -c 3000000 /dev/zero | tr '\\0' x | tee \"$HEADWAY_DIR/reports.jsonl\"",
    "nan": "for v in nan inf -inf 1e308 -1e308; do echo step: 1 loss: $v; sleep 0.2; done",
    "fork": "for i in $(seq 30); do sleep 3600 & done; (setsid sleep 3600 &) ; sleep 1",
}
"""Output without end or without a line break, numbers that are none, and processes left behind."""
EVERY = 25
"""One of this number of jobs is hostile."""
LATE: Seconds = 180.0
"""Extra time for the last jobs."""
RESUMED: Seconds = 5.0
SLOPE = 1.0
"""MB of memory for 1,000 jobs."""
DESCRIPTORS = 2.0
JOURNAL = 128 * 2**20
CYCLE = 100.0
"""Milliseconds, 99th percentile."""


def bench_soak(minutes: float) -> list[Figure]:
    jobs = round(RATE * minutes)
    with tempfile.TemporaryDirectory(prefix="headway-soak-") as folder:
        data = Path(folder)
        path = data / "workload.json"
        path.write_text(json.dumps(workload(jobs, 60 * minutes)), encoding="utf-8")
        soak = Soak(data, path, jobs, 60 * minutes)
        try:
            soak.run()
            return soak.figures()
        finally:
            soak.close()


def workload(jobs: int, seconds: Seconds) -> dict[str, Any]:
    """Jobs that arrive evenly, each requesting one of the slots."""
    cores = float(len(os.sched_getaffinity(0)))
    listed = [_job(f"endless-{i}", "sleep 1000000", 0.0, cores) for i in range(ENDLESS)]
    for i in range(jobs):
        hostile = [*HOSTILE][i // EVERY % len(HOSTILE)] if i % EVERY == EVERY - 1 else ""
        script = HOSTILE.get(hostile, NORMAL)
        listed.append(_job(f"{hostile or 'job'}-{i}", script, seconds * 0.97 * i / jobs, cores))
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    return {**head, "nodes": [{"name": "machine", "cpu": cores}], "jobs": listed}


def _job(name: str, script: str, at: Seconds, cores: float) -> dict[str, Any]:
    requests = {"requests": {"cpu": cores / SLOTS}}
    task = {"command": ["/bin/sh", "-c", script], "resources": requests}
    return {"name": name, "at": round(at, 2), "spec": {"tasks": [task]}}


class Soak:
    def __init__(self, data: Path, workload: Path, jobs: int, seconds: Seconds) -> None:
        self._data, self._jobs, self._seconds = data, jobs, seconds
        self._every = min(60.0, seconds / 30)
        self._resumed: list[Seconds] = []
        self._died = False
        self._killed = 0.0
        self._process = self._start(str(workload))

    def _start(self, what: str) -> subprocess.Popen[bytes]:
        module = "headway.bench.soak_process"
        words = [sys.executable, "-m", module, str(self._data), what, str(self._every)]
        return subprocess.Popen(words, stdout=subprocess.DEVNULL)

    def run(self) -> None:
        while not self.samples() and self._process.poll() is None:
            sleep(0.05)
        began = time()
        for n in (1, 2, 3):
            if not self._lives_until(began + n * self._seconds / 9):
                return
            self._process.kill()
            self._process.wait()
            self._killed = time()
            lines = len(self.samples())
            self._process = self._start("resume")
            while len(self.samples()) == lines and self._process.poll() is None:
                sleep(0.05)
            self._resumed.append(time() - self._killed)
        late = began + self._seconds + LATE
        if not self._lives_until(began + self._seconds):
            return
        while self.samples()[-1]["ended"] < self._jobs and time() < late:
            if not self._lives_until(time() + 1.0):
                return
        self._process.send_signal(signal.SIGINT)  # for the jobs that never end
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(60.0)

    def _lives_until(self, end: float) -> bool:
        while time() < end and self._process.poll() is None:
            sleep(0.5)
        self._died = self._process.poll() is not None
        return not self._died

    def samples(self) -> list[dict[str, Any]]:
        path = self._data / SAMPLES
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def left(self) -> list[int]:
        """Processes of the run."""
        marks = ((pid, procfs.environment(pid).get("HEADWAY_DIR", "")) for pid in _pids())
        return [pid for pid, folder in marks if folder.startswith(f"{self._data}/")]

    def close(self) -> None:
        """End what is left, whatever happened."""
        self._process.kill()
        self._process.wait()
        for pid in self.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        sweep(least_age=0.0)

    def figures(self) -> list[Figure]:
        after = [s for s in self.samples() if s["at"] > self._killed]
        alone = after[len(after) // 10 :]  # it has warmed up
        result = self._data / "runs" / "latest" / "result.json"
        found = json.loads(result.read_text())[0]["per_job"] if result.exists() else []
        good = sum(j["outcome"] == "succeeded" for j in found)
        return [
            Figure("jobs", self._jobs, ""),
            Figure("Headway ended by itself", float(self._died), "", 0),
            Figure("jobs that did not succeed", self._jobs - good, "", 0),
            Figure("minutes after the last kill", (time() - self._killed) / 60, "min"),
            Figure("resumed, slowest", max(self._resumed, default=0.0), "s", RESUMED),
            *judge(alone),
            Figure("processes left", len(self.left()), "", 0),
        ]


def judge(alone: Sequence[dict[str, Any]]) -> list[Figure]:
    """The figures of the time in which Headway was left alone."""
    if len(alone) < 4:
        return [Figure("samples missing", 4 - len(alone), "", 0)]
    quarter = len(alone) // 4
    files = [s["descriptors"] for s in alone]
    more = median(files[-quarter:]) - median(files[:quarter])
    cycles = sorted(c for s in alone for c in s["cycles_ms"])
    syncs = sorted(c for s in alone for c in s["syncs_ms"])
    memory = [s["rss_mb"] for s in alone]
    return [
        Figure("memory, end", memory[-1], "MB"),
        Figure("memory, slope", 1000 * slope(alone), "MB per 1,000 jobs", SLOPE),
        Figure("descriptors, most", max(files), ""),
        Figure("descriptors, last quarter less the first", more, "", DESCRIPTORS),
        Figure("journal, largest", max(s["journal_bytes"] for s in alone), "bytes", JOURNAL),
        Figure("usage samples, end", alone[-1]["usage_bytes"], "bytes"),
        Figure("cycles", len(cycles), ""),
        Figure("cycle, 99th percentile", percentile(cycles, 0.99), "ms", CYCLE),
        Figure("fsync, 99th percentile", percentile(syncs, 0.99), "ms"),
    ]


def slope(samples: Sequence[dict[str, Any]]) -> float:
    """MB of memory for each job that ended, by least squares."""
    jobs = [float(s["ended"]) for s in samples]
    middle, mean = fmean(jobs), fmean(s["rss_mb"] for s in samples)
    spread = sum((x - middle) ** 2 for x in jobs)
    pairs = zip(jobs, samples, strict=True)
    return sum((x - middle) * (s["rss_mb"] - mean) for x, s in pairs) / spread if spread else 0.0


def _pids() -> list[int]:
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
