"""Long short-term memory (Hochreiter and Schmidhuber 1997) that predicts a wave."""

import numpy as np
from numpy.random import Generator

from headway.trainings.data import waves
from headway.trainings.model import Array, Arrays, Batch, dense, layer, linear, sigmoid


class LSTM:
    def __init__(
        self, rng: Generator, *, length: int = 24, size: int = 32, hidden: int = 40
    ) -> None:
        self._length, self._size, self._hidden = length, size, hidden
        gates = dense(rng, "gates", 1 + hidden, 4 * hidden)
        gates["gates.b"][hidden : 2 * hidden] = 1.0  # forget gates start open
        self.params: Arrays = gates | dense(rng, "value", hidden, 1)

    def batch(self, rng: Generator) -> Batch:
        return (waves(rng, self._length + 1, self._size),)

    def loss_and_grads(self, batch: Batch) -> tuple[float, Arrays]:
        (values,) = batch
        p = self.params
        entered, memories, gates, states = self._forward(values[:-1])
        error = linear(p, "value", states) - values[1:, :, None]
        loss = float(np.mean(error**2))
        d_value = 2 * error / error.size
        d_gates = self._backward(memories, gates, d_value @ p["value.w"].T)
        return loss, (layer("gates", entered, d_gates) | layer("value", states, d_value))

    def _forward(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Return input, memory (with the initial zero), gates and state of each step."""
        (steps, size), n = values.shape, self._hidden
        entered, gates = np.zeros((steps, size, 1 + n)), np.empty((steps, size, 4 * n))
        memories, states = np.zeros((steps + 1, size, n)), np.empty((steps, size, n))
        entered[..., 0] = values
        for t in range(steps):
            if t:
                entered[t, :, 1:] = states[t - 1]
            sums = linear(self.params, "gates", entered[t])
            gates[t, :, : 3 * n] = sigmoid(sums[:, : 3 * n])
            gates[t, :, 3 * n :] = np.tanh(sums[:, 3 * n :])
            take, keep, show, new = np.split(gates[t], 4, axis=1)
            memories[t + 1] = keep * memories[t] + take * new
            states[t] = show * np.tanh(memories[t + 1])
        return entered, memories, gates, states

    def _backward(self, memories: Array, gates: Array, d_states: Array) -> Array:
        """Return the gradients with respect to the pre-activations of the gates."""
        d_gates = np.empty_like(gates)
        d_state, d_memory = np.zeros_like(memories[:2])
        back = self.params["gates.w"][1:].T
        for t in reversed(range(len(gates))):
            take, keep, show, new = np.split(gates[t], 4, axis=1)
            shown = np.tanh(memories[t + 1])
            d_state = d_state + d_states[t]
            d_memory = d_memory + d_state * show * (1 - shown**2)
            d_take = d_memory * new * take * (1 - take)
            d_keep = d_memory * memories[t] * keep * (1 - keep)
            d_show = d_state * shown * show * (1 - show)
            d_new = d_memory * take * (1 - new**2)
            d_gates[t] = np.hstack([d_take, d_keep, d_show, d_new])
            d_state, d_memory = d_gates[t] @ back, d_memory * keep
        return d_gates
