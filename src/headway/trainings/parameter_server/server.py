"""The parameter server: one thread for each worker, and one that looks for trouble."""

import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from threading import Condition, Thread
from time import monotonic

import numpy as np

from headway.errors import ConfigError
from headway.trainings.parameter_server import wire
from headway.trainings.parameter_server.schedule import (
    Asynchronous,
    Results,
    Schedule,
    Synchronous,
)
from headway.trainings.parameter_server.shared_model import Recipe, SharedModel
from headway.trainings.stop import Stop
from headway.trainings.train import DONE, TERMINATED, print_line

FAILED = 1
CHIEF = 0
LINGER_S = 5.0
"""After a request to stop: for the chief to save a checkpoint. After the end: for the chief to
exit."""


@dataclass(eq=False, slots=True)
class Member:
    """A worker that has joined."""

    index: int
    chunks: list[int] = field(default_factory=list)
    asked_at: float = 0.0
    """Time at which it was asked for its present chunks."""


class Server:
    def __init__(self, recipe: Recipe, workers: int, timeout: float) -> None:
        """`workers`: how many a synchronous training waits for. `timeout`: for each to join, and to
        answer.
        """
        self.recipe, self.model = recipe, SharedModel(recipe)
        self._workers = 1 if recipe.asynchronous else workers
        self._timeout, self._changed = timeout, Condition()
        self._schedule: Schedule | None = None
        self._members: dict[int, Member] = {}
        self._complete_at = monotonic()
        """Last time at which all workers were connected."""
        self._trouble = ""

    def serve(self, listener: socket.socket, stop: Stop) -> int:
        """Serve until the training is done, a request to stop, or trouble; return the exit code."""
        listener.settimeout(wire.POLL_S)
        self._complete_at = monotonic()
        stopped_at = None
        while not self._over(stopped_at):
            if stop.requested and stopped_at is None:
                stopped_at = monotonic()
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(None)
            Thread(target=self._talk, args=(connection,), daemon=True).start()
        if self._trouble:
            print_line(f"error: {self._trouble}")
            return FAILED
        return DONE if self.model.done else TERMINATED

    def _over(self, stopped_at: float | None) -> bool:
        with self._changed:
            if stopped_at is None:
                self._trouble = self._trouble or self._find_trouble()
                return bool(self._trouble) or (self.model.done and not self._members)
            return not self._members or monotonic() > stopped_at + LINGER_S

    def _find_trouble(self) -> str:
        now, said = monotonic(), f"within {self._timeout:g} s"
        present = [f"worker-{i}" for i in sorted(self._members)]
        if self.model.done or len(present) >= self._workers:
            self._complete_at = now
        elif now > self._complete_at + self._timeout:
            absent = [f"worker-{i}" for i in range(self._workers) if i not in self._members]
            there = f"; there are: {', '.join(present)}" if present else ""
            return f"{', '.join(absent)} did not join {said}{there}"
        for member in list(self._members.values()):
            if not member.asked_at or now <= member.asked_at + self._timeout:
                continue
            if not self.recipe.asynchronous:
                return f"worker-{member.index} did not answer {said}"
            print_line(f"worker-{member.index} did not answer {said}; others take its samples")
            member.asked_at = 0.0
            self._leave(member)
        return ""

    # -- one thread for each connection ------------------------------------------------------------

    def _talk(self, connection: socket.socket) -> None:
        member = None
        try:
            with connection:
                head, body = wire.receive(connection)
                if head.get("kind") == "state":
                    with self._changed:
                        state, step = self.model.state(), self.model.step
                    wire.send(connection, {"step": step}, state)
                    return
                member = Member(int(head["worker"]))
                refused = self._join(member, head, body)
                if refused:
                    wire.send(connection, {"error": refused})
                    return
                for answer, params in self._work(member, connection):
                    wire.send(connection, answer, params)
                    head, body = wire.receive(connection)
                    self._push(member, head, body)
        except (OSError, ValueError, KeyError, TypeError):
            pass  # it has left, or is no worker
        finally:
            if member is not None:
                self._leave(member, gone=True)

    def _join(self, member: Member, head: wire.Head, state: bytearray) -> str:
        """The chief is the first, and restores the last checkpoint. Return why it is refused."""
        if head.get("recipe") != asdict(self.recipe):
            return f"worker-{member.index} was started with other arguments than the server"
        with self._changed:
            if member.index == CHIEF and self._schedule is None:
                try:
                    if state:
                        self.model.restore(state)
                except ConfigError as error:
                    self._trouble = error.message
                    return error.message
                self._schedule = (
                    Asynchronous(self.model)
                    if self.recipe.asynchronous
                    else Synchronous(self.model, self._workers)
                )
            self._members[member.index] = member
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._schedule is not None)
        print_line(f"worker-{member.index} joined at step {self.model.step}")
        return ""

    def _work(self, member: Member, connection: socket.socket) -> Iterator[tuple[wire.Head, bytes]]:
        """What to send to a worker, one message after another, until it leaves."""
        model = self.model
        while True:
            with self._changed:
                ready = False
                while not ready:
                    ready = self._changed.wait_for(
                        lambda: model.done or self._assign(member), wire.POLL_S
                    )
                    if not ready and wire.is_closed(connection):
                        return
                head = {"step": model.step, "loss": model.loss, "chunks": member.chunks}
                if model.done:
                    member.asked_at = 0.0
                    head |= {"chunks": [], "done": True, "weights": model.weights_digest}
                    head |= {"samples": model.samples_digest, "once": model.once}
                params = model.network.flat.tobytes()
            yield head, params

    def _assign(self, member: Member) -> bool:
        chunks = self._schedule.next(member.index) if self._schedule else None
        if chunks is None:
            return False
        member.chunks, member.asked_at = chunks, monotonic()
        return True

    def _push(self, member: Member, head: wire.Head, body: bytearray) -> None:
        results: Results = {}
        size = self.model.network.flat.size
        values = np.frombuffer(body, np.float64).reshape(len(head["chunks"]), size)
        for (chunk, loss, samples), gradient in zip(head["chunks"], values, strict=True):
            results[int(chunk)] = float(loss), np.array(samples, np.int64), gradient
        with self._changed:
            member.asked_at = 0.0
            if self._schedule is not None and not self.model.done:
                self._schedule.push(member.index, results)
            self._changed.notify_all()

    def _leave(self, member: Member, *, gone: bool = False) -> None:
        with self._changed:
            if self._members.get(member.index) is member:
                if self._schedule is not None:
                    self._schedule.leave(member.index)
                if gone:
                    del self._members[member.index]
                    print_line(f"worker-{member.index} left at step {self.model.step}")
            self._changed.notify_all()
