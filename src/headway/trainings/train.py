"""Train a model, from the start or from a checkpoint; both end in the same weights."""

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import ConfigError
from headway.sdk import Run
from headway.trainings.model import Arrays, create
from headway.trainings.stop import Stop

DONE, TERMINATED = 0, 143
MEAN, SQUARE, TINY = 0.9, 0.999, 1e-8
MAX_NORM = 1.0
"""Global norm to which larger gradients are clipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that determines the weights, besides the number of steps."""

    model: str
    batches: int = 10
    seed: int = 0


class Adam:
    """The optimiser of Kingma and Ba (2015), with gradient clipping by global norm."""

    def __init__(self, params: Arrays, rate: float = 2e-3) -> None:
        self.params, self.rate, self.updates = params, rate, 0
        self.mean = {name: np.zeros_like(value) for name, value in params.items()}
        self.square = {name: np.zeros_like(value) for name, value in params.items()}

    def update(self, grads: Arrays) -> None:
        self.updates += 1
        norm = np.sqrt(sum(float(np.vdot(grad, grad)) for grad in grads.values()))
        scale = min(1.0, MAX_NORM / max(norm, TINY))
        # Bias correction: both averages start at zero.
        rate = self.rate * np.sqrt(1 - SQUARE**self.updates) / (1 - MEAN**self.updates)
        for name in self.params:
            grad, mean, square = grads[name] * scale, self.mean[name], self.square[name]
            mean += (1 - MEAN) * (grad - mean)
            square += (1 - SQUARE) * (grad * grad - square)
            self.params[name] -= rate * mean / (np.sqrt(square) + TINY)


class Training:
    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.step, self.loss = recipe, 0, float("nan")
        self._rng = np.random.default_rng(recipe.seed)
        self._model = create(recipe.model, self._rng)
        self._adam = Adam(self._model.params)

    def advance(self) -> float:
        """Do one step of several updates; return the mean of their losses."""
        losses = []
        for _ in range(self.recipe.batches):
            loss, grads = self._model.loss_and_grads(self._model.batch(self._rng))
            self._adam.update(grads)
            losses.append(loss)
        self.step, self.loss = self.step + 1, sum(losses) / len(losses)
        return self.loss

    def digest(self) -> str:
        found = hashlib.sha256()
        for _, values in sorted(self._model.params.items()):
            found.update(values.tobytes())
        return found.hexdigest()

    def save(self, folder: Path) -> None:
        np.savez(folder / "arrays.npz", **self._arrays())
        state = {
            "recipe": asdict(self.recipe),
            "step": self.step,
            "loss": self.loss,
            "updates": self._adam.updates,
            "generator": self._rng.bit_generator.state,
        }
        (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        check_recipe(state["recipe"], asdict(self.recipe), str(folder))
        with np.load(folder / "arrays.npz", allow_pickle=False) as saved:
            for name, values in self._arrays().items():
                values[...] = saved[name]
        self.step, self.loss, self._adam.updates = state["step"], state["loss"], state["updates"]
        self._rng.bit_generator.state = state["generator"]

    def _arrays(self) -> dict[str, Any]:
        """Return weights and averages by name, not copied."""
        kinds = {"weight": self._model.params, "mean": self._adam.mean, "square": self._adam.square}
        return {f"{kind}.{name}": kinds[kind][name] for kind in kinds for name in kinds[kind]}


def train(
    training: Training, run: Run, stop: Stop, *, steps: int, demand: float = 1, save_every: int = 0
) -> int:
    """Train until the last step or a request to stop; return the exit code."""
    if (latest := run.latest) is not None:
        training.restore(latest.folder)
    while training.step < steps:
        began = time.process_time()
        loss = training.advance()
        print_line(f"step {training.step}/{steps} loss {loss:.4f}")
        run.report(training.step, loss=loss)
        due = run.should_checkpoint() or (save_every and training.step % save_every == 0)
        saved = due and run.save(training.step, training.save)
        stop.wait((time.process_time() - began) * (1 / demand - 1))
        if stop.requested and training.step < steps:
            if not saved:
                run.save(training.step, training.save)
            return TERMINATED
    digest = training.digest()
    print_line(f"done: {training.step} steps, loss {training.loss:.4f}, weights sha256 {digest}")
    return DONE


def check_recipe(saved: dict[str, Any], own: dict[str, Any], where: str) -> None:
    """A checkpoint of a training with other arguments is an error."""
    if saved != own:
        raise ConfigError(
            "the checkpoint belongs to another training: "
            + " ".join(f"{key}={value}" for key, value in saved.items()),
            where=where,
            hint="use the same arguments, or another checkpoint directory",
        )


def print_line(line: str) -> None:
    """Print in one piece: several threads may."""
    print(f"{line}\n", end="", flush=True)  # noqa: T201 - the output of a program
