"""Adam (Kingma and Ba 2015), with gradient clipping by global norm."""

import numpy as np

from headway.trainings.model import Arrays

MEAN, SQUARE, TINY = 0.9, 0.999, 1e-8
MAX_NORM = 1.0
"""Global norm to which larger gradients are clipped."""


class Adam:
    def __init__(self, params: Arrays, rate: float = 2e-3) -> None:
        self.params, self.rate, self.updates = params, rate, 0
        self.mean = {name: np.zeros_like(value) for name, value in params.items()}
        self.square = {name: np.zeros_like(value) for name, value in params.items()}

    def update(self, grads: Arrays) -> None:
        self.updates += 1
        norm = np.sqrt(sum(float(np.vdot(grad, grad)) for grad in grads.values()))
        scale = min(1.0, MAX_NORM / max(norm, TINY))
        # Bias correction: both averages start at zero.
        rate = self.rate * np.sqrt(1 - SQUARE**self.updates) / (1 - MEAN**self.updates)
        for name in self.params:
            grad, mean, square = grads[name] * scale, self.mean[name], self.square[name]
            mean += (1 - MEAN) * (grad - mean)
            square += (1 - SQUARE) * (grad * grad - square)
            self.params[name] -= rate * mean / (np.sqrt(square) + TINY)
