"""Reports of a replica, and the metric history that they add up to."""

from headway.core.model.serialization import record
from headway.core.model.units import Bytes, Cores, CoreSeconds, ReplicaId, Seconds, Share

MOST = 1e15
"""Largest magnitude of a reported number; the arithmetic of policies is safe within it."""


def bounded(number: float) -> float:
    """Return a finite number within the bounds; what is smaller than 1 / MOST is 0.

    >>> bounded(-1e308), bounded(0.5), bounded(1e-300)
    (-1000000000000000.0, 0.5, 0.0)
    """
    return max(-MOST, min(MOST, number)) if abs(number) >= 1 / MOST else 0.0


@record
class Usage:
    """What a replica used, averaged over the interval of its report."""

    cpu: Cores = 0.0
    memory: Bytes = 0.0
    block_io: float = 0.0
    """Bytes a second, read and written."""
    throttled: Share = 0.0
    """Fraction of the scheduling periods in which its limit throttled it."""


@record
class Report:
    """Mean value and usage of one replica over one interval.

    `value` is None if the script printed no value: unknown, which is not the same as converged.
    NaN and infinity are never values; they arrive as `trouble`.
    """

    replica: ReplicaId
    since: Seconds
    at: Seconds
    step: float | None = None
    value: float | None = None
    high: float | None = None
    """The largest value of the interval (FlowCon divides by the largest ever)."""
    usage: Usage | None = None
    trouble: str = ""
    restarted: bool = False
    """The first report of a process that may have begun at any step: a restart, or an adopted
    process. The change of `step` since the last report is not the work of this interval."""


@record
class Window:
    """One report, as the metric history keeps it."""

    since: Seconds
    at: Seconds
    value: float | None
    """Relative to the base, so that adding a constant to a metric changes nothing."""
    cpu: Cores | None
    step: float | None = None
    """In the middle of the interval."""


@record
class MetricHistory:
    """All reports of a replica, older ones merged into longer windows.

    It belongs to the replica and not to its process: migrations and restarts do not end it.
    """

    base: float | None = None
    """The first value reported; the others are stored as differences from it."""
    high: float = 0.0
    """The largest value reported, as a difference from the base."""
    step: float | None = None
    windows: tuple[Window, ...] = ()


EMPTY = MetricHistory()


@record
class Progress:
    """How far a job, or one of its replicas, has come. Steps and work agree through interruptions:
    the cost of a step is measured over the intervals in which a process was observed, and what has
    been done is this cost times the present step.
    """

    done: CoreSeconds = 0.0
    """Work that counts. Work that a restart undid does not; work before an adoption does."""
    step: float | None = None
    work: CoreSeconds = 0.0
    """Work of the observed intervals."""
    steps: float = 0.0
    """Steps made in them."""
    begin: float | None = 0.0
    """Step at which the next interval begins; None: unknown since a restart."""


BEGIN = Progress()


def proceed(p: Progress, report: Report, work: CoreSeconds) -> Progress:
    """Return the progress after one more report, in whose interval `work` was done."""
    begin = None if report.restarted else p.begin
    step = p.step if report.step is None else report.step
    total, steps = p.work, p.steps
    if begin is None or report.usage is None or (report.step is not None and report.step < begin):
        begin = report.step
    else:
        total += work
        if report.step is not None:
            steps, begin = steps + report.step - begin, report.step
    done = p.done + work if step is None or steps <= 0 else total / steps * step
    return Progress(done=done, step=step, work=total, steps=steps, begin=begin)


def start_over(p: Progress) -> Progress:
    """Return the progress of a job that was stopped without a checkpoint."""
    return Progress(step=None if p.step is None else 0.0, work=p.work, steps=p.steps)


LONGEST = 64
"""Most windows to keep. Beyond it, the older half is merged in pairs."""


def extend(history: MetricHistory, report: Report) -> MetricHistory:
    """Return the history with one more report."""
    base = report.value if history.base is None else history.base
    value = None if report.value is None or base is None else report.value - base
    cpu = None if report.usage is None else report.usage.cpu
    high = history.high
    if report.high is not None and base is not None:
        high = max(high, report.high - base)
    middle = None if report.step is None else (report.step + (history.step or 0.0)) / 2
    new = Window(since=report.since, at=report.at, value=value, cpu=cpu, step=middle)
    windows = (*history.windows, new)
    if len(windows) > LONGEST:
        windows = _thin(windows)
    step = history.step if report.step is None else report.step
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
