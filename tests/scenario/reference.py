"""A slow, independent model of CPU sharing: small steps, a water level found by bisection.

Imports nothing from headway, so that it can disagree.
"""

import numpy as np


def finish_times(cores, speed, arrive, work, cap, weight, steps=400):
    """When each job ends. Arrays of shape (cases, jobs); cores and speed of shape (cases,)."""
    now = np.zeros(len(cores))
    left = work.copy()
    done = np.full(work.shape, np.inf)
    small = (arrive.max(axis=1) + work.sum(axis=1) / (cap.min(axis=1) * speed)) / steps
    while (left > 0).any():
        active = (arrive <= now[:, None] + 1e-12) & (left > 0)
        rate = _level_rates(cores, np.where(active, cap, 0.0), weight) * speed[:, None]
        # No step goes past an arrival or an end: between those, nothing changes.
        until_end = np.where(rate > 0, left / np.where(rate > 0, rate, 1), np.inf).min(axis=1)
        ahead = np.where(arrive > now[:, None] + 1e-12, arrive - now[:, None], np.inf).min(axis=1)
        step = np.minimum(small, np.minimum(until_end, ahead))
        step = np.where((left > 0).any(axis=1), step, 0.0)
        left = left - rate * step[:, None]
        now = now + step
        ended = (left <= work * 1e-9) & np.isinf(done) & active
        done = np.where(ended, now[:, None], done)
        left = np.where(ended, 0.0, left)
    return done


def _level_rates(cores, cap, weight):
    """min(cap, weight x level), with the level at which the node is full, or everybody capped."""
    low = np.zeros(len(cores))
    high = np.full(len(cores), 1e4)
    for _ in range(60):
        middle = (low + high) / 2
        full = np.minimum(cap, weight * middle[:, None]).sum(axis=1) > cores
        high = np.where(full, middle, high)
        low = np.where(full, low, middle)
    return np.minimum(cap, weight * high[:, None])
