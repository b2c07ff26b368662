"""Which worker computes which chunks, and when their gradients are applied."""

from collections import deque
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headway.trainings.model import Array
from headway.trainings.parameter_server.shared_model import SharedModel

Results = dict[int, tuple[float, NDArray[np.int64], Array]]
"""Loss, samples and gradient of each chunk."""


class Schedule(Protocol):
    def next(self, worker: int) -> list[int] | None:
        """Return the chunks that a worker computes now; None: it waits."""
        ...

    def push(self, worker: int, results: Results) -> None: ...

    def leave(self, worker: int) -> None:
        """A worker has left, or is given up."""
        ...


class Synchronous:
    """Each step divides its chunks among all workers, and waits for all of them."""

    def __init__(self, model: SharedModel, workers: int) -> None:
        self._model, self._workers = model, workers
        self._parts: Results = {}
        self._pushed: set[int] = set()

    def next(self, worker: int) -> list[int] | None:
        if worker in self._pushed:
            return None
        count = self._model.recipe.chunks
        begin = self._model.step * count
        return [begin + i for i in range(count) if i * self._workers // count == worker]

    def push(self, worker: int, results: Results) -> None:
        begin = self._model.step * self._model.recipe.chunks
        current = range(begin, begin + self._model.recipe.chunks)
        self._parts |= {chunk: found for chunk, found in results.items() if chunk in current}
        self._pushed.add(worker)
        if len(self._parts) == len(current) and len(self._pushed) == self._workers:
            self._model.apply(self._parts)
            self._parts, self._pushed = {}, set()

    def leave(self, worker: int) -> None:
        """What it has pushed stays; it has to push the rest when it is back."""


class Asynchronous:
    """Each worker gets the next free chunk, whose gradient is applied as soon as it arrives."""

    def __init__(self, model: SharedModel) -> None:
        self._model, self._free = model, deque(model.open)
        self._leases: dict[int, int] = {}
        """The worker of each chunk that is being computed."""

    def next(self, worker: int) -> list[int] | None:
        if not self._free:
            return None
        chunk = self._free.popleft()
        self._leases[chunk] = worker
        return [chunk]

    def push(self, worker: int, results: Results) -> None:
        """A chunk that was given to another worker meanwhile does not count."""
        for chunk, found in results.items():
            if self._leases.get(chunk) == worker:
                del self._leases[chunk]
                self._model.apply({chunk: found})

    def leave(self, worker: int) -> None:
        lost = [chunk for chunk, holder in self._leases.items() if holder == worker]
        for chunk in lost:
            del self._leases[chunk]
        self._free.extendleft(reversed(lost))
