"""Sample usage and metrics of every replica, for the display and the report.

Samples are not part of the journal. In a long run, the interval grows, so that the size of
`usage.jsonl` is logarithmic in time.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway import failpoint, private_files
from headway.backend.usage import UsageSample
from headway.core.model.units import Cores, CoreSeconds, JobId, NodeId, ReplicaId, Seconds
from headway.errors import reason_of
from headway.runtime.job_status import finite
from headway.runtime.step_pace import StepPace

if TYPE_CHECKING:  # slow, and `headway explain` only reads samples
    from headway.backend.live import LiveBackend
    from headway.backend.monitor import Watched

log = logging.getLogger("headway")
FIRST: Seconds = 0.2
EVERY: Seconds = 1.0
"""Interval between two samples: shorter at first, for jobs that take a second."""
FLOOD: Seconds = 0.1
"""Interval while a log grows fast, so that it is truncated in time."""
SELDOM = 5
"""Memory, which is expensive to read, is read at every such sample."""
MOST = 16 * 2**20
"""Size in bytes at which the file of an endless run is started anew. The file before it is kept."""
COARSER: Seconds = 600.0
"""After this time the interval grows in proportion to the elapsed time."""


@dataclass(slots=True)
class ReplicaSample:
    """Sample of one replica."""

    cpu: float = 0.0
    """Cores used since the last sample."""
    memory: int = 0
    throttled: float = 0.0
    value: float | None = None
    step: float | None = None
    total: float | None = None
    """Number of steps that the script has announced."""
    unreported: CoreSeconds = 0.0
    """CPU used since its last report, which the state of the loop does not have yet."""
    left: CoreSeconds | None = None
    """Remaining work, by the steps since the first sample; None: unknown."""
    rate: float | None = None
    """Steps per second at its present share; None: unknown."""
    rate_cpu: Cores = 0.0
    """Cores used meanwhile."""
    found: str = ""
    """Where its metric was found; empty: nowhere yet."""

    def plain(self) -> dict[str, Any]:
        return {
            "cpu": round(self.cpu, 4),
            "memory": self.memory,
            **({"throttled": round(self.throttled, 3)} if self.throttled else {}),
            **({"value": self.value} if self.value is not None else {}),
            **({"step": self.step} if self.step is not None else {}),
            **({"total": self.total} if self.total is not None else {}),
            **({"unreported": round(self.unreported, 2)} if self.unreported else {}),
            **({"left": round(self.left, 2)} if self.left is not None else {}),
            **(
                {"rate": self.rate, "rate_cpu": round(self.rate_cpu, 4)}
                if self.rate is not None
                else {}
            ),
        }


@dataclass(slots=True)
class UsageSampler:
    backend: "LiveBackend"
    path: Path
    then: Callable[["UsageSampler", Seconds], None] = lambda sampler, now: None
    """Called after each sample, for example by the display."""
    slowest: Seconds = inf
    """Longest interval between two samples. If finite, the size of the file is bounded too."""
    due: Seconds = 0.0
    latest: dict[str, ReplicaSample] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)
    """Values of each replica in their order. If there are many, every second one is dropped."""
    _looks: int = 0
    _full: bool = False
    _before: dict[tuple[str, int], tuple[Seconds, UsageSample]] = field(default_factory=dict)
    _sizes: dict[ReplicaId, int | None] = field(default_factory=dict)
    """Size of the output of each replica, as written to the file."""
    _found: dict[str, str] = field(default_factory=dict)
    """Where each metric was found, as written to the file."""
    _begun: dict[tuple[str, int], tuple[float, CoreSeconds]] = field(default_factory=dict)
    """First seen step of each attempt, and the CPU used until then."""
    _paces: dict[tuple[str, int], StepPace] = field(default_factory=dict)

    def look(self, now: Seconds) -> None:
        often = min(EVERY, FIRST + now / 20)
        self.due = now + max(often, min(self.slowest, now * EVERY / COARSER))
        exited, self._looks = self._exited(), self._looks + 1
        watched = list(self.backend.monitor.replicas.values())
        self.latest, shares = {}, self._shares()
        for w in watched:
            with self.backend.contained.of(w.id.job, "metrics"):
                self.latest[w.id] = self._sample(w, now, shares.get(w.id, 0.0))
        ended = self._ended(exited)
        running = {(w.id, w.attempt) for w in watched}
        self._before = {k: v for k, v in self._before.items() if k in running}
        self._begun = {k: v for k, v in self._begun.items() if k in running}
        self._paces = {k: v for k, v in self._paces.items() if k in running}
        if any(w.reader.flooded for w in watched):
            self.due = now + FLOOD
        if self.latest or exited:
            line = {
                "at_s": round(now, 3),
                "replicas": {k: n.plain() for k, n in self.latest.items()},
                **ended,
                **self._printed([*watched, *exited]),
            }
            new = {k: n.found for k, n in self.latest.items() if n.found != self._found.get(k, "")}
            if new:
                self._found |= new
                line["found"] = new
            self._append(line)
        self.then(self, now)

    def finish(self, now: Seconds) -> None:
        """Write the last metrics of replicas that have exited since the last sample."""
        if exited := self._exited():
            last = {**self._ended(exited), **self._printed(exited)}
            self._append({"at_s": round(now, 3), "replicas": {}, **last})

    def _exited(self) -> "list[Watched]":
        """Return the replicas that have exited since the last sample."""
        exited = list(self.backend.monitor.exited)
        self.backend.monitor.exited.clear()
        return exited

    def _ended(self, exited: "Iterable[Watched]") -> dict[str, Any]:
        """Return the last metrics of replicas that have exited."""
        names, ended = ("step", "total", "value", "found"), {}
        for w in exited:
            last = {name: getattr(w.reader, name) for name in names}
            last |= {"left": self._left(w, w.last.cpu), "unreported": _unreported(w)}
            ended[w.id] = {name: value for name, value in last.items() if value not in (None, "")}
        return {"ended": ended} if ended else {}

    def _printed(self, watched: "Iterable[Watched]") -> dict[str, Any]:
        """Return the sizes of outputs that have changed, by which `headway logs --since` knows when
        a line was printed.
        """
        sizes = {w.id: w.reader.printed for w in watched}
        new = {k: size for k, size in sizes.items() if size not in (None, self._sizes.get(k))}
        self._sizes = sizes
        return {"printed": new} if new else {}

    def _append(self, line: dict[str, Any]) -> None:
        """Append a line to the file. Errors, for example a full disk, are logged once."""
        try:
            failpoint.hit("usage.append")
            if self.slowest < inf and self.path.exists() and self.path.stat().st_size > MOST:
                self.path.replace(self.path.with_suffix(".1.jsonl"))
                self._found = {k: n.found for k, n in self.latest.items()}
                line["found"], line["printed"] = self._found, self._sizes
            with open(self.path, "a", encoding="utf-8", opener=private_files.opener) as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            if not self._full:
                log.warning("samples are not stored: %s", reason_of(error))
            self._full = True
        else:
            self._full = False

    def forget(self, job: JobId) -> None:
        """Drop the samples of an ended job."""
        for kept in (self.values, self._found):
            for name in [name for name in kept if ReplicaId(name).job == job]:
                del kept[name]

    def _shares(self) -> dict[ReplicaId, Cores]:
        """Return the cores that each replica gets if all use what they can."""
        replicas = [
            r for job in self.backend.controller.jobs.values() for r in job.replicas.values()
        ]
        weights: dict[NodeId, float] = {}
        for r in replicas:
            weights[r.node] = weights.get(r.node, 0.0) + r.weight
        cores = {name: node.capacity.cpu for name, node in self.backend.controller.nodes.items()}
        return {
            r.id: min(
                cores.get(r.node, 0.0) * r.weight / weights[r.node],
                inf if r.limit is None else r.limit,
            )
            for r in replicas
        }

    def _sample(self, w: "Watched", now: Seconds, share: Cores) -> ReplicaSample:
        w.reader.listen()
        used = self.backend.monitor.measure(w, cpu_only=bool(self._looks % SELDOM))
        at, last = self._before.get((w.id, w.attempt), (w.since, w.first))
        self._before[w.id, w.attempt] = (now, used)
        passed = used.periods - last.periods
        if (value := finite(w.reader.value)) is not None:
            self._keep(w.id, value)
        rate, rate_cpu = self._pace(w, now, used.cpu, share) or (None, 0.0)
        return ReplicaSample(
            cpu=max(0.0, used.cpu - last.cpu) / (now - at) if now > at else 0.0,
            memory=used.memory,
            throttled=(used.throttled - last.throttled) / passed if passed > 0 else 0.0,
            value=w.reader.value,
            step=w.reader.step,
            total=w.reader.total,
            unreported=_unreported(w),
            left=self._left(w, used.cpu),
            rate=rate,
            rate_cpu=rate_cpu,
            found=w.reader.found,
        )

    def _pace(
        self, w: "Watched", now: Seconds, used: CoreSeconds, share: Cores
    ) -> tuple[float, Cores] | None:
        if w.reader.step is None:
            return None
        pace = self._paces.setdefault((w.id, w.attempt), StepPace())
        pace.add(now, w.reader.step, used, share)
        return pace.rate(now, used)

    def _left(self, w: "Watched", used: CoreSeconds) -> CoreSeconds | None:
        job, step = self.backend.controller.jobs.get(w.id.job), w.reader.step
        total = w.reader.total or (job.spec.total_steps if job else None)
        if step is None or not total:
            return None
        first, before = self._begun.setdefault((w.id, w.attempt), (step, used))
        return (used - before) / (step - first) * max(0.0, total - step) if step > first else None

    def _keep(self, name: str, value: float) -> None:
        values = self.values.setdefault(name, [])
        values.append(value)
        if len(values) > 128:
            del values[1::2]


def _unreported(w: "Watched") -> CoreSeconds:
    return max(0.0, w.last.cpu - w.reported.cpu)


def samples(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the samples of a file. A line that was truncated by a crash is skipped."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for text in file:
            try:
                yield json.loads(text)
            except json.JSONDecodeError:
                continue
