"""The operator on a Kubernetes cluster."""

import logging
import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import rmtree
from socket import gethostname
from threading import Event
from time import monotonic
from typing import cast
from uuid import uuid4

from headway import __version__
from headway.backend.clock import Clock
from headway.backend.kubernetes.client import fatal_thread
from headway.backend.kubernetes.client.api import Api
from headway.backend.kubernetes.client.leader_election import LeaderElection
from headway.backend.kubernetes.client.state_object import StateObject
from headway.backend.kubernetes.platform.platform import CONFIG, IMAGE, KubernetesPlatform
from headway.backend.kubernetes.reports.service import ReportService
from headway.backend.live import LiveBackend
from headway.core.model.units import JobId
from headway.policy.registry import build
from headway.runtime import leader_state
from headway.runtime.driver import drive, signal_pipe
from headway.runtime.journal import FileJournal
from headway.runtime.leader_state import StateSaver
from headway.runtime.loop import Loop
from headway.runtime.operator_metrics import Measured, Metrics, serve
from headway.runtime.run import ObserveOnly
from headway.runtime.run_directory import RunDirectory
from headway.spec.runnable import RunnableJob

LEASE = "headway"
JOURNAL = 64 << 20
"""Bytes of an operator's journal before it is rotated; two files are kept."""
log = logging.getLogger("headway")


@dataclass(slots=True)
class Operator:
    policy: str
    data: Path
    namespace: str = ""
    """Namespace of the jobs; "": all namespaces."""
    home: str = "default"
    """Namespace of the lease."""
    port: int = 0
    """Port of probes and metrics; 0: none."""
    observe_only: bool = False
    """Start jobs, record all other decisions, and restore the shares that were changed before."""
    report_port: int = 0
    """Port for reports of pods over HTTPS; 0: none."""
    agents: str = ""
    """Namespace of the node agents; "": no agents."""
    stop: Event = field(default_factory=Event)
    metrics: Metrics = field(default_factory=Metrics)

    def go(self, there: Api) -> None:
        """Wait to become the leader, then lead until stopped. The jobs continue afterwards."""
        build(self.policy)
        self.metrics.api = lambda: dict(there.calls)
        probes = serve(self.metrics, self.port) if self.port else None
        try:
            self._go(there)
        finally:
            if probes is not None:
                probes.shutdown()
                probes.server_close()

    def _reports(self, there: Api) -> ReportService | None:
        pod = os.environ.get("POD_NAME", "")
        if not self.report_port:
            return None
        agents = "" if self.namespace else self.agents  # they are of the whole cluster
        return ReportService(there, self.home, agents, pod, self.report_port)

    def _go(self, there: Api) -> None:
        reports = self._reports(there)
        if reports is not None:
            reports.stand_by()
        identity = f"{os.environ.get('POD_NAME') or gethostname()}_{uuid4().hex[:8]}"
        lease = LeaderElection(there, self.home, LEASE, identity)
        with signal_pipe(self.stop.set) as heard:  # these signals end the operator, not the jobs
            log.info("%s waits for the lease %s/%s", identity, self.home, LEASE)
            lease.stands_by = partial(setattr, self.metrics, "ready", True)
            if not lease.acquire(self.stop):
                return
            log.info("%s leads", identity)
            self.metrics.ready = False  # until it knows the cluster
            lease.hold(lost=_give_up)
            there.may_write = lease.is_valid
            try:
                self._lead(there, heard, reports)
            finally:
                lease.release()

    def _lead(self, there: Api, heard: int, reports: ReportService | None) -> None:
        store = StateObject(there, self.home)
        kept = leader_state.load(store)
        clock = Clock(kept.began, at_least=kept.at) if kept else Clock()
        about = {"headway": __version__, "policy": self.policy, "began": clock.began}
        about |= {"operator": {"namespace": self.namespace}, "observe_only": self.observe_only}
        about |= {"enforcement": KubernetesPlatform.enforcement[0]}
        folder = RunDirectory.new(self.data, about)
        folder.lock()
        _sweep(self.data)
        jobs = dict[JobId, RunnableJob]()
        image = os.environ.get("HEADWAY_IMAGE") or IMAGE
        platform = KubernetesPlatform(there, jobs, clock, namespace=self.namespace, image=image)
        self.metrics.resizes = platform.shares.resizes
        if reports is not None:
            reports.prepare(platform)
            self.metrics.reports = platform.receiver.counts
        live = LiveBackend(platform, folder.path, jobs, clock, endless=True, config=CONFIG)
        backend = cast("LiveBackend", Measured(live, self.metrics, platform.decided))
        if self.observe_only:
            platform.shares.restore_declared()
        self.metrics.beat, self.metrics.leads = monotonic(), True
        policy = f"@{self.policy}"
        journal = FileJournal(folder.journal, policy=policy, most=JOURNAL)
        loop = Loop(ObserveOnly(backend) if self.observe_only else backend, build(policy), journal)
        if kept:
            kept.restore_into(loop, policy)
        saver = StateSaver(store, platform.cluster.worker, loop, (policy, clock.began))
        backend.wake_by(heard, backend.stop)
        try:
            if reports is not None:
                reports.start(platform, folder.path)
            drive(backend, loop, saver)
        finally:
            saver.look(clock(), last=True)
            backend.stop_waking(heard)
            if reports is not None:
                reports.close()
            backend.close()
            journal.close()
            folder.unlock()


def _sweep(data: Path) -> None:
    """Delete the run directories of earlier operators, except the last one, which
    `explain` reads.
    """
    ended = []
    for path in sorted((data / "runs").glob("*")):
        run = RunDirectory(path)
        with suppress(OSError, ValueError):
            if not path.is_symlink() and "operator" in run.about and not run.locked:
                ended.append(path)
    for path in ended[:-1]:
        rmtree(path, ignore_errors=True)


def _give_up() -> None:
    """Lease lost: exit before acting again."""
    log.error("lease lost")
    fatal_thread.leave(fatal_thread.LOST)
