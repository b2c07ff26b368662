"""Calls that change the cluster: one after the other, in a thread of their own."""

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from headway.backend.kubernetes.client.fatal_thread import fatal_thread
from headway.backend.worker import LoopQueue
from headway.errors import BackendError

T = TypeVar("T")


class ApiWorker:
    def __init__(self, mail: LoopQueue) -> None:
        self._mail = mail
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._working, name="kubernetes", daemon=True)
        self._thread.start()

    def do(
        self,
        call: Callable[[], T],
        then: Callable[[T], None] = lambda answer: None,
        failed: Callable[[BackendError], None] = lambda error: None,
    ) -> None:
        """In its turn; `then` or `failed` is called in the loop's thread."""

        def work() -> None:
            try:
                answer = call()
            except BackendError as error:
                self._mail.put(partial(failed, error))
            else:
                self._mail.put(partial(then, answer))

        self._work.put(work)

    @fatal_thread
    def _working(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def close(self, patience: float = 5.0) -> None:
        """What was asked for is still done."""
        self._work.put(None)
        self._thread.join(patience)
