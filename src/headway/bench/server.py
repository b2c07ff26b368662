"""`headway serve` under load: submissions, each durable before its answer, and reads meanwhile.

The load comes from this process, the server is another one. Its history holds 10,000 ended jobs.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from time import monotonic, process_time, sleep, time

from headway.bench.figure import Figure
from headway.client import Client
from headway.core.estimate.progress import percentile
from headway.core.model.units import Seconds
from headway.runtime.run_status import find_server, run_status
from headway.runtime.server import start_server
from headway.runtime.submissions import End, Submission, Submissions

HISTORY = 10_000
RATE = 200
"""Submissions a second."""
SECONDS = 10
CLIENTS = 32
"""Each waits for its answer: so many can share one transaction."""
READ_EVERY: Seconds = 0.02
LATER = "1h"
"""When the jobs of the load start: they measure the queue, not the machine."""


def bench_server(rate: int = RATE, seconds: int = SECONDS, history: int = HISTORY) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as folder:
        data = Path(folder)
        _make_history(data, history)
        with _serving(data) as started:
            listing = _listing(data)
            load = _Load(data, rate, seconds)
            load.run()
        [run] = [r for r in [find_server(data)] if r is not None]
        stored = {job.id for job in Submissions(run.path).unfinished()}
    many, reads = f"{history:,} jobs in history", 1e3 * percentile(load.reads, 0.99)
    return [
        Figure(f"{many}: start until the first answer", started, "s", 2.0),
        Figure(f"{many}: CPU of what ps does after its imports", 1e3 * listing, "ms", 200.0),
        Figure("submissions a second, seconds for each second of load", load.late, "", 1.05),
        Figure("submission, 99th percentile", 1e3 * percentile(load.submits, 0.99), "ms"),
        Figure("read of 100 jobs meanwhile, 99th percentile", reads, "ms", 100.0),
        Figure("acknowledged submissions that are not stored", len(load.names - stored), "", 0),
    ]  # fmt: skip


def _make_history(data: Path, count: int) -> None:
    server = start_server(data, "headway")
    server.run.backend.close()
    server.run.book.close()
    store, path = server.submissions, server.run.folder.path
    names = store.add([Submission(entry=_job(f"old-{i}"), directory="/") for i in range(count)])
    with store.together():
        for name in names:
            store.finish(name, End(outcome="succeeded", started=1.0, finished=2.0))
            (path / "jobs" / name / "main-0").mkdir(parents=True)
    store.close()
    server.run.folder.unlock()
    os.close(server.lock)


def _job(name: str) -> dict[str, object]:
    return {"name": name, "at": LATER, "spec": {"tasks": [{"command": ["true"]}]}}


@contextmanager
def _serving(data: Path) -> Iterator[Seconds]:
    """Run a server; yield how long it took until it answered."""
    began = monotonic()
    words = [sys.executable, "-m", "headway", "serve", "--data", str(data)]
    child = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        while (found := find_server(data)) is None or not found.locked:
            sleep(0.01)
        with Client(found.path) as client:
            client.server()
        yield monotonic() - began
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait()


def _listing(data: Path) -> Seconds:
    """CPU time in which the jobs of the server are read, as `headway ps` does."""
    found = find_server(data)
    assert found is not None  # noqa: S101 - it runs
    began = process_time()
    run_status(found)
    return process_time() - began


class _Load:
    """Clients that submit at a fixed rate, and one that reads."""

    def __init__(self, data: Path, rate: int, seconds: int) -> None:
        self._data, self._rate, self._seconds = data, rate, seconds
        self.submits: list[Seconds] = []
        self.reads: list[Seconds] = []
        self.names: set[str] = set()
        self.late = 0.0
        """How long the load took, over how long it should take."""
        self._over = False

    def run(self) -> None:
        began = time()
        clients = [Thread(target=self._submit, args=(began, i)) for i in range(CLIENTS)]
        reader = Thread(target=self._read)
        for thread in (*clients, reader):
            thread.start()
        for thread in clients:
            thread.join()
        self.late = (time() - began) / self._seconds
        self._over = True
        reader.join()

    def _submit(self, began: float, number: int) -> None:
        with Client.of(self._data) as client:
            for i in range(number, self._rate * self._seconds, CLIENTS):
                sleep(max(0.0, began + i / self._rate - time()))
                sent = monotonic()
                self.names.update(client.submit([_job("new")], directory="/"))
                self.submits.append(monotonic() - sent)

    def _read(self) -> None:
        with Client.of(self._data) as client:
            while not self._over:
                sent = monotonic()
                client.page(state="active")
                self.reads.append(monotonic() - sent)
                sleep(READ_EVERY)
