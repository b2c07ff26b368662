"""A bidirectional recurrent network (Schuster and Paliwal 1997) that tags a sequence."""

import numpy as np
from numpy.random import Generator

from headway.trainings.data import TAGS, balances
from headway.trainings.model import Array, Arrays, Batch, cross_entropy, dense, flat, layer, linear


class BiRNN:
    def __init__(
        self, rng: Generator, *, length: int = 32, size: int = 48, hidden: int = 48
    ) -> None:
        self._length, self._size, self._hidden = length, size, hidden
        self.params: Arrays = (
            dense(rng, "past", 1 + hidden, hidden)
            | dense(rng, "future", 1 + hidden, hidden)
            | dense(rng, "tag", 2 * hidden, TAGS)
        )

    def batch(self, rng: Generator) -> Batch:
        return balances(rng, self._length, self._size)

    def loss_and_grads(self, batch: Batch) -> tuple[float, Arrays]:
        values, tags = batch
        p, n = self.params, self._hidden
        before, past = self._forward("past", values)
        after, future = self._forward("future", values[::-1])
        states = flat(np.concatenate([past, future[::-1]], axis=2))
        loss, d_logits = cross_entropy(linear(p, "tag", states), tags.ravel())
        d_states = (d_logits @ p["tag.w"].T).reshape(*values.shape, 2 * n)
        d_past = self._backward("past", past, d_states[..., :n])
        d_future = self._backward("future", future, d_states[::-1, :, n:])
        return loss, (
            layer("past", before, d_past)
            | layer("future", after, d_future)
            | layer("tag", states, d_logits)
        )

    def _forward(self, way: str, values: Array) -> tuple[Array, Array]:
        """Return the input of each step (value and previous state), and its state."""
        entered = np.zeros((*values.shape, 1 + self._hidden))
        entered[..., 0] = values
        states = np.empty((*values.shape, self._hidden))
        for t in range(len(values)):
            if t:
                entered[t, :, 1:] = states[t - 1]
            states[t] = np.tanh(linear(self.params, way, entered[t]))
        return entered, states

    def _backward(self, way: str, states: Array, d_states: Array) -> Array:
        """Return the gradients with respect to the pre-activations of the states."""
        d_sums = np.empty_like(states)
        back = self.params[f"{way}.w"][1:].T
        d_state = np.zeros_like(states[0])
        for t in reversed(range(len(states))):
            d_sums[t] = (d_state + d_states[t]) * (1 - states[t] ** 2)
            d_state = d_sums[t] @ back
        return d_sums
