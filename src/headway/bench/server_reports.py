"""Jobs that run and report over HTTP, for the benchmark of the server. The benchmark reports in
their place, with their tokens: the jobs themselves sleep.
"""

import json
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from time import sleep
from typing import Self

from headway.backend.replica_env import LOCALHOST
from headway.backend.report_channel import TOKEN_FILE, ReportChannel
from headway.client import Client
from headway.metrics.http_reports import KUBEFLOW, SDK

HELD = {"cpu": "0.01", "memory": "1Mi"}
"""Request of each job, so low that all run at the same time."""


class ReportingJob:
    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._step = folder, 0
        token = (folder / TOKEN_FILE).read_text(encoding="ascii")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection = HTTPConnection(LOCALHOST, port)
        self.refused = 0

    def batch(self, size: int) -> Callable[[], None]:
        """A call that sends so many reports."""

        def send() -> None:
            first, self._step = self._step, self._step + size
            reports = [{"step": i, "loss": 1 / (1 + i)} for i in range(first, self._step)]
            self._post(SDK, {"reports": reports}, size)

        return send

    def single(self) -> Callable[[], None]:
        """A call that sends one report, by Kubeflow's protocol."""

        def send() -> None:
            self._step += 1
            metrics = [{"name": "current_step", "value": str(self._step)}]
            metrics.append({"name": "loss", "value": "0.5"})
            self._post(KUBEFLOW, {"trainerStatus": {"metrics": metrics}}, 1)

        return send

    def _post(self, path: str, body: object, count: int) -> None:
        self._connection.request("POST", path, json.dumps(body).encode(), self._headers)
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != 200:
            self.refused += count

    def lost(self) -> int:
        """Reports that were acknowledged and are not in the file."""
        with (self._folder / "reports.jsonl").open("rb") as file:
            return max(0, self._step - self.refused - sum(1 for _ in file))

    def close(self) -> None:
        self._connection.close()


class ReportingJobs:
    """Start jobs while it is entered, and wait until they run."""

    def __init__(self, data: Path, run: Path, count: int) -> None:
        self._data, self._run, self._count = data, run, count
        self._names: list[str] = []
        self.jobs: list[ReportingJob] = []

    def __enter__(self) -> Self:
        task = {"command": ["sleep", "3600"], "resources": {"requests": HELD}}
        entry = {"name": "reporting", "spec": {"tasks": [task]}}
        with Client.of(self._data) as client:
            self._names = client.submit([entry] * self._count, directory="/")
        port = ReportChannel.of(self._run).port
        for name in self._names:
            folder = self._run / "jobs" / name / "main-0"
            while not (folder / TOKEN_FILE).exists():
                sleep(0.05)
            self.jobs.append(ReportingJob(folder, port))
        return self

    def __exit__(self, *error: object) -> None:
        for job in self.jobs:
            job.close()
        with Client.of(self._data) as client:
            for name in self._names:
                client.cancel(name)
            while any(not client.job(name).ended for name in self._names):
                sleep(0.05)

    def lost(self) -> int:
        return sum(job.lost() for job in self.jobs)

    def refused(self) -> int:
        return sum(job.refused for job in self.jobs)
