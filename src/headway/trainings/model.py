"""The interface of models, and functions that several of them use."""

from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from headway.trainings import MODELS

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Arrays = dict[str, Array]
Batch = tuple[NDArray[Any], ...]


class Model(Protocol):
    """A network and its data. All randomness of an update is in its batch."""

    params: Arrays
    """Parameters, updated in place."""

    def batch(self, rng: Generator) -> Batch: ...

    def loss_and_grads(self, batch: Batch) -> tuple[float, Arrays]: ...


def create(name: str, rng: Generator) -> Model:
    """Return a model with data and initial weights from the generator."""
    model: Model = getattr(import_module(f"headway.trainings.{name}"), MODELS[name])(rng)
    return model


def dense(rng: Generator, name: str, inputs: int, outputs: int, scale: float = 1.0) -> Arrays:
    """Return initial weights of a layer; with scale 1 they preserve the variance of the inputs."""
    weights = scale * (rng.standard_normal((inputs, outputs)) / np.sqrt(inputs))
    return {f"{name}.w": weights, f"{name}.b": np.zeros(outputs)}


def linear(params: Arrays, name: str, entered: Array) -> Array:
    return np.asarray(entered @ params[f"{name}.w"] + params[f"{name}.b"])


def layer(name: str, entered: Array, change: Array) -> Arrays:
    """Return the gradients of `linear`, given the gradient `change` of its output."""
    rows, changes = flat(entered), flat(change)
    return {f"{name}.w": rows.T @ changes, f"{name}.b": changes.sum(axis=0)}


def sigmoid(x: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(0.5 * x)  # never overflows


def flat(x: Array) -> Array:
    """Merge all axes but the last."""
    return x.reshape(-1, x.shape[-1])


def cross_entropy(logits: Array, labels: Labels) -> tuple[float, Array]:
    """Return the mean over all labels, and its gradient with respect to the logits."""
    rows = np.arange(len(labels))
    shifted = logits - logits.max(axis=1, keepdims=True)
    parts = np.exp(shifted)
    total = parts.sum(axis=1, keepdims=True)
    loss = float(np.mean(np.log(total[:, 0]) - shifted[rows, labels]))
    grad = parts / total
    grad[rows, labels] -= 1
    return loss, grad / len(labels)
