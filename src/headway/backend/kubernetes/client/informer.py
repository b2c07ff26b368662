"""Objects of the cluster by kind: listed once, then watched, and listed again from time to time.

A thread calls the API server; only the loop's thread changes the stores. A watch may end because
the server closes it (watch again), because its version is too old (410: list again), or because the
connection died (timeout, list again). A watch can also become silent on an open connection: for
that reason everything is listed again every few minutes.
"""

from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from threading import Event
from time import monotonic
from typing import Any

from headway.backend.kubernetes.client.api import Api, Plain
from headway.backend.kubernetes.client.fatal_thread import start_fatal
from headway.backend.kubernetes.client.slim import slim_object
from headway.backend.worker import EventQueue
from headway.controller import events
from headway.core.model.units import Seconds
from headway.errors import BackendError, Declined, Unreachable

WATCH: Seconds = 60.0
"""Time after which the server is asked to close a watch."""
RELIST: Seconds = 300.0
"""Time after which a watched kind is listed again."""
AGAIN: Seconds = 0.5
LONGEST: Seconds = 10.0
"""Back-off between two lists: first, and longest."""

Key = tuple[str, str]
"""Namespace and name."""
Changed = Callable[[Plain | None, Plain | None], Iterable[events.Event]]
"""Called with an object before and after a change; returns events for the controller."""


class Store:
    """The objects at `path` with these `labels`. `changed` is called for each change. `slim`
    removes unused fields. An object for which `is_over` is true is not kept after its last change.
    """

    def __init__(
        self,
        path: str,
        changed: Changed,
        labels: str = "",
        *,
        slim: Callable[[Plain], None] = slim_object,
        is_over: Callable[[Plain], bool] = lambda each: False,
    ) -> None:
        self.path, self.labels, self._changed = path, labels, changed
        self.slim, self._is_over = slim, is_over
        self.objects: dict[Key, Plain] = {}
        self.complete = False
        """Whether it has been listed."""

    def replace(self, objects: Iterable[Plain]) -> list[events.Event]:
        there = {key_of(o): o for o in objects}
        found: list[events.Event] = []
        for key in [k for k in self.objects if k not in there]:
            found += self.drop(key)
        for each in there.values():
            found += self.put(each)
        self.complete = True
        return found

    def put(self, new: Plain) -> list[events.Event]:
        key, found = key_of(new), list[events.Event]()
        before = self.objects.get(key)
        if before is not None:
            if version_of(before) == version_of(new):
                return found
            if before["metadata"]["uid"] != new["metadata"]["uid"]:
                found += self.drop(key)  # deleted and created again between two lists
                before = None
        if self._is_over(new):
            return [*found, *(self._forget(key, new) if before is not None else ())]
        self.objects[key] = new
        return [*found, *self._changed(before, new)]

    def _forget(self, key: Key, last: Plain) -> Iterable[events.Event]:
        """Report the last change of an object, then its removal."""
        before = self.objects.pop(key)
        return [*self._changed(before, last), *self._changed(last, None)]

    def drop(self, key: Key) -> list[events.Event]:
        before = self.objects.pop(key, None)
        return [] if before is None else list(self._changed(before, None))


def key_of(each: Plain) -> Key:
    about = each["metadata"]
    return about.get("namespace", ""), about["name"]


def version_of(each: Plain) -> str:
    return str(each["metadata"].get("resourceVersion", ""))


class Reflector:
    """Fills a store in a thread of its own. `on_error` is called in the loop's thread with an
    error, and with None after a successful list.
    """

    def __init__(
        self,
        api: Api,
        store: Store,
        queue: EventQueue,
        on_error: Callable[[BackendError | None], Iterable[events.Event]],
    ) -> None:
        self._api, self._store, self._queue, self._on_error = api, store, queue, on_error
        self._stopped = Event()

    def begin(self) -> None:
        start_fatal(self._run, f"watch {self._store.path}")

    def close(self) -> None:
        """Stop; the thread ends with its present watch or with the process."""
        self._stopped.set()

    def _run(self) -> None:
        wait = AGAIN
        while not self._stopped.is_set():
            began = monotonic()
            try:
                self._list_and_watch()
            except BackendError as error:
                self._queue.put(partial(self._on_error, error))
            if monotonic() - began > LONGEST:
                wait = AGAIN
            self._rest(began + wait)
            wait = min(LONGEST, 2 * wait)

    def _rest(self, until: Seconds) -> None:
        self._stopped.wait(max(0.0, until - monotonic()))

    def _list_and_watch(self) -> None:
        path, labels = self._store.path, self._store.labels
        query: dict[str, Any] = {"labelSelector": labels} if labels else {}
        objects, version = self._api.list(path, self._store.slim, **query)
        self._queue.put(partial(self._store.replace, objects))
        self._queue.put(partial(self._on_error, None))
        listed = monotonic()
        while not self._stopped.is_set() and monotonic() - listed < RELIST:
            began = monotonic()
            try:
                for told in self._api.watch(path, version, WATCH, **query):
                    if self._stopped.is_set():
                        return
                    version = self._take(told)
            except Declined as error:
                if error.status != HTTPStatus.GONE:
                    raise
                return
            self._rest(began + AGAIN)  # a server may close each watch at once

    def _take(self, told: Plain) -> str:
        """Handle a line of a watch; return the version from which to continue."""
        each = told["object"]
        if told["type"] == "ERROR":
            code, why = int(each.get("code", 0)), str(each.get("message", "watch failed"))
            raise Declined(why, status=code) if code == HTTPStatus.GONE else Unreachable(why)
        if told["type"] == "DELETED":
            self._queue.put(partial(self._store.drop, key_of(each)))
        elif told["type"] != "BOOKMARK":
            self._store.slim(each)
            self._queue.put(partial(self._store.put, each))
        return version_of(each)
