"""A Kubernetes cluster as a platform: each job is a TrainingJob, each replica a pod.

Everything that must survive is in the cluster: a job's status has the controller's state, the pods
are what runs. Calls that change the cluster are made by a worker thread for each namespace, one
after the other; everything else runs in the loop's thread.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from headway import __version__
from headway.backend.clock import Clock
from headway.backend.kubernetes.client.api import Api, Plain
from headway.backend.kubernetes.client.cache import ClusterCache, owner_uid
from headway.backend.kubernetes.client.informer import key_of
from headway.backend.kubernetes.placement.node_info import OVER, node_of, ready
from headway.backend.kubernetes.platform import decision_events
from headway.backend.kubernetes.platform.adoption import Adoption
from headway.backend.kubernetes.platform.capacity import Capacity
from headway.backend.kubernetes.platform.job_progress import JobProgress
from headway.backend.kubernetes.platform.pod_calls import trust, unfinalize
from headway.backend.kubernetes.platform.pod_checkpoints import PodCheckpoints
from headway.backend.kubernetes.platform.pod_reports import Endpoint, lacks_certificate
from headway.backend.kubernetes.platform.pod_runner import PodRunner
from headway.backend.kubernetes.platform.pod_status import has_finalizer
from headway.backend.kubernetes.platform.shares import Shares
from headway.backend.kubernetes.platform.status_writer import StatusWriter
from headway.backend.kubernetes.platform.training_jobs import TrainingJobs
from headway.backend.kubernetes.reports import report_annotation
from headway.backend.kubernetes.reports.pod_metrics import PodMetrics, PodReader
from headway.backend.kubernetes.reports.receiver import ReportReceiver, about
from headway.backend.usage import UsageSample
from headway.backend.worker import EventQueue
from headway.controller import commands, events
from headway.controller.config import Config
from headway.core.model.capabilities import Capabilities
from headway.core.model.decision import Decision, job_of
from headway.core.model.node import Node
from headway.core.model.units import JobId, NodeId, ReplicaId, Resources, Seconds
from headway.errors import BackendError, HeadwayError
from headway.spec.runnable import RunnableJob

CONFIG = Config(reserves=True, retry_removal=1.0, removal_timeout=600.0)
"""For a controller on this platform: a removal is a call to the API server."""


IMAGE = f"headway:{__version__}"


class KubernetesPlatform:
    kind: ClassVar = "kubernetes"
    capabilities: ClassVar = Capabilities(adopt=True)
    enforcement: ClassVar = ("kubernetes", "Kubernetes (requests and limits of each pod)")

    def __init__(
        self,
        api: Api,
        jobs: dict[JobId, RunnableJob],
        clock: Clock,
        *,
        namespace: str = "",
        run: str = "",
        image: str = IMAGE,
    ) -> None:
        """`run`: manage only the jobs of this run, which are created when they are due. Without it,
        all jobs of the cluster or of `namespace` are managed and added to `jobs`. `image`: image
        of Headway.
        """
        self.events, self.clock, self.run = EventQueue(), clock, run
        self.cluster = ClusterCache(api, namespace, run, self.events)
        self.writer = StatusWriter(self.cluster, clock)
        self.capacity = Capacity(self.cluster, self._counted)
        self.training_jobs = TrainingJobs(self.cluster, jobs, clock, self.writer, self.capacity)
        self.records = self.training_jobs.records
        self.shares = Shares(self.cluster, self.writer, clock)
        self.pods = PodRunner(self.cluster, self.records, self.writer, image, self.shares.share)
        self.adoption = Adoption(
            self.cluster, jobs, clock, self.writer, self.shares, self.pods.ended
        )
        self.adoption.on_change = self._adopted
        self.receiver = ReportReceiver(self.cluster, self.events, clock)
        self.receiver.reads = self._reads
        self.checkpoints = PodCheckpoints(
            self.receiver, self.events, self.cluster.pods, self.pods.key
        )
        self.pods.checkpoint = self.checkpoints.at_exit
        self._progress = JobProgress(self.records, self.writer, clock, self.pods.attempt_of)
        self._relay = report_annotation.Relay(self.cluster, clock)
        self.receiver.on_report = self._on_report

    def _counted(self, pod: Plain) -> Resources | None:
        adopted = self.adoption.of(pod)
        return self.pods.counted(pod) if adopted is None else adopted.spec.tasks[0].request

    def _reads(self, pod: Plain) -> bool:
        return bool(owner_uid(pod)) or self.adoption.of(pod) is not None

    def _adopted(self, pod: Plain) -> list[events.Event]:
        """Update reports and capacity for a pod whose adoption has begun or ended."""
        self.receiver.pod_changed(None, pod)
        return self.capacity.renew(node_of(pod))

    def _on_report(self, pod: Plain, metrics: PodMetrics) -> None:
        self._progress.reported(pod, metrics)
        self._relay.reported(pod, metrics)
        self.checkpoints.reported(pod, metrics)

    def load(self) -> events.Loaded:
        try:
            self.cluster.begin()
        except HeadwayError:
            self._close()
            raise
        later = self.training_jobs.load()
        self.cluster.subscribe(
            self.writer.log_once,
            nodes=self._node_changed,
            pods=self._pod_changed,
            jobs=self._job_changed,
            classes=self.capacity.class_changed,
            adopting=self.adoption.job_changed,
        )
        adopted = self.adoption.load()
        for pod in self.cluster.pods.values():
            self.receiver.pod_changed(None, pod)
            if self.pods.attempt_of(pod) is None and self.cluster.owned(pod):
                self.pods.release(pod)
        later += self.shares.load([*self.pods.running(), *adopted])
        self.events.put(lambda: later)
        states = {name: r.state for name, r in self.records.items() if r.admitted}
        return events.Loaded(states, tuple(self.pods.found()))

    def trust(self, endpoint: Endpoint) -> None:
        """Set the endpoint to which pods report, with its certificate. Pods that were created
        before, or with another certificate, get it. May be called from any thread.
        """
        self.pods.endpoint = endpoint
        self.events.put(self._renew_trust)

    def _renew_trust(self) -> Sequence[events.Event]:
        for pod in self.cluster.pods.values():
            self._certify(pod)
        return ()

    def _certify(self, pod: Plain) -> None:
        """Give a pod the certificate of this operator, also to a pod of an earlier run."""
        endpoint, over = self.pods.endpoint, pod["status"].get("phase") in OVER
        if self.run or endpoint is None or over or not self.cluster.owned(pod):
            return
        if lacks_certificate(pod, endpoint):
            call = partial(trust, self.cluster.api, pod, endpoint.certificate)
            self.cluster.worker_of(key_of(pod)[0]).do(call)

    def nodes(self) -> list[Node]:
        return self.capacity.all()

    def refusal(self, job: JobId, where: Sequence[tuple[ReplicaId, NodeId]]) -> str:
        record = self.records.get(job)
        named = [replica for replica, _ in where]
        return self.training_jobs.refusal(record, named) if record is not None else ""

    def execute(self, command: commands.Command) -> Sequence[events.Event]:
        match command:
            case commands.Admit():
                return self.training_jobs.admit(command)
            case commands.Persist():
                return self._persist(command)
            case commands.Start() | commands.Reserve():
                return self._start(command)
            case commands.Proceed():
                return self.pods.proceed(command)
            case commands.Stop() | commands.Kill():
                return self.pods.stop(command)
            case commands.Remove():
                return self.pods.remove(command)
            case commands.DeleteJob():
                return self.training_jobs.delete(command)
            case commands.ApplyShare():
                return self.shares.apply(command)
            case commands.RequestCheckpoint():
                return self.checkpoints.request(command)
            case commands.CancelCheckpoint():
                return self.checkpoints.cancel(command)
            case commands.Release():
                return self.adoption.release(command)

    def decided(self, decision: Decision) -> None:
        """Record a decision that is carried out, with its reason, as an event of the job."""
        record, text = self.records.get(job_of(decision)), decision_events.describe(decision)
        if record is not None and text:
            self.writer.event(record, "Decided", text, warning=False)

    def _persist(self, command: commands.Persist) -> list[events.Event]:
        record = self.records.get(command.job)
        if record is None:
            ended = command.state.phase.ended and self.adoption.key(command.job)
            left = self.adoption.settle(command.job) if ended else []
            return [events.Persisted(command.job, command.version), *left]

        def persisted() -> list[events.Event]:
            ended = self.training_jobs.settle(record) if command.state.phase.ended else []
            return [events.Persisted(command.job, command.version), *ended]

        def failed(error: BackendError) -> list[events.Event]:
            return persisted() if record.gone else [events.CommandFailed(command, error.message)]

        before, record.state = record.state, command.state
        if record.waiting:
            record.fitted, self.capacity.dirty = None, True
        found: list[events.Event] = []
        if record.gone:  # what is persisted of a job goes with it
            found += persisted()
        else:
            self.writer.persist(record, before, persisted, failed)
        found += self.training_jobs.sizes.again(record)
        held = {r.node for r in (*before.replicas, *record.state.replicas)}
        return [*found, *self.capacity.renew(*sorted(held))]

    def _start(self, command: commands.Start | commands.Reserve) -> Sequence[events.Event]:
        record = self.records.get(command.job)
        if isinstance(command, commands.Start) and self.adoption.key(command.job):
            return self.adoption.start(command)
        if record is None:
            return [events.CommandFailed(command, "its TrainingJob does not exist", disrupted=True)]
        return self.pods.start(command, record)

    def poll(self, timeout: Seconds) -> list[events.Event]:
        found = self.events.wait(min(timeout, self.shares.due - self.clock()))
        found += [*self.shares.advance(), *self.adoption.advance()]
        if self.capacity.dirty:
            self.capacity.dirty = False
            found += self.training_jobs.fit()
        self._progress.flush()
        self._relay.flush()
        return found

    def _node_changed(self, before: Plain | None, new: Plain | None) -> list[events.Event]:
        name = (new or before or {})["metadata"]["name"]
        was, up = (node is not None and ready(node) for node in (before, new))
        for record in self.records.values() if was != up else ():
            if any(r.node == name for r in record.state.replicas):
                self.writer.node_changed(record, name, up=up)
        return self.capacity.node_changed(before, new)

    def _job_changed(self, before: Plain | None, new: Plain | None) -> list[events.Event]:
        if before is not None and new is None:
            self.shares.forget(self.cluster.job_id(*key_of(before)))
        return self.training_jobs.changed(before, new)

    def _pod_changed(self, before: Plain | None, new: Plain | None) -> list[events.Event]:
        pod = new or before or {}
        self._reports_changed(before, new)
        found: list[events.Event] = []
        known = self.pods.attempt_of(pod)
        if new is None:
            found += self.shares.left(pod)
            self.checkpoints.left(pod)
        elif known is not None:
            found += self.shares.changed(*known, new)
        if new is not None:
            self._certify(new)
        if known is not None:
            found += self.pods.changed(known, before, new)
        elif self.cluster.owned(pod):
            if new is not None:
                self.pods.release(new)
        else:
            found += self.adoption.pod_changed(before, new)
        return [*found, *self.capacity.pod_changed(before, new)]

    def _reports_changed(self, before: Plain | None, new: Plain | None) -> None:
        self.receiver.pod_changed(before, new)
        if new is None:
            self._relay.forget((before or {})["metadata"]["uid"])
        elif self.run and self.cluster.owned(new):
            metrics = self.receiver.metrics(new["metadata"]["uid"])
            report_annotation.read(before, new, metrics, self.clock())
            self._progress.reported(new, metrics)

    def read(self, replica: ReplicaId, before: UsageSample | None) -> UsageSample | None:
        """Return the usage of a replica; None: no agent has reported it recently."""
        del before
        record, key = self.records.get(replica.job), self.adoption.key(replica.job)
        for each in record.state.replicas if record is not None else ():
            if each.replica == replica:
                key = self.pods.key(replica, each.attempt)
        if key is None:
            return None
        found, pod = self.receiver.of(key), self.cluster.pods.get(key)
        over = pod is None or pod["status"].get("phase") in OVER
        return None if found is None else found.usage(None if over else self.clock())

    def metrics(self, replica: ReplicaId, attempt: int) -> PodReader:
        record = self.records.get(replica.job)
        metric = record.spec.metric.name if record is not None else "loss"
        key = self.adoption.key(replica.job)
        if key in self.cluster.pods:  # an adopted pod, which may have ended
            metric = about(self.cluster.pods[key]).get("metric", metric)
        return PodReader(metric, partial(self.receiver.of, key or self.pods.key(replica, attempt)))

    def close(self) -> None:
        """Delete the jobs of a run, whose results are in its folder, and stop watching."""
        do, api = self.cluster.worker_of(self.cluster.namespace).do, self.cluster.api
        for record in self.records.values() if self.run else ():
            for pod in list(self.cluster.of_job.get(record.uid, {}).values()):
                if has_finalizer(pod):
                    do(partial(unfinalize, api, pod))
            do(partial(api.delete, record.path, uid=record.uid))
        self._close()

    def _close(self) -> None:
        self.cluster.close()
        self.events.close()
