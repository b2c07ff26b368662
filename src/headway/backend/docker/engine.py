"""One engine as a node: a thread that does what takes time, and one that hears what happens.

Only the loop's own thread changes anything of ours: the two hand it closures, by `LoopQueue`.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, TypeVar

from headway.backend.docker.client import Client, Stream, objects
from headway.backend.worker import LoopQueue
from headway.core.model.units import Bytes, Cores, NodeId, Resources, Seconds
from headway.errors import BackendError, Unreachable

T = TypeVar("T")
QUIET: Seconds = 5.0
"""After this time without work the engine is asked whether it is still there."""
AGAIN: Seconds = 0.5
"""Between two tries to reach an engine that has gone."""
WANTED = ("start", "die", "destroy")

Told = dict[str, Any]


class Engine:
    """What it says arrives by `up`, `down` and `event`, in the loop's thread."""

    def __init__(self, name: NodeId, client: Client) -> None:
        self.name, self.client = name, client
        said = client.hello()
        info = client.get("/info")
        self.cores: Cores = float(info["NCPU"])
        self.memory: Bytes = float(info["MemTotal"])
        self.capacity = Resources(cpu=self.cores, memory=self.memory)
        self.cpus: tuple[int, ...] | None = None
        """Where its containers run; None: anywhere."""
        self.version = str(said.get("Version", ""))
        self.up = True
        self.apart = False
        """Its containers cannot see our folders: files travel as archives."""
        self.broken = 0
        """How often it has gone."""
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._stopped = Event()
        self._stream: Stream | None = None
        self._threads: list[Thread] = []

    def cut(self, capacity: Resources, cpus: tuple[int, ...] | None) -> None:
        """It is a part of the engine only."""
        self.capacity, self.cpus = capacity, cpus

    # -- what takes time ---------------------------------------------------------------------------

    def begin(
        self,
        mail: LoopQueue,
        *,
        up: Callable[[], None],
        down: Callable[[BackendError], None],
        event: Callable[[Told], None],
    ) -> None:
        """Work and listen from now on."""
        self._mail, self._up, self._down, self._event = mail, up, down, event
        for each in (self._working, self._listening):
            thread = Thread(target=each, name=f"{self.name}{each.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def do(
        self,
        call: Callable[[], T],
        then: Callable[[T], None] = lambda answer: None,
        failed: Callable[[BackendError], None] = lambda error: None,
    ) -> Event:
        """In its turn; `then` or `failed` is called in the loop's thread. The event is set when
        the engine has answered.
        """
        answered = Event()

        def work() -> None:
            try:
                answer = call()
            except BackendError as error:
                self._mail.put(lambda error=error: failed(error))  # type: ignore[misc]
            except Exception as error:  # noqa: BLE001 - this thread must outlive any surprise
                surprise = BackendError(f"{type(error).__name__}: {error}")
                self._mail.put(lambda: failed(surprise))
            else:
                self._mail.put(lambda: then(answer))
            finally:
                answered.set()

        self._work.put(work)
        return answered

    def _working(self) -> None:
        while not self._stopped.is_set():
            try:
                work = self._work.get(timeout=QUIET)
            except Empty:
                self._still_there()
                continue
            if work is None:
                return
            work()

    def _still_there(self) -> None:
        """A connection that broke without a word would be waited on for ever."""
        if self._stream is not None and self.up:
            try:
                self.client.get("/_ping")
            except Unreachable:
                self._stream.close()
            except BackendError:
                return

    # -- what happens ------------------------------------------------------------------------------

    def _listening(self) -> None:
        filters = {"type": ["container"], "event": list(WANTED)}
        while not self._stopped.is_set():
            why: BackendError = Unreachable(f"the engine at {self.client.url} closed the line")
            try:
                if not self.up:
                    self.client.hello()
                self._stream = self.client.stream("/events", filters=filters)
                if self._stopped.is_set():
                    self._stream.close()
                self.up = True
                self._mail.put(self._up)
                for happened in objects(self._stream):
                    self._mail.put(lambda happened=happened: self._event(happened))  # type: ignore[misc]
            except BackendError as error:
                why = error
            except Exception as error:  # noqa: BLE001 - this thread must outlive any surprise
                why = BackendError(f"{type(error).__name__}: {error}")
            if self._stopped.is_set():
                return
            if self.up:
                self.up = False
                self._mail.put(lambda why=why: self._down(why))  # type: ignore[misc]
            self._stopped.wait(AGAIN)

    def close(self) -> None:
        self._stopped.set()
        self._work.put(None)
        if self._stream is not None:
            self._stream.close()
        for thread in self._threads:
            thread.join(timeout=2.0)
