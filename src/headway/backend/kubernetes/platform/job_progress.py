"""Writes the progress of each job to its status: step, metric, usage, and remaining time."""

from collections.abc import Callable, Mapping

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.platform.job_status import JobStatus, now
from headway.backend.kubernetes.platform.status_writer import StatusWriter
from headway.backend.kubernetes.reports.pod_metrics import PodMetrics
from headway.controller.records import chief
from headway.core.model.units import JobId, ReplicaId, Seconds

EVERY: Seconds = 10.0
"""Shortest time between two writes of the progress of a job,"""
PER_JOB: Seconds = 0.1
"""and this time multiplied by the number of jobs, to limit the load of the API server."""
LONGEST: Seconds = 100 * 86400.0

Known = Callable[[Plain], tuple[JobStatus, ReplicaId, int] | None]


class JobProgress:
    def __init__(
        self,
        records: Mapping[JobId, JobStatus],
        writer: StatusWriter,
        clock: Callable[[], Seconds],
        known: Known,
    ) -> None:
        """`known`: returns the job, replica and attempt of a pod."""
        self._records, self._writer, self._clock, self._known = records, writer, clock, known
        self._written: dict[JobId, Seconds] = {}
        self._changed: set[JobId] = set()

    def reported(self, pod: Plain, metrics: PodMetrics) -> None:
        """Store a report of the chief of a job, also shortly after its end."""
        known = self._known(pod)
        if known is None:
            return
        record, replica, attempt = known
        lead = chief(record.id, [t.name for t in record.core.tasks])
        if replica == lead and attempt >= record.reported and metrics.updated is not None:
            record.reported = attempt
            record.progress = describe(metrics, record.core.total_steps)
            self._changed.add(record.id)

    def flush(self) -> None:
        """Write what has changed, the first report of each job at once."""
        if not self._changed:
            return
        for gone in self._written.keys() - self._records.keys():
            del self._written[gone]
        at, pause = self._clock(), max(EVERY, PER_JOB * len(self._records))
        for name in sorted(self._changed):
            record = self._records.get(name)
            if record is None or record.gone:
                self._changed.discard(name)
            elif at >= self._written.get(name, at - pause) + pause:
                self._changed.discard(name)
                self._written[name] = at
                self._writer.write(record)


def describe(metrics: PodMetrics, declared: float | None) -> Plain:
    total, step, rate = metrics.total or declared, metrics.step, metrics.rate()
    found: Plain = {"metric": metrics.metric, "updateTime": now()}
    if metrics.value is not None:
        found["value"] = f"{metrics.value:.6g}"
    if step is not None:
        found |= {"step": step, "done": f"step {step:.6g}"}
    if step is not None and total:
        found |= {"totalSteps": total, "done": f"{min(100.0, 100 * step / total):.0f}%"}
        if rate and step < total:
            found["remaining"] = duration((total - step) / rate)
    cores, memory = metrics.cores(), metrics.memory
    if cores is not None:
        found["cpu"] = f"{round(1000 * cores)}m"
    if memory is not None:
        found["memory"] = f"{round(memory / 2**20)}Mi"
    return found


def duration(seconds: Seconds) -> str:
    """Format a duration as kubectl formats ages, with about two digits.

    >>> duration(42), duration(320), duration(7300), duration(500_000)
    ('42s', '5m20s', '2h1m', '5d18h')
    """
    whole = int(min(seconds, LONGEST))
    units = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    i = next((i for i, (size, _) in enumerate(units) if whole >= size), 3)
    size, name = units[i]
    rest = whole % size
    text = f"{whole // size}{name}"
    if i == 3 or not rest // units[i + 1][0]:
        return text
    return f"{text}{rest // units[i + 1][0]}{units[i + 1][1]}"
