"""Data-parallel training with PyTorch's DistributedDataParallel over gloo (extra `torch`).

The chief is rank 0, except under torchrun, which numbers the processes anew with each restart.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from headway.sdk import Run
from headway.trainings.data_parallel import (
    HIDDEN,
    LEARNING_RATE,
    Integers,
    Worker,
    is_first,
    lost_others,
)
from headway.trainings.parameter_server.server import FAILED
from headway.trainings.parameter_server.shared_model import Data, Recipe
from headway.trainings.stop import Stop
from headway.trainings.train import TERMINATED, print_line

PORT_IN_USE = "address already in use"
"""Part of the error of rank 0 if another program listens on MASTER_PORT."""
Ranks = tuple[int, int, int]
"""The own rank, that of the chief, and the number of workers."""


def take_part(
    recipe: Recipe, run: Run, stop: Stop, *, demand: float, save_every: int, timeout: float
) -> int:
    """Train as one of `WORLD_SIZE` workers; return the exit code."""
    torch.set_num_threads(1)
    try:
        ranks = _join(os.environ, timeout)
        if ranks is None:
            print_line(
                "error: the first replica, which has the checkpoints, is not among the workers"
            )
            return FAILED
        return _train(recipe, run, stop, ranks, demand=demand, save_every=save_every)
    except (RuntimeError, TimeoutError) as error:  # of gloo
        if stop.requested:
            return TERMINATED
        why = str(error).strip().splitlines()[0]
        if PORT_IN_USE in why.lower():
            there = f"port {os.environ.get('MASTER_PORT')} of {os.environ.get('MASTER_ADDR')}"
            print_line(f"error: {there}: Address already in use")
            return FAILED
        return lost_others(timeout, why)
    finally:
        # A thread of gloo that ends later than Python aborts the process.
        if dist.is_initialized():
            dist.destroy_process_group()


def _train(recipe: Recipe, run: Run, stop: Stop, ranks: Ranks, **options: Any) -> int:
    data = Data(recipe)
    return Worker(recipe, data, Ddp(recipe.seed, data, ranks), run, stop).train(**options)


def _join(environment: Mapping[str, str], timeout: float) -> Ranks | None:
    """Meet the other workers; None: the chief is not there."""
    rank, world = int(environment.get("RANK", "0")), int(environment.get("WORLD_SIZE", "1"))
    host = environment.get("MASTER_ADDR", "127.0.0.1")
    port = int(environment.get("MASTER_PORT", "0")) or _free_port()
    if host.startswith("127."):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", init_method=f"tcp://{host}:{port}", rank=rank, world_size=world,
        timeout=timedelta(seconds=timeout),
    )  # fmt: skip
    chief = torch.tensor([rank if is_first(environment) else world])
    dist.all_reduce(chief, dist.ReduceOp.MIN)
    return (rank, int(chief), world) if int(chief) < world else None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Ddp:
    def __init__(self, seed: int, data: Data, ranks: Ranks) -> None:
        self.rank, self.chief, self.world = ranks
        torch.manual_seed(seed)
        self.images = torch.from_numpy(data.images.astype(np.float32)).flatten(1)
        self.labels = torch.from_numpy(data.labels)
        pixels, digits = self.images.shape[1], 10
        self.model = nn.Sequential(nn.Linear(pixels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, digits))
        self.optimizer = torch.optim.Adam(self.model.parameters(), LEARNING_RATE)
        self.trained: nn.Module = self.model

    def total(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        found = torch.from_numpy(values.copy())
        dist.all_reduce(found)
        return np.asarray(found.numpy())

    def advance(self, samples: Integers, batch: int) -> float:
        self.optimizer.zero_grad()
        outputs = self.trained(self.images[samples])
        total = nn.functional.cross_entropy(outputs, self.labels[samples], reduction="sum")
        (total * self.world / batch).backward()  # the mean over the workers is that of the batch
        self.optimizer.step()
        loss = total.detach() / batch
        dist.reduce(loss, self.chief)
        return float(loss)

    def restore(self, folder: Path | None) -> None:
        state: list[Any] = [torch.load(folder / "state.pt") if folder else self._state()]
        dist.broadcast_object_list(state, self.chief)
        self.model.load_state_dict(state[0]["model"])
        self.optimizer.load_state_dict(state[0]["optimizer"])
        self.trained = DistributedDataParallel(self.model)

    def save(self, folder: Path) -> None:
        torch.save(self._state(), folder / "state.pt")

    def _state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def weights(self) -> Iterator[NDArray[Any]]:
        return (values.numpy() for values in self.model.state_dict().values())
