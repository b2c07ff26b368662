"""`headway serve` under load: submissions, each durable before its answer, reports, and reads
meanwhile.

The load comes from this process, the server is another one. Its history holds 10,000 ended jobs.
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from time import monotonic, process_time, sleep, time

from headway.bench.figure import Figure
from headway.bench.server_reports import ReportingJobs
from headway.client import Client
from headway.core.estimate.progress import percentile
from headway.core.model.units import Seconds
from headway.runtime.run_status import find_server, run_status
from headway.runtime.server import start_server
from headway.runtime.submissions import End, Submission, Submissions

HISTORY = 10_000
RATE = 200
"""Submissions a second."""
REPORTS, BATCH, SINGLE = 5000, 100, 500
"""Reports a second in batches, of so many, and single ones a second."""
JOBS = 50
"""That report."""
SECONDS = 10
CLIENTS = 32
"""Each waits for its answer: so many can share one transaction."""
READ_EVERY: Seconds = 0.02
LATER = "1h"
"""When the jobs of the load start: they measure the queue, not the machine."""
Call = Callable[[], None]


def bench_server(
    rate: int = RATE,
    seconds: int = SECONDS,
    history: int = HISTORY,
    reports: int = REPORTS,
    single: int = SINGLE,
    jobs: int = JOBS,
) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as folder:
        data = Path(folder)
        _make_history(data, history)
        with serving(data) as started:
            listing, whole = _listing(data), _ps(data)
            names: set[str] = set()
            load = Load(data, rate, seconds)
            with ExitStack() as stack:
                clients = [stack.enter_context(Client.of(data)) for _ in range(CLIENTS)]
                load.run([partial(_submit, client, names) for client in clients])
            [run] = [r for r in [find_server(data)] if r is not None]
            stored = {job.id for job in Submissions(run.path).unfinished()}
            with ReportingJobs(data, run.path, jobs) as reporting:
                batches = Load(data, reports // BATCH, seconds)
                batches.run([each.batch(BATCH) for each in reporting.jobs])
                singles = Load(data, single, seconds)
                singles.run([each.single() for each in reporting.jobs])
                lost, refused = reporting.lost(), reporting.refused()
    many = f"{history:,} jobs in history"
    return [
        Figure(f"{many}: start until the first answer", started, "s", 2.0),
        Figure(f"{many}: CPU of what ps does after its imports", 1e3 * listing, "ms", 200.0),
        Figure(f"{many}: CPU of headway ps in all", 1e3 * whole, "ms", 200.0),
        *load.figures(f"{rate} submissions a second"),
        Figure("acknowledged submissions that are not stored", len(names - stored), "", 0),
        *batches.figures(f"{reports:,} reports a second of {jobs} jobs, {BATCH} at once"),
        *singles.figures(f"{single} single reports a second of {jobs} jobs"),
        Figure("acknowledged reports that are not stored", lost, "", 0),
        Figure("reports that were refused", refused, "", 0),
    ]  # fmt: skip


def _make_history(data: Path, count: int) -> None:
    server = start_server(data, "headway")
    server.run.backend.close()
    server.run.journal.close()
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
def serving(data: Path, policy: str = "headway") -> Iterator[Seconds]:
    """Run a server; yield how long it took until it answered."""
    began = monotonic()
    words = [sys.executable, "-m", "headway", "serve", "--data", str(data), "--policy", policy]
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


def _ps(data: Path) -> Seconds:
    """CPU time of the command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "headway", "ps", "--data", str(data)]
    subprocess.run(words, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _submit(client: Client, names: set[str]) -> None:
    names.update(client.submit([_job("new")], directory="/"))


class Load:
    """Clients that together make so many calls a second, and one that reads meanwhile."""

    def __init__(self, data: Path, rate: int, seconds: int) -> None:
        self._data, self._rate, self._seconds = data, rate, seconds
        self._times: list[Seconds] = []
        self._reads: list[Seconds] = []
        self._late = 0.0
        """How long the load took, over how long it should take."""
        self._over = False

    def run(self, calls: list[Call]) -> None:
        """`calls`: one for each client."""
        began = time()
        clients = [
            Thread(target=self._repeat, args=(call, began, i, len(calls)))
            for i, call in enumerate(calls)
        ]
        reader = Thread(target=self._read)
        for thread in (*clients, reader):
            thread.start()
        for thread in clients:
            thread.join()
        self._late = (time() - began) / self._seconds
        self._over = True
        reader.join()

    def figures(self, what: str) -> list[Figure]:
        answers, reads = (1e3 * percentile(t, 0.99) for t in (self._times, self._reads))
        return [
            Figure(f"{what}: seconds for each second of load", self._late, "", 1.05),
            Figure(f"{what}: answer, 99th percentile", answers, "ms"),
            Figure(f"{what}: read of 100 jobs meanwhile, 99th percentile", reads, "ms", 100.0),
        ]

    def _repeat(self, call: Call, began: float, number: int, clients: int) -> None:
        for i in range(number, self._rate * self._seconds, clients):
            sleep(max(0.0, began + i / self._rate - time()))
            sent = monotonic()
            call()
            self._times.append(monotonic() - sent)

    def _read(self) -> None:
        with Client.of(self._data) as client:
            while not self._over:
                sent = monotonic()
                client.page(state="active")
                self._reads.append(monotonic() - sent)
                sleep(READ_EVERY)
