"""Data-parallel training with PyTorch's DistributedDataParallel over gloo (extra `torch`).

Each worker computes the gradient of its chunks of the global batch, and all apply the mean. The
first replica reports and saves; after a restart, the others get its state. That is rank 0, except
under torchrun, which numbers the processes anew with each restart.
"""

import hashlib
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from headway.sdk import Run
from headway.trainings.parameter_server.server import FAILED, LINGER_S
from headway.trainings.parameter_server.shared_model import Data, Recipe, ledger_digest
from headway.trainings.stop import Stop
from headway.trainings.train import DONE, TERMINATED, check_recipe, print_line

HIDDEN, LEARNING_RATE = 32, 1e-3


def take_part(
    recipe: Recipe, run: Run, stop: Stop, *, demand: float, save_every: int, timeout: float
) -> int:
    """Train as one of `WORLD_SIZE` workers; return the exit code."""
    torch.set_num_threads(1)
    try:
        rank, world = _join(os.environ, timeout)
        chief = _rank_of_chief(rank, world)
        return Worker(recipe, (rank, chief, world), run, stop).train(demand, save_every)
    except (
        RuntimeError,
        TimeoutError,
    ) as error:  # gloo: another worker is gone, or does not answer
        if stop.requested:
            return TERMINATED
        why = str(error).strip().splitlines()[0]
        print_line(f"error: lost the other workers, or one did not answer in {timeout:g} s: {why}")
        return FAILED


def _join(environment: Mapping[str, str], timeout: float) -> tuple[int, int]:
    rank, world = int(environment.get("RANK", "0")), int(environment.get("WORLD_SIZE", "1"))
    host = environment.get("MASTER_ADDR", "127.0.0.1")
    port = int(environment.get("MASTER_PORT", "0")) or _free_port()
    if host.startswith("127."):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", init_method=f"tcp://{host}:{port}", rank=rank, world_size=world,
        timeout=timedelta(seconds=timeout),
    )  # fmt: skip
    return rank, world


def is_first(environment: Mapping[str, str]) -> bool:
    """Whether this is the first replica of its job, in whose directory the checkpoints are."""
    replica = environment.get("HEADWAY_REPLICA")
    return environment.get("RANK", "0") == "0" if replica is None else replica.endswith("-0")


def _rank_of_chief(rank: int, world: int) -> int:
    mine = torch.tensor([rank if is_first(os.environ) else world])
    dist.all_reduce(mine, dist.ReduceOp.MIN)
    return int(mine) % world


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Worker:
    def __init__(self, recipe: Recipe, ranks: tuple[int, int, int], run: Run, stop: Stop) -> None:
        """`ranks`: its own, that of the chief, and their number."""
        self.recipe, self.run, self.stop = recipe, run, stop
        self.rank, self.lead, self.world = ranks
        torch.manual_seed(recipe.seed)
        self.data = Data(recipe)
        self.images = torch.from_numpy(self.data.images.astype(np.float32)).flatten(1)
        self.labels = torch.from_numpy(self.data.labels)
        pixels, digits = self.images.shape[1], 10
        self.model = nn.Sequential(nn.Linear(pixels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, digits))
        self.optimizer = torch.optim.Adam(self.model.parameters(), LEARNING_RATE)
        self.ledger = torch.zeros(recipe.epochs, recipe.samples, dtype=torch.int32)
        """How often each sample was used in each epoch; the chief: by all, until the last
        checkpoint, and by itself since."""
        self.step, self.loss, self.saved = 0, float("nan"), -1

    @property
    def chief(self) -> bool:
        return self.rank == self.lead

    def train(self, demand: float, save_every: int) -> int:
        self._restore()
        print_line(f"rank {self.rank} of {self.world}, from step {self.step}")
        trained = DistributedDataParallel(self.model)
        while self.step < self.recipe.steps:
            asked = self.chief and self.run.should_checkpoint()
            due = bool(save_every) and self.step % save_every == 0 and self.step > 0
            stops, saves = self._agree(self.stop.requested, asked or (due and self.chief))
            if (stops or saves) and self.step > self.saved:
                self._save()
            if stops:
                return TERMINATED
            began = process_time()
            self._advance(trained)
            self.stop.wait((process_time() - began) * (1 / demand - 1))
        return self._end()

    def _agree(self, *wishes: bool) -> list[bool]:
        """Return what any worker wishes, so that all do the same after the same step."""
        found = torch.tensor([int(wish) for wish in wishes])
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return [bool(wish) for wish in found]

    def _advance(self, trained: nn.Module) -> None:
        count, batch = self.recipe.chunks, self.recipe.chunks * self.recipe.size
        begin = self.step * count
        mine = [begin + i for i in range(count) if i * self.world // count == self.rank]
        samples = np.concatenate([np.empty(0, np.int64), *map(self.data.of, mine)])
        self.optimizer.zero_grad()
        outputs = trained(self.images[samples])
        total = nn.functional.cross_entropy(outputs, self.labels[samples], reduction="sum")
        (total * self.world / batch).backward()  # the mean over the workers is that of the batch
        self.optimizer.step()
        self.ledger[self.step // self.recipe.epoch, samples] += 1
        loss = total.detach() / batch
        dist.reduce(loss, self.lead)
        self.step += 1
        if self.chief:
            self.loss = float(loss)
            print_line(f"step {self.step}/{self.recipe.steps} loss {self.loss:.4f}")
            self.run.report(self.step, loss=self.loss)

    # -- checkpoints -------------------------------------------------------------------------------

    def _gather_ledger(self) -> None:
        dist.reduce(self.ledger, self.lead)
        if not self.chief:
            self.ledger.zero_()

    def _save(self) -> None:
        self._gather_ledger()
        self.saved = self.step
        if self.chief:
            state = {**self._state(), "recipe": asdict(self.recipe), "ledger": self.ledger}
            self.run.save(self.step, lambda folder: torch.save(state, folder / "state.pt"))

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def _restore(self) -> None:
        latest = self.run.latest if self.chief else None
        if latest is not None:
            self._load(latest.folder)
        shared = [self._state() if self.chief else None]
        dist.broadcast_object_list(shared, self.lead)
        if not self.chief and shared[0] is not None:
            self._apply(shared[0])
        self.saved = self.step

    def _load(self, folder: Path) -> None:
        state = torch.load(folder / "state.pt")
        check_recipe(state["recipe"], asdict(self.recipe), str(folder))
        self.ledger = state["ledger"]
        self._apply(state)

    def _apply(self, state: dict[str, Any]) -> None:
        self.step = state["step"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def _end(self) -> int:
        self._gather_ledger()
        if not self.chief:
            # A policy would replace a worker that has gone before the chief has.
            alone = self.run.managed and "TORCHELASTIC_RUN_ID" not in os.environ
            self.stop.wait(LINGER_S if alone else 0.0)
            return DONE
        recipe, used = self.recipe, self.ledger.numpy()
        whole = recipe.steps * recipe.chunks * recipe.size
        once = bool(used.max() <= 1) and int(used.sum()) == whole
        said = "each once" if once else "NOT each once"
        digest = ledger_digest(used.astype(np.uint8))
        print_line(f"samples: {recipe.epochs} epochs of {recipe.samples}, {said}, sha256 {digest}")
        weights = hashlib.sha256()
        for values in self.model.state_dict().values():
            weights.update(values.numpy().tobytes())
        about = f"loss {self.loss:.4f}, weights sha256 {weights.hexdigest()}"
        print_line(f"done: {recipe.steps} steps, {about}")
        return DONE if once else FAILED
