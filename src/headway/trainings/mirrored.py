"""Data-parallel training with TensorFlow's MultiWorkerMirroredStrategy, by `TF_CONFIG` (extra
`tensorflow`).

The strategy gives all workers the initial values of the chief's variables: after a restart, those
of its checkpoint.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from headway.sdk import Run
from headway.trainings.barrier import Barrier
from headway.trainings.data_parallel import HIDDEN, LEARNING_RATE, Integers, Worker, lost_others
from headway.trainings.model import dense
from headway.trainings.parameter_server.server import FAILED
from headway.trainings.parameter_server.shared_model import Data, Recipe
from headway.trainings.stop import Stop
from headway.trainings.train import MEAN, SQUARE, TERMINATED, TINY, print_line

STATE = "state.npz"


def take_part(
    recipe: Recipe, run: Run, stop: Stop, *, demand: float, save_every: int, timeout: float
) -> int:
    """Train as one of the workers in `TF_CONFIG`; return the exit code."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    if why := Barrier(os.environ).wait(stop, timeout):
        print_line(f"error: {why}")
        return TERMINATED if stop.requested else FAILED
    options = tf.distribute.experimental.CommunicationOptions(timeout_seconds=timeout)
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        data = Data(recipe)
        model = Mirrored(recipe.seed, data, strategy)
        return Worker(recipe, data, model, run, stop).train(demand, save_every)
    except (RuntimeError, tf.errors.OpError) as error:
        if stop.requested:
            return TERMINATED
        lines = str(error).strip().splitlines()
        return lost_others(timeout, next((line for line in lines if "aborted" in line), lines[0]))


class Mirrored:
    chief = 0

    def __init__(self, seed: int, data: Data, strategy: Any) -> None:
        self.strategy, self.world = strategy, strategy.num_replicas_in_sync
        self.rank = strategy.cluster_resolver.task_id or 0
        self.images = data.images.astype(np.float32).reshape(len(data.images), -1)
        self.labels = data.labels
        rng = np.random.default_rng(seed)
        pixels, digits = self.images.shape[1], 10
        first = dense(rng, "hidden", pixels, HIDDEN) | dense(rng, "output", HIDDEN, digits)
        self.initial = {name: values.astype(np.float32) for name, values in first.items()}
        self.params: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        given = [((None, pixels), tf.float32), ((None,), tf.int64), ((), tf.float32)]
        self._update = tf.function(self._trace_update, [tf.TensorSpec(*each) for each in given])
        self._sum = tf.function(self._trace_sum, reduce_retracing=True)

    def total(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.asarray(self._sum(tf.constant(values)))

    def _trace_sum(self, values: Any) -> Any:
        per_worker = self.strategy.run(tf.identity, (values,))
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, per_worker, axis=None)

    def advance(self, samples: Integers, batch: int) -> float:
        images, labels = tf.constant(self.images[samples]), tf.constant(self.labels[samples])
        return float(self._update(images, labels, tf.constant(float(batch))))

    def _trace_update(self, images: Any, labels: Any, batch: Any) -> Any:
        """One update by Adam; a graph of TensorFlow."""
        loss, *gradients = self.strategy.run(self._gradients, (images, labels, batch))
        updates = self.state["updates"]
        self._each(updates, lambda variable: variable.assign_add(1.0))
        rate = LEARNING_RATE * tf.sqrt(1 - SQUARE**updates) / (1 - MEAN**updates)
        for name, gradient in zip(self.params, gradients, strict=True):
            mean, square = self.state[f"mean.{name}"], self.state[f"square.{name}"]
            self._each(mean, lambda v, g: v.assign_add((1 - MEAN) * (g - v)), gradient)
            self._each(square, lambda v, g: v.assign_add((1 - SQUARE) * (g * g - v)), gradient)
            self._each(
                self.params[name],
                lambda v, r, m, s: v.assign_sub(r * m / (tf.sqrt(s) + TINY)),
                rate, mean, square,
            )  # fmt: skip
        return loss

    def _each(self, variable: Any, change: Any, *given: Any) -> None:
        self.strategy.extended.update(variable, change, given)

    def _gradients(self, images: Any, labels: Any, batch: Any) -> Any:
        """Return the loss of the whole batch, and its gradients."""
        p = self.params
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(images @ p["hidden.w"] + p["hidden.b"])
            logits = hidden @ p["output.w"] + p["output.b"]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_sum(losses) / batch
        found = [loss, *tape.gradient(loss, list(p.values()))]
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, found)

    def restore(self, folder: Path | None) -> None:
        first: dict[str, NDArray[Any]] = {f"weight.{n}": v for n, v in self.initial.items()}
        for kind in ("mean", "square"):
            first |= {f"{kind}.{name}": np.zeros_like(v) for name, v in self.initial.items()}
        first["updates"] = np.zeros((), np.float32)
        if folder is not None:
            with np.load(folder / STATE, allow_pickle=False) as saved:
                first = {name: saved[name] for name in first}
        with self.strategy.scope():
            self.state = {name: tf.Variable(values) for name, values in first.items()}
        self.params = {name: self.state[f"weight.{name}"] for name in self.initial}
        self._update.get_concrete_function()  # the graph takes seconds, which are not of a step

    def save(self, folder: Path) -> None:
        np.savez(folder / STATE, **{name: v.numpy() for name, v in self.state.items()})

    def weights(self) -> Iterator[NDArray[Any]]:
        return (variable.numpy() for variable in self.params.values())
