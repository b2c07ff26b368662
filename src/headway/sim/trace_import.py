"""Import traces of other clusters: Philly, ITP, and the Standard Workload Format.

A job with n GPUs (SWF: processors) becomes a gang of n replicas with the same running time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from headway.core.model.job import Estimate, Expected, JobSpec, Mode, Task
from headway.core.model.node import Node
from headway.core.model.units import JobId, NodeId, Resources, Seconds
from headway.errors import ConfigError, UnknownName, shown
from headway.sim.curve import Curve
from headway.sim.scenario import Arrival, Costs, Scenario
from headway.spec.bounded_file import csv_rows, read_lines


class Row(NamedTuple):
    """One job of a trace."""

    at: Seconds
    lasts: Seconds
    devices: int
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster to simulate, and which jobs of the trace to use."""

    nodes: int = 128
    devices: int = 4
    """GPUs (SWF: cores) of each node."""
    first: int | None = None
    """Use only this many jobs, in order of submission."""
    shortest: Seconds = 0.0
    largest: int | None = None
    """Leave out jobs that are shorter or need more devices."""


MAX_SECONDS: Seconds = 1e12
"""Absolute value of a time; year 9999 is 2.5e11."""


def read_trace(path: Path, form: str, cluster: Cluster) -> Scenario:
    if form not in FORMATS:
        raise UnknownName("trace format", form, FORMATS)
    rows = list(FORMATS[form](read_lines(path, "this trace"), str(path)))
    rows.sort(key=lambda r: r.at)  # stable: ties stay in the order of the file
    most = cluster.nodes * cluster.devices
    kept = [r for r in rows if r.lasts >= cluster.shortest and r.lasts > 0]
    kept = [r for r in kept if r.devices <= (cluster.largest or r.devices)][: cluster.first]
    if not kept:
        raise ConfigError(
            "no job of this trace matches the options",
            where=str(path),
            hint="relax --first, --shortest or --largest",
        )
    big = max(kept, key=lambda r: r.devices)
    if big.devices > most:
        raise ConfigError(
            f"a job needs {big.devices} devices, but all nodes together have {most}",
            where=str(path),
            hint="give more or larger nodes (--nodes, --devices), or leave them out (--largest)",
        )
    return _scenario(kept, cluster, cores=form == "swf")


def _scenario(rows: list[Row], cluster: Cluster, *, cores: bool) -> Scenario:
    one = Resources(cpu=1.0) if cores else Resources(gpu=1.0)
    tasks: dict[int, tuple[Task, ...]] = {}
    start, curve = rows[0].at, Curve()
    jobs = []
    for i, row in enumerate(rows):
        n = row.devices
        if n not in tasks:
            tasks[n] = (Task(name="worker", replicas=n, least=n, most=n, request=one),)
        work = row.lasts * n
        spec = JobSpec(
            tasks=tasks[n],
            expected=Expected(work=Estimate(value=work), demand=1.0),
            checkpoint=Mode.SDK,
        )
        name = JobId(row.name or f"job-{i + 1}")
        jobs.append(Arrival(id=name, at=row.at - start, spec=spec, work=work, curve=curve))
    devices = float(cluster.devices)
    capacity = Resources(cpu=devices, memory=2.0**40, gpu=0.0 if cores else devices)
    nodes = tuple(Node(id=NodeId(f"node-{i}"), capacity=capacity) for i in range(cluster.nodes))
    return Scenario(nodes=nodes, jobs=tuple(jobs), costs=Costs(save=0.0, restore=0.0))


def _philly(file: Iterable[str], where: str) -> Iterator[Row]:
    """The compact table: timestamp, duration, num_gpus, gpu_time, cluster."""
    has = "timestamp like 2017-10-09 07:01:55, duration in seconds, num_gpus a whole number"
    columns = ("timestamp", "duration", "num_gpus")
    return _table(file, where, columns, has, lambda at: datetime.fromisoformat(at).timestamp())


def _itp(file: Iterable[str], where: str) -> Iterator[Row]:
    """Microsoft's 2021 tables: job_id, submission_time, num_gpu, duration among others."""
    has = "submission_time and duration in seconds, num_gpu a whole number"
    return _table(file, where, ("submission_time", "duration", "num_gpu"), has, float)


def _swf(file: Iterable[str], where: str) -> Iterator[Row]:
    """The Standard Workload Format: 18 numbers in a line, -1 if unknown."""
    has = "18 numbers: second the submission and fourth the run time in seconds, fifth the cores"
    for number, line in enumerate(file, 1):
        words = line.split()
        if not words or words[0].startswith(";"):
            continue
        try:
            used, asked = int(words[4]), int(words[7])
            lasts = float(words[3])
            if lasts > 0 and max(used, asked) > 0:  # otherwise it never ran
                yield _row(float(words[1]), lasts, used if used > 0 else asked)
        except UNREADABLE:
            raise _invalid(f"{where}:{number}", words, has) from None


def _table(
    file: Iterable[str],
    where: str,
    names: tuple[str, str, str],
    has: str,
    time: Callable[[str], Seconds],
) -> Iterator[Row]:
    """A CSV file with a header. `names`: the columns of submission, duration and devices."""
    rows = csv_rows(file, where)
    _, header = next(rows, (1, []))
    lacking = [n for n in names if n not in header]
    if lacking:
        raise ConfigError(
            f"this trace has no column {lacking[0]!r}",
            where=f"{where}:1",
            hint=f"its first line must name: {', '.join(names)}",
        )
    at, lasts, devices = columns = [header.index(n) for n in names]
    for number, row in rows:
        try:
            yield _row(time(row[at]), float(row[lasts]), int(row[devices]))
        except UNREADABLE:
            words = [row[i] for i in columns if i < len(row)]
            raise _invalid(f"{where}:{number}", words, has) from None


def _row(at: Seconds, lasts: Seconds, devices: int) -> Row:
    """Raise if a time is not finite, absurdly large, or there are no devices."""
    if not (abs(at) <= MAX_SECONDS and abs(lasts) <= MAX_SECONDS and devices > 0):
        raise ValueError
    return Row(at, lasts, devices)


UNREADABLE = (ValueError, IndexError, OverflowError, OSError)
"""What reading the words of a line can raise."""


def _invalid(where: str, words: Sequence[str], has: str) -> ConfigError:
    """The error of a line, which must contain `has`."""
    what = f"invalid job: {', '.join(map(shown, words[:8]))}"
    return ConfigError(what, where=where, hint=f"expected: {has}")


FORMATS: dict[str, Callable[[Iterable[str], str], Iterator[Row]]] = {
    "philly": _philly,
    "itp": _itp,
    "swf": _swf,
}
