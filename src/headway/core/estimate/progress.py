"""Growth, progress rate and growth efficiency of a replica, from its metric history.

There are two ways to compare values of different jobs. The papers' code divides a loss by the
largest loss so far, which needs positive, minimized values. The other divides the improvement by
the range so far, so that scale, offset and direction of a metric do not matter.
"""

from collections.abc import Callable, Iterable, Sequence

from headway.core.model.report import MetricHistory, Usage, Window
from headway.core.model.serialization import record
from headway.core.model.units import Cores, Seconds


@record
class Growth:
    """Change from one interval to the next."""

    growth: float
    """Change of the value, comparable between jobs; about 0 to 1."""
    rate: float
    """Growth per second: the papers' P (equation 4.1)."""
    used: Cores
    """Mean cores over the interval."""

    def efficiency(self, cores: Cores) -> float | None:
        """Rate per fraction of the node used: FlowCon's G (equation 4.2); None: nothing used."""
        return self.rate * cores / self.used if self.used > 0 else None


def paper_progress(
    history: MetricHistory, at: Seconds, interval: Seconds, *, hold: bool = False
) -> Growth | None:
    """Return the growth as in the papers' code: |change of the mean loss| over the largest loss.

    None if an interval has no report or the loss is not positive. `hold`: an interval without a
    value has the last value (SpeCon).
    """
    both = _two_means(history, at, interval, hold=hold)
    used = _mean(history.windows, at - interval, at, lambda w: w.cpu)
    if both is None or used is None or history.base is None or history.base + history.high <= 0:
        return None
    growth = abs(both[1] - both[0]) / (history.base + history.high)
    return Growth(growth=growth, rate=growth / interval, used=used)


def progress(
    history: MetricHistory, at: Seconds, interval: Seconds, *, sign: float
) -> Growth | None:
    """Return the improvement over two whole intervals, as a fraction of the range so far.

    `sign` is -1 if smaller is better. The growth of a value that got worse is 0, not |change|.
    """
    if not history.windows or history.windows[0].since > at - 2 * interval:
        return None  # fewer than two whole intervals: unknown
    both = _two_means(history, at, interval)
    used = _mean(history.windows, at - interval, at, lambda w: w.cpu)
    if both is None or used is None:
        return None
    spread = value_range(history)
    growth = max(0.0, sign * (both[1] - both[0])) / spread if spread > 0 else 0.0
    return Growth(growth=growth, rate=growth / interval, used=used)


def efficiencies(history: MetricHistory, usage: Usage | None, *, sign: float) -> dict[str, float]:
    """Growth efficiency by resource (equation 4.2), between the last two reports: improvement a
    second, as a fraction of the range so far, per core, GiB of memory, and MiB/s of I/O. Resources
    that are not used or not counted are left out.
    """
    values = [w.value for w in history.windows[-2:] if w.value is not None]
    spread = value_range(history)
    if usage is None or len(values) < 2 or spread <= 0:
        return {}
    last = history.windows[-1]
    rate = max(0.0, sign * (values[1] - values[0])) / spread / (last.at - last.since)
    used = {
        "cpu": usage.cpu,
        "memory": usage.memory / 2**30,
        "block_io": usage.block_io / 2**20,
        "network_io": (usage.network_io or 0.0) / 2**20,
    }
    return {name: rate / amount for name, amount in used.items() if amount > 0}


def value_range(history: MetricHistory) -> float:
    """Return the range from the 5th to the 95th percentile of all values."""
    values = sorted(w.value for w in history.windows if w.value is not None)
    return percentile(values, 0.95) - percentile(values, 0.05)


def percentile(ordered: Sequence[float], q: float) -> float:
    """Return the q-quantile of sorted values, interpolated linearly; 0 if there are none.

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
    history: MetricHistory, at: Seconds, interval: Seconds, *, hold: bool = False
) -> tuple[float, float] | None:
    before = _mean(history.windows, at - 2 * interval, at - interval, lambda w: w.value)
    now = _mean(history.windows, at - interval, at, lambda w: w.value)
    if hold:
        before = _last(history, at - 2 * interval) if before is None else before
        now = before if now is None else now
    return None if before is None or now is None else (before, now)


def _last(history: MetricHistory, until: Seconds) -> float | None:
    values = (w.value for w in reversed(history.windows) if w.at <= until and w.value is not None)
    return next(values, None)


def _mean(
    windows: Iterable[Window], since: Seconds, until: Seconds, of: Callable[[Window], float | None]
) -> float | None:
    """Return the mean over an interval. Each window is weighted by its overlap."""
    total = time = 0.0
    for w in windows:
        overlap = min(w.at, until) - max(w.since, since)
        value = of(w)
        if overlap > 0 and value is not None:
            total += value * overlap
            time += overlap
    return total / time if time > 0 else None
