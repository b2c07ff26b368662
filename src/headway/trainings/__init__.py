"""Built-in training jobs in plain numpy, for machines without a training framework.

    python -m headway.trainings vae --steps 100

Importing this package is cheap: numpy is imported when a model is created.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator

    from headway.trainings.model import Model


def _lazy(name: str, kind: str) -> "Callable[[Generator], Model]":
    def create(rng: "Generator") -> "Model":
        model: Model = getattr(import_module(f"headway.trainings.{name}"), kind)(rng)
        return model

    return create


MODELS = {
    "vae": _lazy("vae", "VAE"),
    "gru": _lazy("gru", "GRU"),
    "cnn": _lazy("cnn", "CNN"),
    "lstm": _lazy("lstm", "LSTM"),
    "birnn": _lazy("birnn", "BiRNN"),
}
"""Functions that create a model, with data and initial weights from the generator."""

UPDATES_PER_SECOND: dict[str, float] = {
    "vae": 350,
    "gru": 250,
    "cnn": 300,
    "lstm": 280,
    "birnn": 290,
}
"""Nominal speed, which converts core-seconds to updates: updates per second of one core of the
reference machine, median of three runs."""
