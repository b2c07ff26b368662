"""Loss curves: the values that a simulated script prints.

A curve gives the fraction of its total improvement that a job has reached after a fraction of its
steps. Logged values have noise that depends only on seed, job and step, so that a job prints the
same value at the same step under every policy.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import expm1

import numpy as np
from numpy.typing import NDArray

from headway.errors import ConfigError

MOST_POINTS = 2048
"""Most values that a job logs."""
SETTLED = 0.95
"""Quality: this fraction of the total improvement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    shape: str = "inverse"
    """`inverse`: 1/(ak+b)+c as Optimus fits it; `exponential` with a floor; or `measured`."""
    bend: float = 0.0
    """How early the improvement comes; computed from `at20` by `bent`."""
    power: float = 1.0
    """For `exponential`, exp(-(bend x)^power): above 1, a steep fall ends in a plateau."""
    start: float = 1.0
    end: float = 0.1
    noise: float = 0.0
    """Relative standard deviation of a logged value."""
    points: tuple[tuple[float, float], ...] = ()
    """For `measured`: (fraction of the steps, value)."""

    def improvement(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the fraction of the improvement after the fraction `x` of the steps."""
        if self.shape == "measured":
            at, values = np.array(self.points).T
            return np.asarray((np.interp(x, at, values) - self.start) / (self.end - self.start))
        if self.shape == "exponential":
            whole = expm1(-(self.bend**self.power))
            return np.asarray(np.expm1(-((self.bend * x) ** self.power)) / whole)
        return np.asarray(x * (1 + self.bend) / (1 + self.bend * x))

    def values(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.start + (self.end - self.start) * self.improvement(x))


@lru_cache(maxsize=1024)
def settled_after(curve: Curve) -> float:
    """Return the fraction of the steps after which `SETTLED` of the improvement is reached."""
    x = np.linspace(0.0, 1.0, 4097)
    return float(x[int(np.argmax(curve.improvement(x) >= SETTLED))])


def bent(shape: str, at20: float, power: float = 1.0) -> float:
    """Return the bend with which the fraction `at20` of the improvement comes in the first fifth.

    >>> round(bent("inverse", 0.65), 3)
    6.429
    """
    if not 0.2 < at20 < 1:
        raise ConfigError(f"at20 must lie between 0.2 and 1, not {at20:g}")
    if shape == "inverse":
        return (at20 - 0.2) / (0.2 * (1 - at20))
    low, high = 1e-6, 700.0 ** (1 / power)
    for _ in range(80):
        middle = (low + high) / 2
        reached = expm1(-((0.2 * middle) ** power)) / expm1(-(middle**power))
        low, high = (middle, high) if reached < at20 else (low, middle)
    return low


class Log:
    """All values that a job prints."""

    def __init__(self, curve: Curve, steps: float, key: tuple[int, int]) -> None:
        self._steps, self._points = steps, max(1, min(int(steps), MOST_POINTS))
        x = np.arange(1, self._points + 1) / self._points
        noise = np.random.Generator(np.random.Philox(key=key)).standard_normal(self._points)
        self._values = curve.values(x) * (1 + curve.noise * noise)
        self._sums = np.concatenate(([0.0], np.cumsum(self._values)))

    def between(self, after: float, until: float) -> tuple[float, float] | None:
        """Return mean and maximum of the values printed in these steps; None if there are none."""
        first = int(after / self._steps * self._points + 1e-9)
        last = int(until / self._steps * self._points + 1e-9)
        if last <= first:
            return None
        mean = (self._sums[last] - self._sums[first]) / (last - first)
        return float(mean), float(self._values[first:last].max())
