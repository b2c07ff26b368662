"""Reports of a replica, and the metric history and progress that are computed from them."""

from headway.core.model.serialization import record
from headway.core.model.units import Bytes, Cores, CoreSeconds, ReplicaId, Seconds, Share

MOST = 1e15
"""Largest magnitude of a reported number. Within it, the arithmetic of policies cannot overflow."""


def bounded(number: float) -> float:
    """Limit a number to the bounds. A magnitude below 1 / MOST becomes 0.

    >>> bounded(-1e308), bounded(0.5), bounded(1e-300)
    (-1000000000000000.0, 0.5, 0.0)
    """
    return max(-MOST, min(MOST, number)) if abs(number) >= 1 / MOST else 0.0


@record
class Usage:
    """Mean usage of a replica over the interval of its report."""

    cpu: Cores = 0.0
    memory: Bytes = 0.0
    block_io: float = 0.0
    """Bytes a second, read and written."""
    network_io: float | None = None
    """Bytes a second, received and sent; None: the platform does not count them."""
    throttled: Share = 0.0
    """Fraction of the scheduling periods in which the limit throttled the replica."""
    idle: Cores | None = None
    """Cores of the machine that were idle meanwhile; None: the platform does not measure it."""


@record
class Report:
    """Mean value and usage of one replica over one interval.

    `value` is None (unknown) if the script printed no value in the interval. NaN and infinity are
    reported as `trouble`, never as a value.
    """

    replica: ReplicaId
    since: Seconds
    at: Seconds
    step: float | None = None
    value: float | None = None
    high: float | None = None
    """Largest value of the interval. FlowCon divides by the largest value so far."""
    usage: Usage | None = None
    trouble: str = ""
    restarted: bool = False
    """Whether this is the first report of a restarted or adopted process. It may have begun at any
    step, so that the change of `step` since the last report is not the work of this interval."""


@record
class Window:
    """One report, as the metric history keeps it."""

    since: Seconds
    at: Seconds
    value: float | None
    """Difference from the base, so that a constant added to the metric has no effect."""
    cpu: Cores | None
    step: float | None = None
    """Step in the middle of the interval."""


@record
class MetricHistory:
    """All reports of a replica. Older reports are merged into longer windows.

    The history belongs to the replica, not to a process: it continues after a migration or restart.
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
    """Progress of a job or a replica, in work and in steps.

    The cost of a step is measured over the intervals in which a process was observed. The work done
    is this cost times the present step, so that it is right after restarts too.
    """

    done: CoreSeconds = 0.0
    """Work done. Excludes work that a restart undid; includes work before an adoption."""
    step: float | None = None
    work: CoreSeconds = 0.0
    """Work in the observed intervals."""
    steps: float = 0.0
    """Steps in the observed intervals."""
    begin: float | None = 0.0
    """First step of the next interval; None: unknown, because the process was restarted."""


BEGIN = Progress()


def proceed(p: Progress, report: Report, work: CoreSeconds) -> Progress:
    """Return the progress after a further report. `work`: the work done in its interval."""
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
"""Maximum number of windows. If there are more, the older half is merged in pairs."""


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
