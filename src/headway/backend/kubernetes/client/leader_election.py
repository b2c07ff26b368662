"""Leader election by a Lease, with the timeouts of Kubernetes' own components.

A leader that cannot renew the lease gives up before another may take over. Candidates measure
expiry by their own clock.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from math import inf
from threading import Event, Thread
from time import monotonic

from headway.backend.kubernetes.client.api import Api, Plain
from headway.backend.kubernetes.client.fatal_thread import start_fatal
from headway.core.model.units import Seconds
from headway.errors import BackendError, Declined, Denied

LASTS: Seconds = 15.0
DEADLINE: Seconds = 10.0
"""Time without a renewal after which a leader gives up."""
RETRY: Seconds = 2.0
ANSWER: Seconds = 3.0
"""Timeout of a call."""
LOOK: Seconds = 0.5
"""Interval of checking the renewal."""
API = "coordination.k8s.io/v1"
log = logging.getLogger("headway")


class LeaderElection:
    def __init__(self, api: Api, namespace: str, name: str, identity: str) -> None:
        self._api, self._identity = api, identity
        self._all = f"/apis/{API}/namespaces/{namespace}/leases"
        self._path, self._name = f"{self._all}/{name}", name
        self._seen: tuple[str, Seconds] = ("", 0.0)
        """Version of the lease that was seen last, and when it was first seen."""
        self._renewed = -inf
        """Start of the last successful renewal."""
        self._taken = False
        """Whether another process has held the lease since this one acquired it."""
        self.stands_by: Callable[[], None] = lambda: None
        """Called when another process holds the lease."""
        self._stopped = Event()
        self._thread: Thread | None = None

    def acquire(self, stop: Event) -> bool:
        """Wait to become the leader. Return False if stopped before."""
        said = ""
        while not stop.is_set():
            try:
                if self.take():
                    return True
                self.stands_by()
            except Denied:
                raise  # permissions do not appear by waiting
            except BackendError as error:
                if error.message != said:
                    said = error.message
                    log.warning("%s; retrying", said)
            stop.wait(RETRY)
        return False

    def take(self, *, again: bool = False) -> bool:
        """Acquire or renew the lease. Return False if another process holds it. `again`: only renew
        it.
        """
        began = monotonic()
        held = self._take(again=again)
        if held:
            self._renewed = began
        return held

    def _take(self, *, again: bool) -> bool:
        try:
            found = self._api.get(self._path, timeout=ANSWER)
        except Declined as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return self._write(None)
        spec, version = found.get("spec") or {}, found["metadata"]["resourceVersion"]
        holder = spec.get("holderIdentity") or ""
        self._taken = again and holder != self._identity
        if self._taken:
            return False  # another process has led meanwhile, even if it no longer does
        if holder not in ("", self._identity):
            if version != self._seen[0]:
                self._seen = version, monotonic()
            if monotonic() - self._seen[1] < float(spec.get("leaseDurationSeconds", LASTS)):
                return False
        return self._write(found)

    def _write(self, before: Plain | None, holder: str | None = None) -> bool:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        old = (before or {}).get("spec") or {}
        ours = old.get("holderIdentity") == self._identity
        spec = {
            "holderIdentity": self._identity if holder is None else holder,
            "leaseDurationSeconds": int(LASTS),
            "acquireTime": old.get("acquireTime", now) if ours else now,
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions", 0)) + int(bool(old) and not ours),
        }
        body: Plain = {"apiVersion": API, "kind": "Lease", "spec": spec}
        try:
            if before is None:
                body["metadata"] = {"name": self._name}
                self._api.create(self._all, body, timeout=ANSWER)
            else:  # with its resourceVersion: refused if another was faster
                body["metadata"] = before["metadata"]
                self._api.replace(self._path, body, timeout=ANSWER)
        except Declined as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            return False
        return True

    def hold(self, lost: Callable[[], None]) -> None:
        """Renew the lease from now on. `lost` is called in another thread if this fails."""
        self._thread = start_fatal(self._renew, "lease")
        start_fatal(partial(self._guard, lost), "lease-guard")

    def is_valid(self) -> bool:
        """Whether the lease is valid by the clock of this process, which goes on during a pause."""
        return monotonic() - self._renewed <= DEADLINE

    def _renew(self) -> None:
        """Renew the lease periodically. If another client has only changed the object, the next
        attempt succeeds.
        """
        while not self._stopped.wait(RETRY):
            with suppress(BackendError):
                if not self.take(again=True) and self._taken:
                    self._renewed = -inf
                    return

    def _guard(self, lost: Callable[[], None]) -> None:
        """Check the lease in a thread of its own, because calls may hang."""
        while not self._stopped.wait(LOOK):
            if not self.is_valid():
                lost()
                return

    def release(self) -> None:
        """Release the lease, so that the next leader need not wait."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(RETRY)
        with suppress(BackendError):
            found = self._api.get(self._path, timeout=ANSWER)
            if (found.get("spec") or {}).get("holderIdentity") == self._identity:
                self._write(found, holder="")
