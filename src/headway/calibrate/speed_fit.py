"""Fit the cost of a step to measured rates, by least squares without negative costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from headway.core.estimate.step_rate import HERE, NEAR, Speed, steps_per_second
from headway.core.model.units import Cores

SMALLEST = 1e-5
"""A transfer within a node takes at least this part of one beyond it, so that it has a penalty."""
EXACT = 1e-18
"""A sum of squared relative errors that is only rounding: more costs would fit the rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The rate of a job with one parameter server, or with a ring."""

    workers: int
    cores: Cores
    """Of each worker."""
    far: bool
    """Whether the workers are on another node than the server, or on several nodes."""
    steps_per_s: float

    def predicted(self, speed: Speed) -> float:
        each = self.cores, NEAR if self.far else HERE
        return steps_per_second(speed, [each] * self.workers, servers=1)

    def error(self, speed: Speed) -> float:
        return abs(self.predicted(speed) / self.steps_per_s - 1)


def fit_speed(kind: str, points: Sequence[Point]) -> Speed:
    """Return the model with the least relative errors of the times of a step. Costs in core-seconds
    are told from the others by points with different cores, transfers by different workers.
    """
    rows = np.array([_terms(kind, p) for p in points])
    # An asynchronous worker makes its part of the steps.
    shares = np.array([p.workers if kind == "async" else 1 for p in points])
    times = shares / np.array([p.steps_per_s for p in points])
    return _speed(kind, _least_squares(rows / times[:, None]))


def left_out_error(kind: str, points: Sequence[Point]) -> float:
    """Return the mean relative error of the prediction of each point by all others."""
    others = [[q for q in points if q is not p] for p in points]
    return fmean(p.error(fit_speed(kind, rest)) for p, rest in zip(points, others, strict=True))


def _terms(kind: str, p: Point) -> tuple[float, ...]:
    """Return the factors of compute, fixed, transfer in the node and beyond, and a constant."""
    w = p.workers
    shared = float(w) if kind != "ring" else 2 * (w - 1) / w
    constant = 1.0 if kind != "ring" or w > 1 else 0.0
    # An asynchronous worker computes a whole batch, so that compute and fixed are one cost.
    own = (1 / p.cores, 0.0) if kind == "async" else (1 / (w * p.cores), 1 / p.cores)
    return (*own, 0.0 if p.far else shared, shared if p.far else 0.0, constant)


def _least_squares(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the costs, none negative and the first positive, whose sum is nearest to 1 in each
    row. There are few costs: each set of them is tried.
    """
    used = [i for i in range(1, rows.shape[1]) if rows[:, i].any()]
    best, least = np.zeros(rows.shape[1]), np.inf
    for size in range(len(used) + 1):
        for more in combinations(used, size):
            chosen = [0, *more]
            found = np.linalg.lstsq(rows[:, chosen], np.ones(len(rows)), rcond=None)[0]
            away = float(np.sum((rows[:, chosen] @ found - 1) ** 2))
            if found[0] > 0 and found.min() >= 0 and away < least * (1 - 1e-9) - EXACT:
                best, least = np.zeros(rows.shape[1]), away
                best[chosen] = found
    return best


def _speed(kind: str, costs: NDArray[np.float64]) -> Speed:
    compute, fixed, here, far, constant = map(float, costs)
    if far > here:
        here = max(here, SMALLEST * far)
    flat = {"latency": constant} if kind == "ring" else {"per_server": constant}
    penalty = max(1.0, far / here) if here else 1.0
    return Speed(kind=kind, compute=compute, fixed=fixed, transfer=here, penalty=penalty, **flat)
