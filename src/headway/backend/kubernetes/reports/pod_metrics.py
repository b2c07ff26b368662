"""Metrics and usage of a pod, reported by itself or by the agent of its node."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headway.backend.usage import UsageSample
from headway.core.model.report import bounded
from headway.core.model.units import Seconds
from headway.metrics.log_parser import ParsedMetric
from headway.metrics.reader import MAX_MESSAGE, Heard, ReplicaMetrics

STALE: Seconds = 15.0
"""Age from which on a sample does not count as the present usage."""
SAMPLES = 6
"""Number of samples over which usage is averaged, about ten seconds."""
ANCHOR: Seconds = 60.0
"""Steps per second are measured over one to two of these intervals."""


class PodMetrics(ReplicaMetrics):
    """Filled in the loop's thread."""

    def __init__(self, metric: str) -> None:
        super().__init__(metric)
        self.line = ""
        """The first line of its log that had the metric."""
        self.position = ""
        """Time stamp of the last line of its log that was parsed."""
        self._samples: deque[tuple[Seconds, float, UsageSample]] = deque(maxlen=SAMPLES)
        """Samples with their time of arrival, and of measurement by the clock of the node."""
        self._anchors: deque[tuple[Seconds, float]] = deque(maxlen=2)
        """Time and step, at least `ANCHOR` apart."""
        self.checkpoint = ""
        """Newest checkpoint that the SDK has saved; "": none."""
        self.reports = 0
        self.updated: Seconds | None = None
        """Time of the last report."""

    def hear(self, reports: list[Any], now: Seconds) -> None:
        """Add reports of the pod itself."""
        for fields in reports:
            if isinstance(fields, dict) and "checkpoint" in fields:
                self.checkpoint = str(fields["checkpoint"])[:MAX_MESSAGE]
            else:
                self.read_report(fields)
        self._progressed(now, len(reports))

    def parsed(self, entries: list[Any], now: Seconds) -> None:
        """Add entries that the agent has parsed from the log. An entry represents one or more
        lines.
        """
        if self.sdk:
            return
        for step, mean, high, count, total in entries:
            self.record(ParsedMetric(step=_number(step), total=_number(total)))
            if mean is not None and int(count) > 0:
                value = bounded(float(mean))
                heard = Heard(int(count), value, bounded(float(value if high is None else high)))
                self.heard.merge(heard)
                self.value = value
        self._progressed(now, sum(int(entry[3]) for entry in entries))

    def noted(self, trouble: str) -> None:
        if trouble:
            self.heard.trouble = trouble[:MAX_MESSAGE]

    def _progressed(self, now: Seconds, reports: int) -> None:
        self.reports += reports
        if not reports:
            return
        self.updated = now
        if self.step is None:
            return
        if self._anchors and self.step < self._anchors[-1][1]:
            self._anchors.clear()  # the training has restarted
        if not self._anchors or now - self._anchors[-1][0] >= ANCHOR:
            self._anchors.append((now, self.step))

    def rate(self) -> float | None:
        """Return recent steps per second; None: unknown."""
        if not self._anchors or self.updated is None or self.step is None:
            return None
        at, step = self._anchors[0]
        if self.updated <= at or self.step <= step:
            return None
        return (self.step - step) / (self.updated - at)

    def measured(self, sample: UsageSample, at: float, now: Seconds) -> None:
        self._samples.append((now, at, sample))

    def cores(self) -> float | None:
        """Return the cores that were recently used."""
        if len(self._samples) < 2:
            return None
        (_, then, before), (_, at, last) = self._samples[0], self._samples[-1]
        return max(0.0, last.cpu - before.cpu) / (at - then) if at > then else None

    def usage(self, now: Seconds | None) -> UsageSample | None:
        """Return the usage, extrapolated until `now`; None: unknown. `now` None: of a pod that has
        ended, the last sample.
        """
        if not self._samples:
            return None
        arrived, _, last = self._samples[-1]
        if now is None:
            return last
        if now - arrived > STALE:
            return None
        return replace(last, cpu=last.cpu + (self.cores() or 0.0) * max(0.0, now - arrived))

    @property
    def memory(self) -> int | None:
        return self._samples[-1][2].memory if self._samples else None


def _number(found: Any) -> float | None:
    return None if found is None else float(found)


class PodReader(ReplicaMetrics):
    """The metrics of an attempt, whose pod may not exist yet."""

    def __init__(self, metric: str, find: Callable[[], PodMetrics | None]) -> None:
        super().__init__(metric)
        self._find, self._found = find, ""

    def listen(self) -> None:
        there = self._find()
        if there is None:
            return
        self.heard.merge(there.report())
        self.step, self.value, self.total = there.step, there.value, there.total
        self.spoke, self.sdk = there.spoke, there.sdk
        by = f"{self.metric} by the SDK" if there.sdk else ""
        self._found = by or (f'{self.metric} in its log, line "{there.line}"' if there.line else "")

    @property
    def found(self) -> str:
        return self._found
