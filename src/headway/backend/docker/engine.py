"""A Docker engine as a node: a worker makes calls to it, and a thread reads its events.

Both pass closures to the thread of the loop, which makes all changes.
"""

from collections.abc import Callable, Iterable
from functools import partial
from threading import Event as Flag
from threading import Thread
from typing import Any

from headway.backend.docker.client import Client, objects
from headway.backend.docker.container import ContainerState, to_state
from headway.backend.worker import EventQueue, Worker
from headway.controller.events import Event
from headway.core.model.node import Node
from headway.core.model.units import Cores, NodeId, Resources, Seconds
from headway.errors import BackendError, Unreachable

PING: Seconds = 5.0
"""Interval between two checks of an idle connection."""
RECONNECT: Seconds = 0.5
"""Interval between two attempts to reach an engine that does not answer."""
FILTERS = {"type": ["container"], "event": ["start", "die", "destroy"]}


class Engine:
    def __init__(self, name: NodeId, client: Client) -> None:
        self.name, self.client = name, client
        version, info = client.hello(), client.get("/info")
        self.capacity = Resources(cpu=float(info["NCPU"]), memory=float(info["MemTotal"]))
        self.cpus: tuple[int, ...] | None = None
        """CPUs of its containers; None: all."""
        self.version = str(version.get("Version", ""))
        self.foreign: Cores = 0.0
        """CPU used by other processes, if the engine is on this machine."""
        self.up = True
        """Whether the engine answers. Changed in the thread of the loop."""
        self.apart = False
        """Whether its containers cannot access folders of this machine. Files are then copied."""
        self.worker: Worker
        self._stopped = Flag()
        self._stream = client.stream("/events", filters=FILTERS)
        self._thread: Thread | None = None
        self._ping_at: Seconds = 0.0

    @property
    def local(self) -> bool:
        """Whether it runs on this machine."""
        return self.client.url.startswith("unix:")

    def node(self) -> Node:
        return Node(id=self.name, capacity=self.capacity, up=self.up, foreign=self.foreign)

    def container(self, name: str) -> ContainerState | None:
        """Return a container by name or id; None: it does not exist."""
        found = self.client.find(f"/containers/{name}/json")
        return None if found is None else to_state(found)

    def containers(self, label: str, *, stopped: bool = False) -> list[ContainerState]:
        """Return running containers with this label, KEY or KEY=VALUE. `stopped`: also others."""
        filters = {"label": [label]}
        listed = self.client.get("/containers/json", filters=filters, all=stopped or None)
        return [seen for each in listed if (seen := self.container(each["Id"])) is not None]

    def begin(
        self,
        queue: EventQueue,
        *,
        connected: Callable[[], Iterable[Event]],
        lost: Callable[[BackendError], Iterable[Event]],
        event: Callable[[dict[str, Any]], Iterable[Event]],
    ) -> None:
        """Start making calls and reading events. The functions run in the thread of the loop."""
        self.worker = Worker(f"engine {self.name}", queue)

        def listen() -> None:
            reached = True
            while not self._stopped.is_set():
                why: BackendError = Unreachable(f"connection to {self.client.url} was closed")
                try:
                    if not reached:
                        self.client.hello()
                    self._stream = self.client.stream("/events", filters=FILTERS)
                    if self._stopped.is_set():
                        break
                    self._stream.open()
                    reached = True
                    queue.put(connected)
                    for each in objects(self._stream):
                        queue.put(partial(event, each))
                except BackendError as error:
                    why = error
                except Exception as error:  # noqa: BLE001 - the outermost guard of this thread
                    why = BackendError(f"unexpected {type(error).__name__}: {error}")
                if reached and not self._stopped.is_set():
                    reached = False
                    queue.put(partial(lost, why))
                self._stopped.wait(RECONNECT)

        self._thread = Thread(target=listen, name=f"events of {self.name}", daemon=True)
        self._thread.start()

    def reconnect(self) -> None:
        """Drop the connection after a call was not answered. Containers are compared after
        reconnection.
        """
        self._stream.close()

    def ping(self, now: Seconds) -> None:
        """Check the connection: the reader does not notice that it is broken."""
        if self.up and now >= self._ping_at:
            self._ping_at = now + PING
            self.worker.do(partial(self.client.get, "/_ping"), failed=self._no_pong)

    def _no_pong(self, error: BackendError) -> Iterable[Event]:
        if isinstance(error, Unreachable):
            self.reconnect()
        return ()

    def close(self) -> None:
        self._stopped.set()
        self.reconnect()
        if self._thread is not None:
            self.worker.close()
            self._thread.join(timeout=2.0)
