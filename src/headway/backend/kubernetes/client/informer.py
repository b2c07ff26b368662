"""What is in the cluster, kind by kind: listed once, watched from then on, listed again in doubt.

A thread asks; only the loop's thread changes what is known here. A watch may end because the server
closes it (watch on), because what it missed is forgotten (410: list again), or because the line
died without a word (it is given up after a while, and listed again). And because a watch can also
fall silent on an open line, everything is listed again from time to time.
"""

from collections.abc import Callable, Iterable
from functools import partial
from threading import Event, Thread
from time import monotonic
from typing import Any, NamedTuple

from headway.backend.kubernetes.client.api import GONE, Api, Plain
from headway.backend.kubernetes.client.fatal_thread import fatal_thread
from headway.backend.worker import LoopQueue
from headway.core.model.units import Seconds
from headway.errors import BackendError, Declined, Unreachable

WATCH: Seconds = 60.0
"""The server is asked to close a watch after this time."""
RELIST: Seconds = 300.0
"""What was only watched for so long is listed again."""
AGAIN: Seconds = 0.5
LONGEST: Seconds = 10.0
"""From one list to the next, if it did not last: at first, and at most."""

Key = tuple[str, str]
"""Namespace and name."""


class Kind(NamedTuple):
    name: str
    path: str
    labels: str = ""
    """A selector."""


class Store:
    """The objects of one kind. `changed` is called for each that came, changed or went."""

    def __init__(self, kind: Kind, changed: Callable[[Plain | None, Plain | None], None]) -> None:
        self.kind, self._changed = kind, changed
        self.objects: dict[Key, Plain] = {}
        self.complete = False
        """Has it been listed yet?"""

    def replace(self, objects: Iterable[Plain]) -> None:
        there = {key_of(o): o for o in objects}
        for key in [k for k in self.objects if k not in there]:
            self.drop(key)
        for each in there.values():
            self.put(each)
        self.complete = True

    def put(self, new: Plain) -> None:
        key = key_of(new)
        before = self.objects.get(key)
        if before is not None:
            if version_of(before) == version_of(new):
                return
            if before["metadata"]["uid"] != new["metadata"]["uid"]:
                self.drop(key)  # it was deleted and made anew while nobody looked
                before = None
        self.objects[key] = new
        self._changed(before, new)

    def drop(self, key: Key) -> None:
        before = self.objects.pop(key, None)
        if before is not None:
            self._changed(before, None)


def key_of(each: Plain) -> Key:
    about = each["metadata"]
    return about.get("namespace", ""), about["name"]


def version_of(each: Plain) -> str:
    return str(each["metadata"].get("resourceVersion", ""))


class Reflector:
    """Fills a store. `down` and `up` are told, in the loop's thread, when the server goes and
    comes back.
    """

    def __init__(
        self,
        api: Api,
        store: Store,
        mail: LoopQueue,
        *,
        down: Callable[[BackendError], None],
        up: Callable[[], None],
    ) -> None:
        self._api, self._store, self._mail = api, store, mail
        self._down, self._up = down, up
        self._stopped = Event()
        self._thread = Thread(target=self._run, name=f"watch-{store.kind.name}", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Its thread ends with its present watch, or with the process."""
        self._stopped.set()

    @fatal_thread
    def _run(self) -> None:
        wait = AGAIN
        while not self._stopped.is_set():
            began = monotonic()
            try:
                self._list_and_watch()
            except BackendError as error:
                self._mail.put(partial(self._down, error))
            if monotonic() - began > LONGEST:
                wait = AGAIN
            self._rest(began + wait)
            wait = min(LONGEST, 2 * wait)

    def _rest(self, until: Seconds) -> None:
        self._stopped.wait(max(0.0, until - monotonic()))

    def _list_and_watch(self) -> None:
        kind = self._store.kind
        query: dict[str, Any] = {"labelSelector": kind.labels} if kind.labels else {}
        objects, version = self._api.list(kind.path, **query)
        self._mail.put(partial(self._store.replace, objects))
        self._mail.put(self._up)
        listed = monotonic()
        while not self._stopped.is_set() and monotonic() - listed < RELIST:
            began = monotonic()
            try:
                for told in self._api.watch(kind.path, version, WATCH, **query):
                    if self._stopped.is_set():
                        return
                    version = self._take(told)
            except Declined as error:
                if error.status != GONE:
                    raise
                return
            self._rest(began + AGAIN)  # a server may close each watch at once

    def _take(self, told: Plain) -> str:
        """One line of a watch; the version from which to go on."""
        each = told["object"]
        if told["type"] == "ERROR":
            code, why = int(each.get("code", 0)), str(each.get("message", "it broke off"))
            raise Declined(why, status=code) if code == GONE else Unreachable(why)
        if told["type"] == "DELETED":
            self._mail.put(partial(self._store.drop, key_of(each)))
        elif told["type"] != "BOOKMARK":
            self._mail.put(partial(self._store.put, each))
        return version_of(each)
