"""What is heard of a replica between two looks, and the track that these leave behind."""

from headway.core.model.serialization import record
from headway.core.model.units import Bytes, Cores, ReplicaId, Seconds, Share


@record
class Usage:
    """What a replica consumed, averaged over the time since the last look."""

    cpu: Cores = 0.0
    memory: Bytes = 0.0
    block_io: float = 0.0
    """Bytes a second, read and written."""
    network_io: float = 0.0
    """Bytes a second, sent and received."""
    throttled: Share = 0.0
    """Part of the scheduler's periods in which its ceiling held it back."""


@record
class Report:
    """One replica, one interval: the mean of what its script said, and what it used.

    A script that said nothing has `value` None: unknown, which is not the same as converged.
    NaN and infinity never get this far; they arrive as `trouble`.
    """

    replica: ReplicaId
    since: Seconds
    at: Seconds
    step: float | None = None
    value: float | None = None
    high: float | None = None
    """The largest value said in the interval (FlowCon divides by the largest ever)."""
    usage: Usage | None = None
    trouble: str = ""


@record
class Window:
    """One report, as the track keeps it."""

    since: Seconds
    at: Seconds
    value: float | None
    """Relative to the track's base, so that adding a constant to a metric changes nothing."""
    cpu: Cores | None
    step: float | None = None
    """Half way through it."""


@record
class MetricHistory:
    """A replica's reports from its first to its last, the older ones in larger pieces.

    It belongs to the job and not to a process: moves and restarts do not cut it.
    """

    base: float | None = None
    """The first value reported; all others are kept as differences from it."""
    high: float = 0.0
    """The largest value reported, as a difference from the base."""
    step: float | None = None
    windows: tuple[Window, ...] = ()


EMPTY = MetricHistory()
LONGEST = 64
"""Windows kept. Above it the older half is merged two by two."""


def extend(track: MetricHistory, report: Report) -> MetricHistory:
    """The track with one more report on it."""
    base = report.value if track.base is None else track.base
    value = None if report.value is None or base is None else report.value - base
    cpu = None if report.usage is None else report.usage.cpu
    high = track.high
    if report.high is not None and base is not None:
        high = max(high, report.high - base)
    middle = None if report.step is None else (report.step + (track.step or 0.0)) / 2
    new = Window(since=report.since, at=report.at, value=value, cpu=cpu, step=middle)
    windows = (*track.windows, new)
    if len(windows) > LONGEST:
        windows = _thin(windows)
    step = track.step if report.step is None else report.step
    return MetricHistory(base=base, high=high, step=step, windows=windows)


def _thin(windows: tuple[Window, ...]) -> tuple[Window, ...]:
    old, new = windows[: LONGEST // 2], windows[LONGEST // 2 :]
    pairs = zip(old[::2], old[1::2], strict=True)
    return (*(_merge(a, b) for a, b in pairs), *new)


def _merge(a: Window, b: Window) -> Window:
    def mean(x: float | None, y: float | None) -> float | None:
        if x is None or y is None:
            return x if y is None else y
        return x + (y - x) * (b.at - b.since) / ((a.at - a.since) + (b.at - b.since))

    return Window(
        since=a.since,
        at=b.at,
        value=mean(a.value, b.value),
        cpu=mean(a.cpu, b.cpu),
        step=mean(a.step, b.step),
    )
