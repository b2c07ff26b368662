"""Small real trainings in plain numpy, to run as jobs where nothing else is installed.

    python -m headway.trainings vae --steps 100

Importing this costs nothing: numpy is loaded when a model is made.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator

    from headway.trainings.model import Model


def _named(name: str, kind: str) -> "Callable[[Generator], Model]":
    def make(rng: "Generator") -> "Model":
        made: Model = getattr(import_module(f"headway.trainings.{name}"), kind)(rng)
        return made

    return make


MODELS = {
    "vae": _named("vae", "VAE"),
    "gru": _named("gru", "GRU"),
    "cnn": _named("cnn", "CNN"),
    "lstm": _named("lstm", "LSTM"),
    "birnn": _named("birnn", "BiRNN"),
}
"""By name: makes the model, with its data and first weights drawn from the generator."""

UPDATES_PER_SECOND: dict[str, float] = {
    "vae": 350,
    "gru": 250,
    "cnn": 300,
    "lstm": 280,
    "birnn": 290,
}
"""Nominal: by this a job of so many core-seconds is sized. Updates in a second of one core of the
machine on which Headway was written, the median of three runs; another machine has its own."""
