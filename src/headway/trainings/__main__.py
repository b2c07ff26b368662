"""The command line of the built-in training jobs."""

import argparse
import os
import signal
import sys
from collections.abc import Callable

from headway import sdk
from headway.errors import ConfigError
from headway.trainings import MODELS
from headway.trainings.stop import Stop

EPILOG = """\
models:
  vae    variational autoencoder of small images of digits
  gru    gated recurrent unit that predicts the next letter of a text
  cnn    convolutional network that classifies digits
  lstm   long short-term memory that predicts a wave
  birnn  bidirectional recurrent network that tags each number of a sequence

example: 200 steps of 10 updates each, using about half a core
  python -m headway.trainings gru --steps 200 --batches 10 --demand 0.5
"""
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def main(arguments: list[str] | None = None) -> int:
    """Train as the arguments say, by default those of the command line; return the exit code."""
    given = _parser().parse_args(arguments)
    stop = Stop()
    signal.signal(signal.SIGTERM, stop.request)
    for variable in THREADS:
        os.environ.setdefault(variable, "1")
    # numpy reads these variables when it is first imported, which is here.
    from headway.trainings.train import Recipe, Training, train  # noqa: PLC0415

    training = Training(Recipe(model=given.model, batches=given.batches, seed=given.seed))
    run = sdk.attach(total_steps=given.steps)
    try:
        return train(
            training, run, stop,
            steps=given.steps, demand=given.demand, save_every=given.save_every,
        )  # fmt: skip
    except ConfigError as error:
        sys.stderr.write(f"error: {error.message}\n{error.where}\n{error.hint}\n")
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m headway.trainings",
        description="Train a small neural network in plain numpy, on data generated from a seed.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", choices=MODELS, metavar="NAME", help="the model, see below")
    add, count = parser.add_argument, _at_least(1)
    add("--steps", type=count, required=True, metavar="N", help="total number of steps")
    add("--batches", type=count, default=10, metavar="K", help="updates per step (%(default)s)")
    add("--seed", type=_at_least(0), default=0, metavar="S", help="seed of data and weights (0)")
    add("--demand", type=_fraction, default=1.0, metavar="D", help="fraction of a core to use (1)")
    add("--save-every", type=count, default=0, metavar="M", help="steps between checkpoints")
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return int(text)

    return number


def _fraction(text: str) -> float:
    fraction = float(text)
    if not 0 < fraction <= 1:
        raise argparse.ArgumentTypeError("must be above 0 and at most 1")
    return fraction


if __name__ == "__main__":
    sys.exit(main())
