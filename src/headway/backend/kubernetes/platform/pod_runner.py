"""Replicas as pods: creates and deletes them, and reports what happens to them.

Each pod names the node that was chosen for it; kube-scheduler binds it there, or says why not. The
pods of a gang are gated until all of them exist, and wait in an init container until all are bound.
So does a pod that holds the room of a replica that moves, until the one before it has ended.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus

from headway.backend.exit_reason import KILLED, NOT_STARTABLE, STOPPED
from headway.backend.kubernetes.client.api import Plain, pod_path
from headway.backend.kubernetes.client.cache import ClusterCache, owner_uid
from headway.backend.kubernetes.client.informer import Key, key_of
from headway.backend.kubernetes.placement.node_info import OVER, node_of
from headway.backend.kubernetes.platform import pod_builder, pod_calls, pod_claims, pod_status
from headway.backend.kubernetes.platform.job_status import JobStatus
from headway.backend.kubernetes.platform.pod_reports import Endpoint, reporting
from headway.backend.kubernetes.platform.status_writer import (
    UNSCHEDULABLE,
    StatusWriter,
    outcome,
)
from headway.backend.replica_env import is_distributed
from headway.controller import events
from headway.controller.commands import Assignment, Kill, Proceed, Remove, Reserve, Start, Stop
from headway.controller.job_state import NO_CHECKPOINT, Checkpoint
from headway.core.model.job import Mode, Phase
from headway.core.model.units import NOTHING, Cores, JobId, ReplicaId, Resources, Seconds
from headway.errors import BackendError, Declined

KEPT = 2
"""Attempts of a job whose ended pods are kept for their logs."""
AFTER_SUCCESS: Seconds = 2.0
"""Grace period of the other replicas when the chief has exited with code 0."""
INVALID = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)

Attempt = tuple[ReplicaId, int]
Known = tuple[JobStatus, ReplicaId, int]
"""The attempt that a pod is, with the record of its job."""


class PodRunner:
    def __init__(
        self,
        cluster: ClusterCache,
        records: Mapping[JobId, JobStatus],
        writer: StatusWriter,
        image: str,
        share: Callable[[ReplicaId, int], tuple[Cores | None, float]] = lambda r, a: (None, 1.0),
    ) -> None:
        """`image`: image of Headway, in which the pods of a gang wait for each other. `share`:
        returns the share in effect of a running attempt.
        """
        self._share = share
        self._cluster, self._records, self._writer = cluster, records, writer
        self._image = image
        self.checkpoint: Callable[[Mode, Plain, int, int], Checkpoint] = lambda *_: NO_CHECKPOINT
        """Returns the newest checkpoint of an ended pod by mode, pod, attempt and exit code."""
        self.endpoint: Endpoint | None = None
        """Where pods report; None: nowhere."""
        self._waiting: dict[Attempt, str] = {}
        """Reasons that were reported for attempts that do not run yet."""
        self._in_flight: set[Attempt] = set()
        """Attempts whose pod is being deleted: the controller repeats its commands."""

    def attempt_of(self, pod: Plain) -> Known | None:
        """Return the attempt that a pod is, by the uid of its owner; None: the pod belongs to no
        job that this process manages.
        """
        labels, about = pod["metadata"].get("labels") or {}, pod["metadata"]
        elsewhere = self._cluster.namespace not in ("", about["namespace"])
        if elsewhere or pod_builder.REPLICA not in labels:
            return None
        name = self._cluster.job_id(about["namespace"], labels.get(pod_builder.JOB, ""))
        record = self._records.get(name)
        if record is None or owner_uid(pod) != record.uid:
            return None
        replica = ReplicaId.named(name, labels[pod_builder.REPLICA])
        attempt = labels.get(pod_builder.ATTEMPT, "0")
        return record, replica, int(attempt) if attempt.isdigit() else 0

    def counted(self, pod: Plain) -> Resources | None:
        """Return the request that the controller counts for a pod: nothing for an earlier attempt.
        None: the pod is no replica of its jobs.
        """
        found = self.attempt_of(pod)
        if found is None:
            return None
        held = found[0].holds(*found[1:])
        return found[0].core.task(found[1].task).request if held else NOTHING

    def key(self, replica: ReplicaId, attempt: int) -> Key:
        namespace, _, job = replica.job.rpartition("/")
        return self._cluster.namespace or namespace, pod_builder.pod_name(job, replica, attempt)

    def start(self, command: Start | Reserve, record: JobStatus) -> Sequence[events.Event]:
        where = {a.replica.name: str(a.node) for a in command.replicas}
        down = next((n for n in where.values() if not self._cluster.is_up(n)), "")
        if down or record.leaving or record.gone:
            why = f"node {down} is not ready" if down else "the job was deleted"
            return [events.CommandFailed(command, why, disrupted=True)]
        gang = len(command.gang) > 1
        waiter = self._image if gang or isinstance(command, Reserve) else ""
        if isinstance(command, Reserve):
            self._read_claims(record)
        service = is_distributed(record.core)  # also if it has one replica now
        builders = [partial(self._build, record, a, command.gang, waiter) for a in command.replicas]
        self._cluster.worker_of(record.namespace).do(
            partial(pod_calls.launch, self._cluster.api, record.job, builders, service=service),
            failed=partial(self._start_failed, command),
        )
        there = [
            (a, self._cluster.pods.get(self.key(a.replica, a.attempt))) for a in command.replicas
        ]
        return [
            events.ReplicaPrepared(a.replica, a.attempt)
            for a, pod in there
            if pod is not None and self._is_prepared((record, a.replica, a.attempt), pod)
        ]

    def _read_claims(self, record: JobStatus) -> None:
        """Read the access modes of a job's claims before the pod that reserves room is created:
        they determine when it is prepared.
        """
        names = pod_claims.mounted(record.sample_pods().values())

        def read(modes: pod_claims.Modes) -> Sequence[events.Event]:
            record.on_one_node = pod_claims.on_one_node(modes)
            return ()

        def failed(_: BackendError) -> Sequence[events.Event]:
            record.on_one_node = bool(names)
            return ()

        call = partial(pod_claims.read, self._cluster.api, record.namespace, names)
        self._cluster.worker_of(record.namespace).do(call, read, failed)

    def _build(
        self, record: JobStatus, a: Assignment, gang: tuple[ReplicaId, ...], waiter: str
    ) -> Plain:
        pod = record.pod(a.replica, a.attempt, gang)
        if self.endpoint is not None:
            pod = reporting(pod, self.endpoint, record.spec)
        return pod_builder.placed(pod, a.node, waiter)

    def _start_failed(
        self, command: Start | Reserve | Proceed, error: BackendError
    ) -> list[events.Event]:
        why = "; ".join(filter(None, (error.message, error.hint)))
        invalid = isinstance(error, Declined) and error.status in INVALID
        return [events.CommandFailed(command, why, permanent=invalid, disrupted=not invalid)]

    def proceed(self, command: Proceed) -> Sequence[events.Event]:
        pods = [self._cluster.pods.get(self.key(a.replica, a.attempt)) for a in command.replicas]
        if None in pods:
            return [events.CommandFailed(command, "a pod was deleted", disrupted=True)]
        calls = [
            partial(pod_calls.proceed, self._cluster.api, pod) for pod in pods if pod is not None
        ]
        first = command.replicas[0]
        self._cluster.worker_of(self.key(first.replica, first.attempt)[0]).do(
            partial(pod_calls.in_parallel, calls), failed=partial(self._start_failed, command)
        )
        return ()

    def stop(self, command: Stop | Kill) -> Sequence[events.Event]:
        """Delete the pod of an attempt; its kubelet stops it."""
        replica, attempt = command.replica, command.attempt
        pod = self._cluster.owned_pod(self.key(replica, attempt))
        if pod is not None and self._is_over(pod):
            return [self._exited(replica, attempt, pod)]
        grace = max(1.0, command.grace) if isinstance(command, Stop) else 1.0
        record = self._records.get(replica.job)
        if record is not None and outcome(record.state) is Phase.SUCCEEDED:
            grace = min(grace, AFTER_SUCCESS)

        def deleted(there: bool) -> list[events.Event]:
            return [] if there else [self.ended(replica, attempt, pod)]

        self._delete(command, pod, grace, deleted)
        return ()

    def remove(self, command: Remove) -> Sequence[events.Event]:
        """Delete the pod of an attempt unless it is kept for its log, and delete pods of older
        attempts. The end of the attempt is recorded or not needed.
        """
        replica, attempt = command.replica, command.attempt
        if (replica, attempt) in self._in_flight:
            return ()
        record = self._records.get(replica.job)
        if record is not None:
            self._remove_old(record)
        pod = self._cluster.owned_pod(self.key(replica, attempt))
        ended = pod is not None and pod["status"].get("phase") in OVER
        kept = pod is not None and pod_status.has_finalizer(pod)
        if (ended and not kept) or (pod is None and (record is None or record.gone)):
            return [events.Removed(replica, attempt)]
        runs = pod is not None and pod["status"].get("phase") == "Running"
        # An orphan may be saving a checkpoint: it gets the grace period of its own pod.
        grace = None if runs else 1.0
        self._delete(
            command, pod, grace, lambda there: [events.Removed(replica, attempt)], keep=ended
        )
        return ()

    def release(self, pod: Plain) -> None:
        """Remove the finalizer of a pod whose job no longer exists."""
        labels = pod["metadata"].get("labels") or {}
        ours = labels.get(pod_builder.RUN, "") == self._cluster.run
        if ours and pod["metadata"].get("deletionTimestamp") and pod_status.has_finalizer(pod):
            worker = self._cluster.worker_of(key_of(pod)[0])
            worker.do(partial(pod_calls.unfinalize, self._cluster.api, pod))

    def _remove_old(self, record: JobStatus) -> None:
        for pod in list(self._cluster.of_job.get(record.uid, {}).values()):
            known, oldest = self.attempt_of(pod), record.state.attempt - KEPT
            old = known is not None and known[0] is record and known[2] <= oldest
            if old and pod["status"].get("phase") in OVER:
                path, uid = pod_path(*key_of(pod)), pod["metadata"]["uid"]
                call = partial(self._cluster.api.delete, path, grace=0, uid=uid)
                self._cluster.worker_of(record.namespace).do(call)

    def _delete(
        self,
        command: Stop | Kill | Remove,
        pod: Plain | None,
        grace: Seconds | None,
        then: Callable[[bool], list[events.Event]],
        *,
        keep: bool = False,
    ) -> None:
        """Delete a pod, and call `then` with whether it still existed. `Remove` also removes its
        finalizer. `keep`: only remove the finalizer.
        """
        attempt = command.replica, command.attempt
        if attempt in self._in_flight:
            return
        self._in_flight.add(attempt)
        path = pod_path(*self.key(*attempt))
        uid = pod["metadata"]["uid"] if pod is not None else ""
        grace = grace if self._may_run(pod) else 0.0

        def deleted(there: bool) -> list[events.Event]:
            self._in_flight.discard(attempt)
            return then(there)

        def failed(error: BackendError) -> list[events.Event]:
            self._in_flight.discard(attempt)
            return [events.CommandFailed(command, error.message)]

        def call() -> bool:
            if isinstance(command, Remove) and pod is not None and pod_status.has_finalizer(pod):
                pod_calls.unfinalize(self._cluster.api, pod)
            return keep or pod_calls.delete(self._cluster.api, path, uid, grace)

        self._cluster.worker_of(self.key(*attempt)[0]).do(call, deleted, failed)

    def _may_run(self, pod: Plain | None) -> bool:
        """Whether a pod may be running: it is deleted only with the confirmation of its kubelet. A
        pod that is not bound yet may be bound in the meantime.
        """
        if pod is None or not node_of(pod):
            return True
        return pod["status"].get("phase") == "Running" or self._cluster.is_up(node_of(pod))

    def found(self) -> list[events.ReplicaFound]:
        """Return the pods of an earlier leader: those of present attempts, and orphans that have
        not ended or still have their finalizer.
        """
        found = []
        for pod in self._cluster.pods.values():
            known = self.attempt_of(pod)
            if known is None:
                continue
            record, replica, attempt = known
            over, phase = self._is_over(pod), pod["status"].get("phase")
            if record.holds(replica, attempt) or not over or pod_status.has_finalizer(pod):
                exited = self._exited(replica, attempt, pod) if over else None
                share = self._share(replica, attempt)
                runs = phase == "Running"
                found.append(events.ReplicaFound(replica, attempt, runs, exited, *share))
        return found

    def running(self) -> list[tuple[JobStatus, ReplicaId, int, Plain]]:
        """Return the running pods of present attempts."""
        pods = ((self.attempt_of(p), p) for p in self._cluster.pods.values())
        known = [(*k, p) for k, p in pods if k is not None and k[0].holds(*k[1:])]
        return [each for each in known if each[-1]["status"].get("phase") == "Running"]

    def changed(self, known: Known, before: Plain | None, new: Plain | None) -> list[events.Event]:
        record, replica, attempt = known
        if new is None:
            return [self.ended(replica, attempt, before)]
        if before is None and attempt > record.state.attempt:
            self._writer.give_way()  # attempts are persisted first: it was not this process
            return []
        phase = new["status"].get("phase")
        if self._is_over(new):
            return [self._exited(replica, attempt, new)]
        current = record.holds(replica, attempt)
        if phase == "Running" or not current:
            self._waiting.pop((replica, attempt), None)
            leaving = new["metadata"].get("deletionTimestamp") and not current
            return [] if leaving else [events.ReplicaRunning(replica, attempt)]
        return [*self._waits(known, new), *self._prepared(known, new)]

    def _prepared(self, known: Known, pod: Plain) -> list[events.Event]:
        leaves = pod["metadata"].get("deletionTimestamp")
        prepared = self._is_prepared(known, pod) and not leaves
        return [events.ReplicaPrepared(*known[1:])] if prepared else []

    @staticmethod
    def _is_prepared(known: Known, pod: Plain) -> bool:
        """Whether a pod is ready for `Proceed`. A pod that reserves room must also have started its
        waiting container, because another pod is stopped for it. This is not possible with a volume
        that can be attached to one node at a time.
        """
        record, replica, attempt = known
        able = pod_status.waiter_runs(pod) or record.on_one_node
        return pod_status.is_prepared(pod) and (able or not record.reserves(replica, attempt))

    def _waits(self, known: Known, pod: Plain) -> list[events.Event]:
        """Report why a pod does not start, if the reason has changed."""
        record, replica, attempt = known
        message = pod_status.unschedulable(pod)
        reason, unschedulable = (UNSCHEDULABLE if message else ""), bool(message)
        if not message:
            reason, message = pod_status.stuck(pod)
        if self._waiting.get((replica, attempt), "") == reason:
            return []
        self._waiting[replica, attempt] = reason
        if reason:
            self._writer.stuck(record, replica, reason, message)
        return [events.ReplicaWaiting(replica, attempt, message, unschedulable)]

    def ended(self, replica: ReplicaId, attempt: int, last: Plain | None) -> events.Event:
        """Return how a pod has ended, or that it was deleted."""
        if last is not None and self._is_over(last):
            return self._exited(replica, attempt, last)
        self._forget(replica, attempt)
        why = pod_status.disrupted(last) if last is not None else ""
        reason = why or "its pod was deleted"
        return events.ReplicaExited(
            replica, attempt, code=KILLED, reason=reason, disrupted=bool(why)
        )

    def _exited(self, replica: ReplicaId, attempt: int, pod: Plain) -> events.ReplicaExited:
        self._forget(replica, attempt)
        if pod_status.succeeded(pod):
            return events.ReplicaExited(replica, attempt, code=0)
        code, disrupted = pod_status.exit_code(pod), pod_status.disrupted(pod)
        rejected = pod_status.rejected(pod)
        if rejected:
            rejected = f"node {node_of(pod)} rejected the pod: {rejected}"
        deleted = pod_status.interrupted(pod)
        if deleted and code in (0, STOPPED):
            code = STOPPED  # it was asked to stop
        record = self._records.get(replica.job)
        mode = record.core.checkpoint if record is not None else Mode.NONE
        failure = "its pod was deleted" if deleted else pod_status.failure(pod)
        return events.ReplicaExited(
            replica,
            attempt,
            code=code or KILLED,
            reason=rejected or disrupted or failure,
            permanent=code in NOT_STARTABLE,
            disrupted=bool(rejected or disrupted),
            checkpoint=self.checkpoint(mode, pod, attempt, code),
        )

    def _is_over(self, pod: Plain) -> bool:
        return pod_status.is_over(pod, self._cluster.is_up(node_of(pod)))

    def _forget(self, replica: ReplicaId, attempt: int) -> None:
        self._waiting.pop((replica, attempt), None)
