"""What a parameter server holds: weights, optimiser, and a ledger of the samples that were used.

The data are generated from the seed, and their order depends only on seed and epoch. A step uses
one global batch, which consists of chunks. Synchronous training adds up the gradients of the chunks
in their order, so that the weights do not depend on the number of workers.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.trainings import CHUNKS
from headway.trainings.cnn import CNN
from headway.trainings.data import add_noise, digits
from headway.trainings.model import Array, Arrays, Labels
from headway.trainings.train import Adam, check_recipe

NOISE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that determines the training, besides the number of workers."""

    steps: int
    asynchronous: bool = False
    chunks: int = CHUNKS
    """Chunks in a step; more workers than chunks are of no use to a synchronous job."""
    size: int = 8
    """Samples in a chunk."""
    epoch: int = 20
    """Steps in an epoch."""
    seed: int = 0

    @property
    def total(self) -> int:
        """Chunks in all steps."""
        return self.steps * self.chunks

    @property
    def samples(self) -> int:
        """Samples in an epoch."""
        return self.epoch * self.chunks * self.size

    @property
    def epochs(self) -> int:
        return -(-self.steps // self.epoch)


class Network:
    """The network, with its parameters in one array."""

    def __init__(self, recipe: Recipe) -> None:
        self._cnn = CNN(np.random.default_rng(recipe.seed))
        self.shapes = {name: p.shape for name, p in sorted(self._cnn.params.items())}
        self.flat = self.join(self._cnn.params)
        self._cnn.params = self.split(self.flat)

    @property
    def params(self) -> Arrays:
        """Views of the array."""
        return self._cnn.params

    def join(self, arrays: Arrays) -> Array:
        return np.concatenate([arrays[name].ravel() for name in self.shapes])

    def split(self, flat: Array) -> Arrays:
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in self.shapes.values()])
        parts = np.split(flat, ends[:-1])
        return {n: p.reshape(s) for (n, s), p in zip(self.shapes.items(), parts, strict=True)}

    def gradient(self, images: Array, labels: Labels) -> tuple[float, Array]:
        loss, grads = self._cnn.loss_and_grads((images, labels))
        return loss, self.join(grads)


class Data:
    """The samples, in an order that depends on the epoch."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        rng = np.random.default_rng([recipe.seed, 1])
        images, self.labels = digits(rng, recipe.samples)
        self.images = add_noise(rng, images[..., None], NOISE)
        self._orders: dict[int, Labels] = {}

    def of(self, chunk: int) -> Labels:
        """Return the samples of a chunk."""
        epoch, place = divmod(chunk, self._recipe.epoch * self._recipe.chunks)
        if epoch not in self._orders:
            rng = np.random.default_rng([self._recipe.seed, 2, epoch])
            self._orders = {epoch: rng.permutation(self._recipe.samples)}
        begin = place * self._recipe.size
        return self._orders[epoch][begin : begin + self._recipe.size]


class SharedModel:
    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.network = recipe, Network(recipe)
        self.adam = Adam(self.network.params)
        self.loss, self._losses = float("nan"), list[float]()
        self.applied = np.zeros(recipe.total, np.uint8)
        """Whether each chunk was applied."""
        self.ledger = np.zeros((recipe.epochs, recipe.samples), np.uint8)
        """How often each sample was used in each epoch, as the workers say."""
        self.count = 0
        """Chunks that were applied."""

    @property
    def step(self) -> int:
        return self.count // self.recipe.chunks

    @property
    def done(self) -> bool:
        return self.count == self.recipe.total

    def apply(self, chunks: dict[int, tuple[float, NDArray[np.int64], Array]]) -> None:
        """Update the weights once, by the mean of these gradients in the order of their chunks."""
        total = np.zeros_like(self.network.flat)
        for chunk in sorted(chunks):
            loss, samples, gradient = chunks[chunk]
            total += gradient
            self.applied[chunk] += 1
            self.count += 1
            np.add.at(self.ledger[chunk // (self.recipe.epoch * self.recipe.chunks)], samples, 1)
            self._losses = [*self._losses, loss][-self.recipe.chunks :]
        self.adam.update(self.network.split(total / len(chunks)))
        self.loss = sum(self._losses) / len(self._losses)

    @property
    def open(self) -> list[int]:
        """Chunks that were not applied yet."""
        return [int(i) for i in np.flatnonzero(self.applied == 0)]

    @property
    def weights_digest(self) -> str:
        return hashlib.sha256(self.network.flat.tobytes()).hexdigest()

    @property
    def samples_digest(self) -> str:
        return ledger_digest(self.ledger)

    @property
    def once(self) -> bool:
        """Whether each sample was used at most once in each epoch, and as many as there should."""
        return bool(self.ledger.max() <= 1) and int(self.ledger.sum()) == self.count * (
            self.recipe.size
        )

    def state(self) -> bytes:
        about = {
            "recipe": asdict(self.recipe),
            "updates": self.adam.updates,
            "count": self.count,
            "losses": self._losses,
        }
        head = json.dumps(about).encode()
        arrays = b"".join(each.tobytes() for each in self._arrays())
        return len(head).to_bytes(4, "big") + head + arrays

    def restore(self, state: bytes | bytearray) -> None:
        size = int.from_bytes(state[:4], "big")
        about: dict[str, Any] = json.loads(state[4 : 4 + size])
        check_recipe(about["recipe"], asdict(self.recipe), "checkpoint")
        begin = 4 + size
        for values in self._arrays():
            end = begin + values.nbytes
            values[...] = np.frombuffer(state[begin:end], values.dtype).reshape(values.shape)
            begin = end
        self.adam.updates, self.count = about["updates"], about["count"]
        self._losses = about["losses"]
        if self._losses:
            self.loss = sum(self._losses) / len(self._losses)

    def _arrays(self) -> list[NDArray[Any]]:
        names = list(self.network.shapes)
        moments = [kind[name] for kind in (self.adam.mean, self.adam.square) for name in names]
        return [self.network.flat, *moments, self.applied, self.ledger]


def ledger_digest(ledger: NDArray[np.uint8]) -> str:
    return hashlib.sha256(ledger.tobytes()).hexdigest()


def write_state(folder: Path, state: bytes | bytearray) -> None:
    (folder / "state.bin").write_bytes(state)


def read_state(folder: Path) -> bytes:
    return (folder / "state.bin").read_bytes()
