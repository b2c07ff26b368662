"""Join metrics and usage of running replicas into reports."""

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from headway.backend.base import Platform
from headway.backend.usage import UsageSample
from headway.core.model.report import Report, Usage
from headway.core.model.units import Bytes, CoreSeconds, JobId, NodeId, ReplicaId, Seconds
from headway.metrics.reader import MetricsReader, ReplicaMetrics
from headway.spec.runnable import RunnableJob

REREAD = 64 * 2**10
"""Bytes of earlier output that are read again after a restart. The journal has the rest."""
BOUND: Seconds = 1.0
"""Interval between two checks for logs that are too long, for up to a thousand replicas."""
EXITED = 1000
"""Maximum number of exited replicas whose last metrics are kept until the next sample."""
NONE_YET = UsageSample()


@dataclass(slots=True)
class Watched:
    id: ReplicaId
    attempt: int
    node: NodeId
    reader: ReplicaMetrics
    since: Seconds
    """Time at which the attempt was first seen."""
    reported_at: Seconds
    first: UsageSample = NONE_YET
    last: UsageSample = NONE_YET
    reported: UsageSample = NONE_YET
    """Usage at the last report."""
    known: bool = True
    """Whether the platform can measure its usage."""
    restarted: bool = True
    """Whether the next report is the first one. It may begin at any step, and includes the CPU that
    the start of the process used."""


@dataclass(slots=True)
class Totals:
    """Totals of a job over its ended replicas."""

    used: CoreSeconds = 0.0
    peak: Bytes = 0.0
    step: float = 0.0


class Monitor:
    def __init__(self, platform: Platform, folder: Path, jobs: Mapping[JobId, RunnableJob]) -> None:
        self._platform, self._jobs = platform, jobs
        self._folder = folder / "jobs"
        self.replicas: dict[ReplicaId, Watched] = {}
        self.totals: dict[JobId, Totals] = {}
        self._bounded_at: Seconds = 0.0
        self._expected: dict[ReplicaId, tuple[int, ReplicaMetrics]] = {}
        self.exited: deque[Watched] = deque(maxlen=EXITED)
        """Replicas that have exited since the last sample, the next of which has their metrics."""

    def expect(self, replica: ReplicaId, attempt: int) -> None:
        """Note that an attempt is about to start: output from now on belongs to it."""
        self._expected[replica] = attempt, self._reader(replica, attempt, 0)

    def open(
        self, replica: ReplicaId, attempt: int, node: NodeId, now: Seconds, *, resumed: bool
    ) -> None:
        """Watch a running attempt. `resumed`: an earlier process has started it."""
        known = self.replicas.get(replica)
        if known is not None and known.attempt == attempt:
            return
        expected, reader = self._expected.pop(replica, (None, None))
        if reader is None or expected != attempt:
            reader = self._reader(replica, attempt, REREAD if resumed else 0)
        w = self.replicas[replica] = Watched(replica, attempt, node, reader, now, now)
        self.measure(w)
        w.first = w.reported = w.last

    def _reader(self, replica: ReplicaId, attempt: int, back: int) -> ReplicaMetrics:
        remote = self._platform.metrics(replica, attempt)
        if remote is not None:
            return remote
        folder = self._folder / replica
        job = self._jobs.get(replica.job)
        if job is None:
            return MetricsReader(folder, back=back)
        return MetricsReader(folder, job.metric, job.pattern, job.log, back=back)

    def continue_reports(self, reported: Mapping[ReplicaId, tuple[Seconds, CoreSeconds]]) -> None:
        """Continue the reports of an earlier process, so that the next reports include the time in
        between. `reported`: time of the last report of each replica, and its CPU until then.
        """
        for w in self.replicas.values():
            at, cpu = reported.get(w.id, (w.since, inf))
            if cpu <= w.last.cpu:  # otherwise it is of another attempt
                w.reported_at, w.reported = at, replace(w.last, cpu=cpu, idle=None)
                w.restarted = False

    def close(self, replica: ReplicaId, attempt: int) -> None:
        """End watching an exited attempt: read its last metrics and usage."""
        w = self.replicas.get(replica)
        if w is None or w.attempt != attempt:
            return
        del self.replicas[replica]
        w.reader.listen()
        totals = self.totals.setdefault(replica.job, Totals())
        totals.used += self.measure(w).cpu
        totals.step = max(totals.step, w.reader.step or 0.0)
        w.reader.close()
        self.exited.append(w)

    def bound_logs(self, now: Seconds) -> None:
        """Truncate long logs, also while there are no cycles and samples."""
        if now >= self._bounded_at + max(BOUND, BOUND * len(self.replicas) / 1000):
            self._bounded_at = now
            for w in self.replicas.values():
                if w.reader.too_long:
                    w.reader.listen()

    def measure(self, w: Watched, *, cpu_only: bool = False) -> UsageSample:
        with suppress(OSError):  # its cgroup may be removed: keep the last sample
            sample = self._platform.read(w.id, w.last if cpu_only else None)
            w.known = sample is not None
            if w.last is NONE_YET and sample is not None:
                w.first = sample
            w.last = sample or w.last
        totals = self.totals.setdefault(w.id.job, Totals())
        totals.peak = max(totals.peak, w.last.memory)
        return w.last

    def report(self, w: Watched, now: Seconds, notice: str) -> Report | None:
        """Return the mean metrics and the usage since the last report; None: unknown."""
        if now <= w.reported_at:
            return None
        w.reader.listen()
        before, since, after = w.reported, w.reported_at, self.measure(w)
        if not (w.known or w.reader.heard.count):
            return None
        measured = w.known and before is not NONE_YET  # otherwise the interval is unknown
        w.reported, w.reported_at = after, now
        heard, elapsed = w.reader.report(), now - since
        restarted, w.restarted = w.restarted, False
        periods = after.periods - before.periods
        return Report(
            replica=w.id,
            since=since,
            at=now,
            step=w.reader.step,
            value=heard.mean if heard.count else None,
            high=heard.high,
            usage=Usage(
                cpu=max(0.0, after.cpu - before.cpu) / elapsed,
                memory=float(after.memory),
                block_io=max(0, after.block_io - before.block_io) / elapsed,
                network_io=_rate(before.network_io, after.network_io, elapsed),
                throttled=(after.throttled - before.throttled) / periods if periods > 0 else 0.0,
                idle=_rate(before.idle, after.idle, elapsed),
            )
            if measured
            else None,
            trouble=heard.trouble or notice,
            restarted=restarted,
        )


def _rate(before: float | None, after: float | None, elapsed: Seconds) -> float | None:
    return None if before is None or after is None else max(0, after - before) / elapsed
