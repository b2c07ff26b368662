"""A run, or an operator, on a Kubernetes cluster."""

import json
import logging
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from shutil import rmtree
from socket import gethostname
from threading import Event
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headway import __version__
from headway.backend.clock import Clock
from headway.backend.jobs import LiveJob
from headway.backend.kubernetes import guard
from headway.backend.live import LiveBackend
from headway.core.units import Seconds
from headway.errors import BackendError
from headway.policy.registry import build
from headway.runtime.folder import RunFolder
from headway.runtime.journal import FileJournal
from headway.runtime.live import drive
from headway.runtime.loop import Loop

if TYPE_CHECKING:
    from headway.backend.kubernetes.api import Api

LEASE = "headway"
JOURNAL = 64 << 20
"""Bytes of an operator's journal, of which there may be two: it has no end of its own."""
log = logging.getLogger("headway")


def api(kubeconfig: str = "") -> "Api":
    """The client is an extra, and takes a fifth of a second to import."""
    try:
        from headway.backend.kubernetes.api import connect  # noqa: PLC0415 - see above
    except ImportError as error:
        raise BackendError(
            f"the Kubernetes client is not installed ({error.name})",
            hint="pip install 'headway[kubernetes]'",
        ) from None
    return connect(kubeconfig or None)


@dataclass(frozen=True, slots=True)
class OnCluster:
    """A run's jobs as `TrainingJob`s of a cluster; this process places them."""

    image: str = ""
    """Of tasks that name none."""
    namespace: str = ""
    """"": that of the kubeconfig."""

    @property
    def about(self) -> dict[str, Any]:
        return {"kubernetes": {"image": self.image, "namespace": self.namespace}}

    @property
    def nodes(self) -> None:
        """Clusters grow: what does not fit waits, and its status says why."""
        return None

    def backend(
        self, folder: RunFolder, jobs: Sequence[LiveJob], clock: Clock
    ) -> tuple[LiveBackend[Any], float]:
        there = api()  # which says what to install, where that is missing
        from headway.backend.kubernetes.backend import KubernetesBackend  # noqa: PLC0415 - an extra

        space = self.namespace or there.namespace
        made = KubernetesBackend(folder.path, there, jobs, clock, namespace=space, run=folder.id)
        return made, 1.0


@dataclass(frozen=True, slots=True)
class Nobody:
    """No display: an operator has no audience."""

    due: Seconds = inf

    def look(self, now: Seconds) -> None: ...


@dataclass(slots=True)
class Operator:
    policy: str
    data: Path
    namespace: str = ""
    """Only its jobs; "": those of every namespace."""
    home: str = "default"
    """Where the lease is."""
    stop: Event = field(default_factory=Event)

    def go(self, there: "Api") -> None:
        """Wait to lead; then lead, until stopped. Jobs go on without us."""
        from headway.backend.kubernetes.lease import Lease  # noqa: PLC0415 - an extra

        build(self.policy)
        identity = f"{os.environ.get('POD_NAME') or gethostname()}_{uuid4().hex[:8]}"
        lease = Lease(there, self.home, LEASE, identity)
        with self._signals() as heard:
            log.info("%s waits for the lease %s/%s", identity, self.home, LEASE)
            if not lease.acquire(self.stop):
                return
            log.info("%s leads", identity)
            lease.hold(lost=_give_up)
            try:
                self._lead(there, heard)
            finally:
                lease.release()

    def _lead(self, there: "Api", heard: int) -> None:
        from headway.backend.kubernetes.backend import KubernetesBackend  # noqa: PLC0415 - an extra

        clock = Clock()
        about = {"headway": __version__, "policy": self.policy, "began": clock.began}
        about |= {"operator": {"namespace": self.namespace}, "observe_only": False}
        folder = RunFolder.new(self.data, about)
        folder.lock()
        _sweep(self.data)
        backend = KubernetesBackend(folder.path, there, (), clock, namespace=self.namespace)
        folder.write("run.json", json.dumps({**about, "enforcement": backend.how[0]}, indent=2))
        policy = f"@{self.policy}"
        book = FileJournal(folder.journal, policy=policy, most=JOURNAL)
        backend.wake_by(heard, backend.stop_serving)
        try:
            drive(backend, Loop(backend, build(policy), book), Nobody())
        finally:
            backend.stop_waking(heard)
            backend.close()
            book.close()
            folder.unlock()

    @contextmanager
    def _signals(self) -> Iterator[int]:
        """SIGTERM and Ctrl-C end us, not the jobs."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        numbers = (signal.SIGINT, signal.SIGTERM)
        old = [signal.signal(n, lambda number, frame: self.stop.set()) for n in numbers]
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in zip(numbers, old, strict=True):
                signal.signal(number, handler)
            os.close(reader)
            os.close(writer)


def _sweep(data: Path) -> None:
    """What earlier terms have left goes, but for the last of them: `explain` may want it."""
    ended = []
    for path in sorted((data / "runs").glob("*")):
        run = RunFolder(path)
        with suppress(OSError, ValueError):
            if not path.is_symlink() and "operator" in run.about and not run.locked:
                ended.append(path)
    for path in ended[:-1]:
        rmtree(path, ignore_errors=True)


def _give_up() -> None:
    """Somebody else may lead by now: not one more word from us."""
    log.error("the lease is lost")
    guard.leave(guard.LOST)
