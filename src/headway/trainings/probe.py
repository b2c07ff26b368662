"""Measure how fast this machine trains: `python -m headway.trainings.probe 2` takes two seconds."""

import json
import sys
from dataclasses import asdict, dataclass
from time import monotonic, process_time

from headway.trainings import MODELS


@dataclass(frozen=True, slots=True)
class Speed:
    updates: dict[str, float]
    """Updates of each model per second of CPU."""
    share: float
    """Fraction of the time in which this process had a core: other programs had it otherwise."""


def probe(seconds: float) -> Speed:
    """Train each model for an equal part of this time."""
    began, used = monotonic(), process_time()
    updates = {model: _rate(model, seconds / len(MODELS)) for model in MODELS}
    return Speed(updates, min(1.0, (process_time() - used) / (monotonic() - began)))


def _rate(model: str, seconds: float) -> float:
    from headway.trainings.train import Recipe, Training  # noqa: PLC0415 - imports numpy

    training = Training(Recipe(model=model, batches=1))
    training.advance()  # the first update also loads libraries
    began, used, updates = monotonic(), process_time(), 0
    while updates == 0 or monotonic() - began < seconds:
        training.advance()
        updates += 1
    return updates / (process_time() - used)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(probe(float(sys.argv[1])))))
