"""How much work a job is: from declared steps and what a step has cost, from what was told, from
earlier jobs of its kind; or unknown. Each with its error, for the error decides how far a policy
may lean on it (docs/explanation/nobody-loses.md).
"""

from math import inf, log

from headway.core.estimate.curve_fit import fit
from headway.core.model.job import Estimate, JobSpec
from headway.core.model.report import MetricHistory
from headway.core.model.serialization import memory
from headway.core.model.units import CoreSeconds

TRUSTED = 0.05
"""Sizes known this well are planned with as if they were exact."""
MEASURED = 0.02
"""A job this far through its declared steps has shown what a step costs."""
ONE_RUN = 0.1
"""How far off the next run may be when only one has been seen."""
PASSED = 1.001
"""A job past the most that it could be, by more than rounding, is of unknown size."""
SETTLED = 0.95
REFIT = 1.25


@memory
class Known:
    """What ended jobs of one kind took."""

    work: CoreSeconds
    least: CoreSeconds
    most: CoreSeconds


@memory
class SizeEstimate:
    """What is known of a job at a look. Amounts are core-seconds of its node."""

    attained: CoreSeconds
    size: CoreSeconds = inf
    least: CoreSeconds = 0.0
    error: float = inf
    """How far off the size may be; infinite: nothing is known, or it has proved wrong."""
    settles: float = 1.0
    """The part of its steps after which its quality is reached."""
    windows: int = 0
    """How much had been heard when that was found out."""


def estimate_size(
    spec: JobSpec,
    attained: CoreSeconds,
    step: float | None,
    known: Known | None,
    speed: float,
) -> SizeEstimate:
    """The surest of what is told, seen and remembered."""
    done = attained / speed
    told = spec.expected.work if spec.expected else None
    found = [e for e in (from_steps(spec, attained, step), told, from_kind(known)) if e]
    best = min(found, key=lambda e: e.error, default=None)
    if best is None or attained > best.value * (1 + best.error) * PASSED:
        return SizeEstimate(attained=done)  # unknown, or far more than was said
    said = best.value / speed
    size = expected(said, best.error, done)
    least = size if best.error <= TRUSTED else max(done, said / (1 + best.error))
    return SizeEstimate(attained=done, size=size, least=least, error=best.error)


def expected(size: CoreSeconds, error: float, attained: CoreSeconds) -> CoreSeconds:
    """The mean of what a job may be that was said to be `size`, is off by a factor of up to
    1 + error either way, and has not ended after `attained`.

    >>> expected(100.0, 0.0, 50.0), round(expected(100.0, 0.5, 140.0), 1)
    (100.0, 144.9)
    """
    most = size * (1 + error)
    least = max(attained, size / (1 + error))
    if most <= least * (1 + 1e-9):
        return max(size, attained)
    return (most - least) / log(most / least)


def from_steps(spec: JobSpec, attained: CoreSeconds, step: float | None) -> Estimate | None:
    """Declared steps and measured step cost. The more steps are behind it, the surer."""
    if not spec.total_steps or not step or attained <= 0:
        return None
    part = step / spec.total_steps
    if part < MEASURED:
        return None
    return Estimate(value=attained / part, error=0.05 * max(0.0, 1 - part))


def from_kind(known: Known | None) -> Estimate | None:
    if known is None or known.work <= 0:
        return None
    spread = (known.most - known.least) / known.work
    return Estimate(value=known.work, error=max(ONE_RUN, spread))


def learn(known: Known | None, work: CoreSeconds) -> Known:
    """What is known of a kind after one more of it has ended: newer runs count more. A run of
    which no work was seen tells nothing.
    """
    if known is None or known.work <= 0:
        return Known(work=work, least=work, most=work)
    if work <= 0:
        return known
    mean = known.work + (work - known.work) / 2
    return Known(work=mean, least=min(known.least, work), most=max(known.most, work))


def settle(
    belief: SizeEstimate, spec: JobSpec, track: MetricHistory, before: SizeEstimate | None
) -> None:
    """Find the part of its declared steps after which a job reaches its quality, by its loss curve
    so far. Fitted anew when a quarter more has been heard: a fit costs a millisecond.
    """
    heard = len(track.windows)
    if before is not None and before.windows <= heard < REFIT * before.windows:
        belief.settles, belief.windows = before.settles, before.windows
        return
    curve = fit(track, spec.direction.sign) if spec.total_steps else None
    belief.windows = heard
    if curve is not None and spec.total_steps:
        belief.settles = curve.reaches(SETTLED, spec.total_steps) / spec.total_steps
