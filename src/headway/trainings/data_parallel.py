"""Data-parallel training: equal workers, each with its part of the global batch of a step.

The first replica reports and saves. A framework computes the gradients and exchanges them; `ddp`
and `mirrored` each use one.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from time import process_time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.sdk import Run
from headway.trainings.parameter_server.server import FAILED, LINGER_S
from headway.trainings.parameter_server.shared_model import Data, Recipe, ledger_digest
from headway.trainings.stop import Stop
from headway.trainings.train import DONE, TERMINATED, check_recipe, print_line

HIDDEN, LEARNING_RATE = 32, 1e-3
"""Of the network, which has one hidden layer."""
Integers = NDArray[np.int64]


class Framework(Protocol):
    """The model of one worker. Each method is called by all workers at the same step."""

    rank: int
    chief: int
    """The rank of the first replica."""
    world: int

    def total(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the sum over all workers."""
        ...

    def advance(self, samples: Integers, batch: int) -> float:
        """Update the weights by the gradient of the whole batch, of which these are the samples of
        this worker; return its loss. Only the chief's is used.
        """
        ...

    def restore(self, folder: Path | None) -> None:
        """Give all workers the state in this folder of the chief's; None: its initial state."""
        ...

    def save(self, folder: Path) -> None: ...

    def weights(self) -> Iterable[NDArray[Any]]: ...


def is_first(environment: Mapping[str, str]) -> bool:
    """Whether this is the first replica of its job, in whose directory the checkpoints are."""
    replica = environment.get("HEADWAY_REPLICA")
    return environment.get("RANK", "0") == "0" if replica is None else replica.endswith("-0")


def lost_others(timeout: float, why: str) -> int:
    """Report that another worker has left, or hangs; return the exit code."""
    print_line(f"error: lost the other workers, or one did not answer in {timeout:g} s: {why}")
    return FAILED


class Worker:
    def __init__(self, recipe: Recipe, data: Data, model: Framework, run: Run, stop: Stop) -> None:
        self.recipe, self.data, self.model, self.run, self.stop = recipe, data, model, run, stop
        self.chief = model.rank == model.chief
        self.ledger = np.zeros((recipe.epochs, recipe.samples), np.int32)
        """How often each sample was used in each epoch; the chief: by all, until the last
        checkpoint, and by itself since."""
        self.step, self.loss, self.saved = 0, float("nan"), -1

    def train(self, demand: float, save_every: int) -> int:
        """Train until the last step or a request to stop; return the exit code."""
        self._restore()
        print_line(f"rank {self.model.rank} of {self.model.world}, from step {self.step}")
        while self.step < self.recipe.steps:
            asked = self.chief and self.run.should_checkpoint()
            due = bool(save_every) and self.step % save_every == 0 and self.step > 0
            stops, saves = self._agree(self.stop.requested, asked or (due and self.chief))
            if (stops or saves) and self.step > self.saved:
                self._save()
            if stops:
                return TERMINATED
            began = process_time()
            self._advance()
            self.stop.wait((process_time() - began) * (1 / demand - 1))
        return self._end()

    def _agree(self, *wishes: bool) -> list[bool]:
        """Return what any worker wishes, so that all do the same after the same step."""
        return [bool(count) for count in self.model.total(np.array(wishes, np.int32))]

    def _advance(self) -> None:
        count, world = self.recipe.chunks, self.model.world
        begin = self.step * count
        mine = [begin + i for i in range(count) if i * world // count == self.model.rank]
        samples = np.concatenate([np.empty(0, np.int64), *map(self.data.of, mine)])
        self.loss = self.model.advance(samples, count * self.recipe.size)
        self.ledger[self.step // self.recipe.epoch, samples] += 1
        self.step += 1
        if self.chief:
            print_line(f"step {self.step}/{self.recipe.steps} loss {self.loss:.4f}")
            self.run.report(self.step, loss=self.loss)

    # -- checkpoints -------------------------------------------------------------------------------

    def _gather_ledger(self) -> None:
        used = self.model.total(self.ledger)
        self.ledger = used if self.chief else np.zeros_like(used)

    def _save(self) -> None:
        self._gather_ledger()
        self.saved = self.step
        if self.chief:
            self.run.flush()  # a worker restarted from here does not report these steps again
            self.run.save(self.step, self._write)

    def _write(self, folder: Path) -> None:
        about = {"recipe": asdict(self.recipe), "step": self.step, "loss": self.loss}
        (folder / "state.json").write_text(json.dumps(about), encoding="utf-8")
        np.save(folder / "ledger.npy", self.ledger)
        self.model.save(folder)

    def _restore(self) -> None:
        latest = self.run.latest if self.chief else None
        if latest is not None:
            about = json.loads((latest.folder / "state.json").read_text(encoding="utf-8"))
            check_recipe(about["recipe"], asdict(self.recipe), str(latest.folder))
            self.step, self.loss = about["step"], about.get("loss", self.loss)
            self.ledger = np.load(latest.folder / "ledger.npy")
        (self.step,) = map(int, self.model.total(np.array([self.step], np.int32)))
        self.model.restore(latest.folder if latest else None)
        self.saved = self.step

    def _end(self) -> int:
        """Save before the end is announced: torchrun can restart a worker until it has exited."""
        if self.step > self.saved:
            self._save()
        else:
            self._gather_ledger()
        if not self.chief:
            # A policy would replace a worker that has gone before the chief has.
            alone = self.run.managed and "TORCHELASTIC_RUN_ID" not in os.environ
            self.stop.wait(LINGER_S if alone else 0.0)
            return DONE
        recipe, used = self.recipe, self.ledger
        whole = recipe.steps * recipe.chunks * recipe.size
        once = bool(used.max() <= 1) and int(used.sum()) == whole
        said = "each once" if once else "NOT each once"
        digest = ledger_digest(used.astype(np.uint8))
        print_line(f"samples: {recipe.epochs} epochs of {recipe.samples}, {said}, sha256 {digest}")
        weights = hashlib.sha256()
        for values in self.model.weights():
            weights.update(values.tobytes())
        about = f"loss {self.loss:.4f}, weights sha256 {weights.hexdigest()}"
        print_line(f"done: {recipe.steps} steps, {about}")
        return DONE if once else FAILED
