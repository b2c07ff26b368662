"""Estimate the size of a job: from declared steps and the measured cost of a step, from what is
declared, or from earlier jobs of its kind. Each estimate has an error, which decides how far a
policy relies on it (docs/explanation/nobody-loses.md).
"""

from math import inf, log

from headway.core.estimate.curve_fit import fit
from headway.core.model.job import Estimate, JobSpec
from headway.core.model.report import MetricHistory, Progress
from headway.core.model.serialization import memory
from headway.core.model.units import CoreSeconds

TRUSTED = 0.05
"""A size with at most this relative error is treated as exact."""
KNOWN_AFTER = 0.02
"""Fraction of the declared steps after which the cost of a step is known."""
ONE_RUN = 0.1
"""Relative error of a size from a single earlier run."""
PASSED = 1.001
"""A job that exceeds this multiple of its largest possible size has an unknown size."""
SETTLED = 0.95
REFIT = 1.25


@memory
class Known:
    """Work of the jobs of one kind that have ended."""

    work: CoreSeconds
    least: CoreSeconds
    most: CoreSeconds


@memory
class SizeEstimate:
    """Estimated size of a job. Amounts are core-seconds of its node."""

    attained: CoreSeconds
    size: CoreSeconds = inf
    least: CoreSeconds = 0.0
    error: float = inf
    """Relative error of the size; infinite: unknown, or found to be wrong."""
    wrong: bool = False
    """Whether the job has exceeded its largest possible size."""
    settles: float = 1.0
    """Fraction of the steps after which the target quality is reached."""
    windows: int = 0
    """Number of windows when `settles` was computed."""

    @property
    def near(self) -> bool:
        """Whether its size is not exact, but close enough to plan with (an earlier run)."""
        return TRUSTED < self.error <= ONE_RUN


def estimate_size(
    spec: JobSpec, progress: Progress, known: Known | None, speed: float
) -> SizeEstimate:
    """Return the estimate with the smallest error."""
    attained = progress.done
    done = attained / speed
    declared = spec.expected.work if spec.expected else None
    found = [e for e in (from_steps(spec, progress), declared, from_kind(known)) if e]
    best = min(found, key=lambda e: e.error, default=None)
    wrong = best is not None and attained > best.value * (1 + best.error) * PASSED
    if best is None or wrong:
        return SizeEstimate(attained=done, wrong=wrong)
    stated = best.value / speed
    size = expected(stated, best.error, done)
    least = size if best.error <= TRUSTED else max(done, stated / (1 + best.error))
    return SizeEstimate(attained=done, size=size, least=least, error=best.error)


def expected(size: CoreSeconds, error: float, attained: CoreSeconds) -> CoreSeconds:
    """Return the expected size of a job that has not ended after `attained`. Its size is estimated
    at `size`, within a factor of 1 + error in either direction.

    >>> expected(100.0, 0.0, 50.0), round(expected(100.0, 0.5, 140.0), 1)
    (100.0, 144.9)
    """
    most = size * (1 + error)
    least = max(attained, size / (1 + error))
    if most <= least * (1 + 1e-9):
        return max(size, attained)
    return (most - least) / log(most / least)


def from_steps(spec: JobSpec, progress: Progress) -> Estimate | None:
    """Estimate the size from declared steps and the measured cost of a step. The error falls with
    each step.
    """
    if not spec.total_steps or progress.work <= 0:
        return None
    part = progress.steps / spec.total_steps
    if part < KNOWN_AFTER:
        return None
    return Estimate(value=progress.work / part, error=0.05 * max(0.0, 1 - part))


def from_kind(known: Known | None) -> Estimate | None:
    if known is None or known.work <= 0:
        return None
    spread = (known.most - known.least) / known.work
    return Estimate(value=known.work, error=max(ONE_RUN, spread))


def learn(known: Known | None, work: CoreSeconds) -> Known:
    """Add a job that has ended. Newer runs have larger weights. A run without work is ignored."""
    if known is None or known.work <= 0:
        return Known(work=work, least=work, most=work)
    if work <= 0:
        return known
    mean = known.work + (work - known.work) / 2
    return Known(work=mean, least=min(known.least, work), most=max(known.most, work))


def settle(
    estimate: SizeEstimate, spec: JobSpec, history: MetricHistory, before: SizeEstimate | None
) -> None:
    """Set `estimate.settles` from a fit of the loss curve. A fit takes a millisecond. It is
    repeated when the number of reports has grown by a quarter.
    """
    count = len(history.windows)
    if before is not None and before.windows <= count < REFIT * before.windows:
        estimate.settles, estimate.windows = before.settles, before.windows
        return
    curve = fit(history, spec.direction.sign) if spec.total_steps else None
    estimate.windows = count
    if curve is not None and spec.total_steps:
        estimate.settles = curve.reaches(SETTLED, spec.total_steps) / spec.total_steps
