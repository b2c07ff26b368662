"""Fit a loss curve to the reported values: 1/(a k + b) + c, or an exponential with a floor c.

For each floor of a fixed list, a and b follow by linear least squares. Later points have larger
weights, because the fit predicts the future (Optimus weighs the thirds 1, 4 and 16). Floors are
relative to the range of the values, so that the unit of the metric does not matter.
"""

from collections.abc import Sequence
from math import exp, log

from headway.core.model.report import MetricHistory
from headway.core.model.serialization import record

FEWEST = 5
_FLOORS = (0.001, 0.003, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5)
"""Distances of the floor below the best value, as fractions of the range."""


@record
class Fit:
    """Value after k steps, relative to the base of the history, with the sign for minimization."""

    shape: str
    a: float
    b: float
    floor: float

    def at(self, k: float) -> float:
        if self.shape == "inverse":
            return 1 / max(1e-12, self.a * k + self.b) + self.floor
        return exp(self.b - self.a * k) + self.floor

    def improvement(self, k: float, until: float) -> float:
        """Fraction of the improvement from step 0 to `until` that is reached at k."""
        whole = self.at(0) - self.at(until)
        return (self.at(0) - self.at(k)) / whole if whole > 0 else 1.0

    def reaches(self, part: float, until: float) -> float:
        """Return the step at which the fraction `part` is reached."""
        low, high = 0.0, until
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.improvement(middle, until) < part else (low, middle)
        return high


def fit(history: MetricHistory, sign: float) -> Fit | None:
    """Return the best fit; None if there are too few values or no fit falls."""
    points = [
        (w.step, -sign * w.value)
        for w in history.windows
        if w.value is not None and w.step is not None
    ]
    if len(points) < FEWEST:
        return None
    values = [v for _, v in points]
    low, span = min(values), max(values) - min(values)
    if span <= 0:
        return None
    tries = [
        found
        for shape in ("inverse", "exponential")
        for part in _FLOORS
        if (found := _linear(points, shape, low - part * span))
    ]
    return min(tries, key=lambda t: t[0])[1] if tries else None


def _linear(
    points: Sequence[tuple[float, float]], shape: str, floor: float
) -> tuple[float, Fit] | None:
    """Weighted least squares for a and b; return the error in the values, and the fit."""
    third = len(points) / 3
    total = sum_k = sum_y = sum_kk = sum_ky = 0.0
    for i, (k, v) in enumerate(points):
        # 1/y and log y magnify small distances; the weight compensates.
        distance = v - floor
        y = 1 / distance if shape == "inverse" else -log(distance)
        weight = 4 ** int(i / third) * distance ** (4 if shape == "inverse" else 2)
        total += weight
        sum_k += weight * k
        sum_y += weight * y
        sum_kk += weight * k * k
        sum_ky += weight * k * y
    spread = total * sum_kk - sum_k * sum_k
    if spread <= 0:
        return None
    a = (total * sum_ky - sum_k * sum_y) / spread
    b = (sum_y - a * sum_k) / total
    if a <= 0 or (shape == "inverse" and b <= 0):
        return None
    found = Fit(shape=shape, a=a, b=b if shape == "inverse" else -b, floor=floor)
    miss = sum(4 ** int(i / third) * (found.at(k) - v) ** 2 for i, (k, v) in enumerate(points))
    return miss, found
