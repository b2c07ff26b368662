"""The command line of the built-in trainings."""

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
  gru    gated recurrent unit that guesses the next letter of a text
  cnn    convolutional network that tells digits apart
  lstm   long short-term memory that foresees a wave
  birnn  recurrent network in both directions that tags each number of a row

example: 200 steps of 10 updates each, using about half a core
  python -m headway.trainings gru --steps 200 --batches 10 --demand 0.5
"""
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def main(words: list[str] | None = None) -> int:
    """Train as these words say, by default those of the command line; the exit code."""
    given = _parser().parse_args(words)
    stop = Stop()
    signal.signal(signal.SIGTERM, stop.ask)
    for variable in THREADS:
        os.environ.setdefault(variable, "1")
    # numpy reads these variables once, when it is first imported, which is here.
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
        description="Train a small real neural network in plain numpy, on data made from a seed.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", choices=MODELS, metavar="NAME", help="the model, see below")
    add, count = parser.add_argument, _at_least(1)
    add("--steps", type=count, required=True, metavar="N", help="steps in all")
    add("--batches", type=count, default=10, metavar="K", help="updates in a step (%(default)s)")
    add("--seed", type=_at_least(0), default=0, metavar="S", help="of data, weights, noise (0)")
    add("--demand", type=_part, default=1.0, metavar="D", help="the part of a core to use (1)")
    add("--save-every", type=count, default=0, metavar="M", help="steps between own checkpoints")
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return int(text)

    return number


def _part(text: str) -> float:
    part = float(text)
    if not 0 < part <= 1:
        raise argparse.ArgumentTypeError("must lie above 0 and be at most 1")
    return part


if __name__ == "__main__":
    sys.exit(main())
