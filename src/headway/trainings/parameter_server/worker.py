"""A worker: gets weights and chunks, sends gradients. The chief also reports and saves."""

import socket
from contextlib import suppress
from dataclasses import asdict
from time import monotonic, process_time

import numpy as np

from headway.sdk import Run
from headway.trainings.parameter_server import wire
from headway.trainings.parameter_server.server import CHIEF, FAILED, LINGER_S
from headway.trainings.parameter_server.shared_model import (
    Data,
    Network,
    Recipe,
    read_state,
    write_state,
)
from headway.trainings.stop import Stop
from headway.trainings.train import DONE, TERMINATED, print_line

Address = tuple[str, int]
RETRY_S = 0.1
"""Interval between two attempts to reach the server."""


def rest_of_step(used: float, elapsed: float, demand: float) -> float:
    """Return how long to wait after so many core-seconds, which took so long, to use no more than
    this part of a core. A worker that got less did not also wait.

    >>> rest_of_step(1.0, 1.0, 0.25), rest_of_step(1.0, 3.0, 0.25), rest_of_step(1.0, 8.0, 0.25)
    (3.0, 1.0, 0.0)
    """
    return max(0.0, used / demand - elapsed)


class Stopped(Exception):
    """A request to stop has come."""


class Worker:
    def __init__(
        self, recipe: Recipe, index: int, server: Address, run: Run, stop: Stop, timeout: float
    ) -> None:
        self.recipe, self.index, self.server = recipe, index, server
        self.run, self.stop, self.timeout = run, stop, timeout
        self._step = self._saved = -1

    def train(self, *, demand: float = 1.0, save_every: int = 0) -> int:
        """Train until the server says that all is done; return the exit code."""
        name = f"{self.server[0]}:{self.server[1]}"
        try:
            with self._connect() as server:
                return self._train(server, demand, save_every)
        except Stopped:
            return self._leave()
        except OSError as error:
            if self.stop.requested:
                return self._leave()
            why = f"lost the parameter server {name}: {error}"
            if isinstance(error, TimeoutError):
                why = f"the parameter server {name} did not answer in {self.timeout:g} s"
            print_line(f"error: {why}")
        return FAILED

    def _connect(self) -> socket.socket:
        """Connect; the server may start later than its workers."""
        end = monotonic() + self.timeout
        while True:
            if self.stop.requested:
                raise Stopped
            with suppress(ConnectionError, socket.gaierror, TimeoutError):
                return socket.create_connection(self.server, timeout=wire.POLL_S)
            if monotonic() > end:
                raise TimeoutError
            self.stop.wait(RETRY_S)

    def _receive(self, server: socket.socket) -> tuple[wire.Head, bytearray]:
        """A synchronous server answers when all workers have, and gives up those that do not."""
        end = monotonic() + 2 * self.timeout
        return wire.receive(server, lambda: not self.stop.requested and monotonic() < end)

    def _train(self, server: socket.socket, demand: float, save_every: int) -> int:
        network, data = Network(self.recipe), Data(self.recipe)
        latest = self.run.latest if self.index == CHIEF else None
        state = b"" if latest is None else read_state(latest.folder)
        wire.send(server, {"worker": self.index, "recipe": asdict(self.recipe)}, state)
        while True:
            head, params = self._receive(server)
            if "error" in head:
                print_line(f"error: {head['error']}")
                return FAILED
            self._report(head, save_every)
            if head.get("done"):
                return self._done(head)
            network.flat[:] = np.frombuffer(params, np.float64)
            began, results, gradients = (process_time(), monotonic()), [], []
            for chunk in head["chunks"]:
                if self.stop.requested:
                    raise Stopped
                samples = data.of(chunk)
                loss, gradient = network.gradient(data.images[samples], data.labels[samples])
                results.append((chunk, loss, samples.tolist()))
                gradients.append(gradient)
            used, elapsed = process_time() - began[0], monotonic() - began[1]
            self.stop.wait(rest_of_step(used, elapsed, demand))
            body = np.concatenate(gradients).tobytes() if gradients else b""
            wire.send(server, {"chunks": results}, body)

    def _report(self, head: wire.Head, save_every: int) -> None:
        if self.index != CHIEF:
            return
        step, before = int(head["step"]), self._step
        if step > max(0, before):
            print_line(f"step {step}/{self.recipe.steps} loss {head['loss']:.4f}")
            self.run.report(step, loss=head["loss"])
        self._step = step
        due = save_every and step > max(0, before) and step // save_every > before // save_every
        if self.run.should_checkpoint() or (due and step < self.recipe.steps):
            self._save()

    def _save(self) -> None:
        """Ask on a second connection, because the first may wait for other workers."""
        with socket.create_connection(self.server, timeout=self.timeout) as server:
            wire.send(server, {"kind": "state"})
            head, state = wire.receive(server, lambda: False)
        if self.run.save(int(head["step"]), lambda folder: write_state(folder, state)):
            self._saved = int(head["step"])

    def _leave(self) -> int:
        if self.index == CHIEF and self._step > self._saved:
            with suppress(OSError):
                self._save()
        return TERMINATED

    def _done(self, head: wire.Head) -> int:
        if self.index != CHIEF:
            # A policy would replace a worker that has gone before the chief has.
            self.stop.wait(LINGER_S if self.run.managed else 0.0)
        else:
            size, epochs = self.recipe.samples, self.recipe.epochs
            once = "each once" if head["once"] else "NOT each once"
            print_line(f"samples: {epochs} epochs of {size}, {once}, sha256 {head['samples']}")
            loss, weights = head["loss"], head["weights"]
            print_line(
                f"done: {self.recipe.steps} steps, loss {loss:.4f}, weights sha256 {weights}"
            )
        return DONE if head["once"] else FAILED
