"""The command line of the built-in training jobs."""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from headway import sdk
from headway.errors import ConfigError
from headway.trainings import DISTRIBUTED, MODELS
from headway.trainings.stop import Stop

EPILOG = """\
models:
  vae    variational autoencoder of small images of digits
  gru    gated recurrent unit that predicts the next letter of a text
  cnn    convolutional network that classifies digits
  lstm   long short-term memory that predicts a wave
  birnn  bidirectional recurrent network that tags each number of a sequence

distributed, with the tasks ps and worker (by TF_CONFIG; without it, both in one process):
  ps-sync   classifier of digits, a parameter server, synchronous workers
  ps-async  the same, asynchronous workers, which join and leave at any time

distributed, with the task worker (by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT):
  ddp       classifier of digits in PyTorch, DistributedDataParallel (extra torch)

distributed, with the task worker (by TF_CONFIG):
  mirrored  classifier of digits in TensorFlow, MultiWorkerMirroredStrategy (extra tensorflow)

example: 200 steps of 10 updates each, using about half a core
  python -m headway.trainings gru --steps 200 --batches 10 --demand 0.5
"""
FRAMEWORKS = {"ddp": ("PyTorch", "torch"), "mirrored": ("TensorFlow", "tensorflow")}
"""The framework of a training, and the extra that installs it."""
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def main(arguments: list[str] | None = None) -> int:
    """Train as the arguments say, by default those of the command line; return the exit code."""
    given = _parser().parse_args(arguments)
    stop = Stop()
    signal.signal(signal.SIGTERM, stop.request)
    for variable in THREADS:
        os.environ.setdefault(variable, "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow prints pages of hints
    try:
        return _distributed(given, stop) if given.model in DISTRIBUTED else _single(given, stop)
    except ConfigError as error:
        # In one line: the last line of a failed replica is the reason that its job shows.
        sys.stderr.write(f"error: {error.where}: {error.message}; {error.hint}\n")
        return error.exit_code


# numpy reads the environment when it is first imported, which is in these functions.


def _single(given: argparse.Namespace, stop: Stop) -> int:
    from headway.trainings.train import Recipe, Training, train  # noqa: PLC0415

    training = Training(Recipe(model=given.model, batches=given.batches, seed=given.seed))
    run = sdk.attach(total_steps=given.steps)
    return train(
        training, run, stop,
        steps=given.steps, demand=given.demand, save_every=given.save_every,
    )  # fmt: skip


def _distributed(given: argparse.Namespace, stop: Stop) -> int:
    from headway.trainings.parameter_server.shared_model import Recipe  # noqa: PLC0415

    recipe = Recipe(
        steps=given.steps,
        asynchronous=given.model == "ps-async",
        size=given.batches,
        epoch=given.epoch,
        seed=given.seed,
    )
    options = {
        "demand": given.demand,
        "save_every": given.save_every,
        "timeout": given.timeout,
    }
    if given.model in FRAMEWORKS:
        from headway.trainings.data_parallel import is_first  # noqa: PLC0415

        train = _with_framework(given.model)
        run = sdk.attach(total_steps=given.steps if is_first(os.environ) else None)
        return int(train.take_part(recipe, run, stop, **options))
    from headway.trainings.parameter_server.roles import role_of, take_part  # noqa: PLC0415

    role = role_of(os.environ)
    chief = role.task != "ps" and role.index == 0
    run = sdk.attach(total_steps=given.steps if chief else None)
    return take_part(role, recipe, run, stop, **options)


def _with_framework(model: str) -> ModuleType:
    name, extra = FRAMEWORKS[model]
    try:
        return import_module(f"headway.trainings.{model}")
    except ImportError as error:
        raise ConfigError(
            f"{name} cannot be imported: {error}",
            where=sys.executable,
            hint=f"pip install 'headway[{extra}]'",
        ) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m headway.trainings",
        description="Train a small neural network on data generated from a seed.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [*MODELS, *DISTRIBUTED]
    parser.add_argument("model", choices=names, metavar="NAME", help="the model, see below")
    add, count = parser.add_argument, _at_least(1)
    add("--steps", type=count, required=True, metavar="N", help="total number of steps")
    add("--batches", type=count, default=10, metavar="K",
        help="updates per step; distributed: samples in a twelfth of a batch (10)")  # fmt: skip
    add("--seed", type=_at_least(0), default=0, metavar="S", help="seed of data and weights (0)")
    add("--demand", type=_fraction, default=1.0, metavar="D", help="fraction of a core to use (1)")
    add("--save-every", type=count, default=0, metavar="M", help="steps between checkpoints")
    add("--epoch", type=count, default=20, metavar="E", help="distributed: steps per epoch (20)")
    add("--timeout", type=_seconds, default=60.0, metavar="T",
        help="distributed: seconds for a worker to join, and to answer (60)")  # fmt: skip
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return int(text)

    return number


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("must be above 0")
    return seconds


def _fraction(text: str) -> float:
    fraction = float(text)
    if not 0 < fraction <= 1:
        raise argparse.ArgumentTypeError("must be above 0 and at most 1")
    return fraction


if __name__ == "__main__":
    sys.exit(main())
