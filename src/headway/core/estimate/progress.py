"""Growth, progress rate and growth efficiency: what a track says of a replica.

Two ways to make values of different jobs comparable. The papers' code divides a loss by the
largest one seen; that needs positive, minimised values. Ours divides an improvement by the
range seen, so that neither scale, offset nor direction of a metric matters.
"""

from collections.abc import Callable, Iterable, Sequence

from headway.core.model.report import MetricHistory, Window
from headway.core.model.serialization import record
from headway.core.model.units import Cores, Seconds


@record
class Progress:
    """What one interval brought, against the interval before it."""

    growth: float
    """Change of the value over the interval, comparable between jobs; in [0, 1] or near it."""
    rate: float
    """Growth per second: the papers' P (equation 4.1)."""
    used: Cores
    """Mean cores over the interval."""

    def efficiency(self, cores: Cores) -> float | None:
        """Rate per fraction of the node used: FlowCon's G (equation 4.2); None if it used
        nothing, for then there is nothing to judge by.
        """
        return self.rate * cores / self.used if self.used > 0 else None


def paper_progress(
    track: MetricHistory, at: Seconds, interval: Seconds, *, hold: bool = False
) -> Progress | None:
    """As the papers' code does it: |change of the mean loss| over the largest loss seen.

    None where either interval has no report, or the loss is not positive. `hold`: a job that
    said nothing in an interval still has the value that it said last (SpeCon).
    """
    both = _two_means(track, at, interval, hold=hold)
    used = _mean(track.windows, at - interval, at, lambda w: w.cpu)
    if both is None or used is None or track.base is None or track.base + track.high <= 0:
        return None
    growth = abs(both[1] - both[0]) / (track.base + track.high)
    return Progress(growth=growth, rate=growth / interval, used=used)


def progress(
    track: MetricHistory, at: Seconds, interval: Seconds, *, sign: float
) -> Progress | None:
    """Improvement over two whole intervals, as a part of the range seen so far.

    `sign` is -1 where smaller is better. A value that got worse has growth 0, not |change|.
    """
    if not track.windows or track.windows[0].since > at - 2 * interval:
        return None  # fewer than two whole intervals: unknown
    both = _two_means(track, at, interval)
    used = _mean(track.windows, at - interval, at, lambda w: w.cpu)
    if both is None or used is None:
        return None
    spread = value_range(track)
    growth = max(0.0, sign * (both[1] - both[0])) / spread if spread > 0 else 0.0
    return Progress(growth=growth, rate=growth / interval, used=used)


def value_range(track: MetricHistory) -> float:
    """From the 5th to the 95th percentile of the values seen."""
    values = sorted(w.value for w in track.windows if w.value is not None)
    return percentile(values, 0.95) - percentile(values, 0.05)


def percentile(ordered: Sequence[float], q: float) -> float:
    """The q-quantile of sorted values, interpolated linearly; 0 if there are none.

    >>> percentile([1.0, 2.0, 3.0], 0.75)
    2.5
    """
    if not ordered:
        return 0.0
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _two_means(
    track: MetricHistory, at: Seconds, interval: Seconds, *, hold: bool = False
) -> tuple[float, float] | None:
    before = _mean(track.windows, at - 2 * interval, at - interval, lambda w: w.value)
    now = _mean(track.windows, at - interval, at, lambda w: w.value)
    if hold:
        before = _last(track, at - 2 * interval) if before is None else before
        now = before if now is None else now
    return None if before is None or now is None else (before, now)


def _last(track: MetricHistory, until: Seconds) -> float | None:
    said = (w.value for w in reversed(track.windows) if w.at <= until and w.value is not None)
    return next(said, None)


def _mean(
    windows: Iterable[Window], since: Seconds, until: Seconds, of: Callable[[Window], float | None]
) -> float | None:
    """Mean over a stretch of time; windows count by how much of them lies in it."""
    total = time = 0.0
    for w in windows:
        overlap = min(w.at, until) - max(w.since, since)
        value = of(w)
        if overlap > 0 and value is not None:
            total += value * overlap
            time += overlap
    return total / time if time > 0 else None
