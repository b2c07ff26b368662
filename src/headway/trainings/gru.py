"""A gated recurrent unit (Cho et al. 2014) that predicts the next letter of a text."""

import numpy as np
from numpy.random import Generator

from headway.trainings.data import LETTERS, text, windows
from headway.trainings.model import (
    Array,
    Arrays,
    Batch,
    cross_entropy,
    dense,
    layer,
    linear,
    sigmoid,
)


class GRU:
    def __init__(
        self, rng: Generator, *, length: int = 24, size: int = 32, hidden: int = 48
    ) -> None:
        self._text = text(rng, 40_000)
        self._length, self._size, self._hidden = length, size, hidden
        self.params: Arrays = (
            dense(rng, "input", len(LETTERS), 3 * hidden)
            | dense(rng, "state", hidden, 3 * hidden)
            | dense(rng, "letter", hidden, len(LETTERS))
        )

    def batch(self, rng: Generator) -> Batch:
        return (windows(rng, self._text, self._length + 1, self._size),)

    def loss_and_grads(self, batch: Batch) -> tuple[float, Arrays]:
        (letters,) = batch
        p = self.params
        states, kept = self._forward(p["input.w"][letters[:-1]] + p["input.b"])
        read = states[1:].reshape(-1, self._hidden)
        loss, d_logits = cross_entropy(linear(p, "letter", read), letters[1:].ravel())
        d_states = (d_logits @ p["letter.w"].T).reshape(states[1:].shape)
        d_input, d_recurrent = self._backward(states, kept, d_states)
        one_hot = np.eye(len(LETTERS))[letters[:-1].ravel()]
        return loss, (
            layer("input", one_hot, d_input)
            | layer("state", states[:-1], d_recurrent)
            | layer("letter", read, d_logits)
        )

    def _forward(self, entered: Array) -> tuple[Array, Array]:
        """Return all states, starting with zero, and the gates and candidates of each step."""
        steps, size, _ = entered.shape
        n = self._hidden
        states, kept = np.zeros((steps + 1, size, n)), np.empty((steps, size, 4 * n))
        for t in range(steps):
            recurrent = linear(self.params, "state", states[t])
            gates = sigmoid(entered[t, :, : 2 * n] + recurrent[:, : 2 * n])
            keep, reset, old = gates[:, :n], gates[:, n:], recurrent[:, 2 * n :]
            new = np.tanh(entered[t, :, 2 * n :] + reset * old)
            states[t + 1] = new + keep * (states[t] - new)
            kept[t] = np.hstack([gates, old, new])
        return states, kept

    def _backward(self, states: Array, kept: Array, d_states: Array) -> tuple[Array, Array]:
        """Return the gradients with respect to the input and the recurrent part of each step."""
        n = self._hidden
        d_input, d_recurrent = np.empty((2, *kept.shape[:2], 3 * n))
        d_state = np.zeros_like(states[0])
        for t in reversed(range(len(kept))):
            keep, reset, old, new = np.split(kept[t], 4, axis=1)
            d_state = d_state + d_states[t]
            d_new = d_state * (1 - keep) * (1 - new**2)
            d_keep = d_state * (states[t] - new) * keep * (1 - keep)
            d_reset = d_new * old * reset * (1 - reset)
            d_input[t] = np.hstack([d_keep, d_reset, d_new])
            d_recurrent[t] = np.hstack([d_keep, d_reset, d_new * reset])
            d_state = d_state * keep + d_recurrent[t] @ self.params["state.w"].T
        return d_input, d_recurrent
