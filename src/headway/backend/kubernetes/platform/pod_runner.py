"""Replicas as pods: starts and deletes them, and reports what happens to them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from headway.backend.exit_reason import NOT_STARTABLE
from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.client.informer import Key
from headway.backend.kubernetes.placement import gang_binder
from headway.backend.kubernetes.placement.node_info import OVER, node_of
from headway.backend.kubernetes.platform import pod_status
from headway.backend.kubernetes.platform.job_status import JobStatus
from headway.backend.kubernetes.platform.status_writer import StatusWriter, outcome
from headway.controller.commands import Kill, Remove, Start, Stop
from headway.controller.events import (
    CommandFailed,
    Event,
    Removed,
    ReplicaExited,
    ReplicaFound,
    ReplicaRunning,
    ReplicaWaiting,
)
from headway.controller.job_state import JobState
from headway.core.model.job import Phase
from headway.core.model.units import JobId, ReplicaId, Seconds
from headway.errors import BackendError, Declined

DELETED = 137
"""Exit code of a pod that was deleted."""
KEPT = 2
"""Attempts of a job whose ended pods are kept for their logs."""
AFTER_SUCCESS: Seconds = 2.0
"""Grace period of the other replicas when the chief has exited with code 0."""
BAD_REQUEST = (400, 422)

Attempt = tuple[ReplicaId, int]


class PodRunner:
    def __init__(
        self, cluster: ClusterCache, records: Mapping[JobId, JobStatus], writer: StatusWriter
    ) -> None:
        self._cluster, self._records, self._writer = cluster, records, writer
        self._waiting: dict[Attempt, str] = {}
        """Reasons that were reported for attempts that do not run yet."""
        self._in_flight: set[Attempt] = set()
        """Attempts whose pod is being deleted: the controller repeats its commands."""

    # -- which attempt a pod is --------------------------------------------------------------------

    def attempt_of(self, pod: Plain) -> tuple[JobStatus, ReplicaId, int] | None:
        """None: it belongs to no job that is managed here. Ownership is by uid."""
        labels, about = pod["metadata"].get("labels") or {}, pod["metadata"]
        elsewhere = self._cluster.namespace not in ("", about["namespace"])
        if elsewhere or pod_status.REPLICA not in labels:
            return None
        job = labels.get(pod_status.JOB, "")
        name = JobId(job if self._cluster.namespace else f"{about['namespace']}/{job}")
        record = self._records.get(name)
        if record is None or not pod_status.is_owned_by(pod, record.uid):
            return None
        replica = ReplicaId.named(name, labels[pod_status.REPLICA])
        return record, replica, pod_status.attempt_of(pod)

    def is_replica(self, pod: Plain) -> bool:
        found = self.attempt_of(pod)
        return found is not None and found[0].holds(*found[1:])

    def _key(self, replica: ReplicaId, attempt: int) -> Key:
        namespace, _, job = replica.job.rpartition("/")
        name = pod_status.name_of(job, replica, attempt)
        return self._cluster.namespace or namespace, name

    # -- Start -------------------------------------------------------------------------------------

    def reserve(self, record: JobStatus, before: JobState) -> list[str]:
        """Count the pods of new attempts on their nodes from now on, and those of attempts that
        the job no longer has as foreign. Returns the nodes concerned.
        """
        old = {(r.replica, r.attempt): r.node for r in before.replicas}
        new = {(r.replica, r.attempt): r.node for r in record.state.replicas}
        for replica, attempt in old.keys() - new.keys():
            self._cluster.assume_not(self._key(replica, attempt))
        for (replica, attempt), node in new.items():
            if (replica, attempt) not in old:
                pod = record.pod(replica, attempt, record.state.gang)
                self._cluster.assume(pod, node)
        return [node for key, node in {**old, **new}.items() if (key in old) != (key in new)]

    def start(self, command: Start, record: JobStatus) -> Sequence[Event]:
        where = {a.replica.name: str(a.node) for a in command.replicas}
        down = next((n for n in where.values() if not self._cluster.is_up(n)), "")
        if down or record.gone:
            why = f"node {down} is not ready" if down else "the job was deleted"
            return [CommandFailed(command, why, disrupted=True)]
        pods = {}
        for a in command.replicas:
            key = self._key(a.replica, a.attempt)
            there = self._cluster.pods.get(key)
            if there is not None and not pod_status.is_owned_by(there, record.uid):
                why = f"pod {key[1]} of an earlier job of this name still exists"
                return [CommandFailed(command, why, disrupted=True)]
            pods[a.replica.name] = there or record.pod(a.replica, a.attempt, command.gang)
        for name, pod in pods.items():
            self._cluster.assume(pod, where[name])
        gang = gang_binder.Gang(record.job, pods, where, self._cluster.around)
        self._cluster.worker.do(
            partial(gang_binder.launch, self._cluster.api, gang),
            failed=partial(self._start_failed, command),
        )
        return ()

    def _start_failed(self, command: Start, error: BackendError) -> list[Event]:
        for a in command.replicas:
            self._cluster.assume_not(self._key(a.replica, a.attempt))
        why = "; ".join(filter(None, (error.message, error.hint)))
        invalid = isinstance(error, Declined) and error.status in BAD_REQUEST
        return [CommandFailed(command, why, permanent=invalid, disrupted=not invalid)]

    # -- Stop, Kill, Remove ------------------------------------------------------------------------

    def stop(self, command: Stop | Kill) -> Sequence[Event]:
        """A pod is not signalled but deleted; its kubelet does the rest."""
        replica, attempt = command.replica, command.attempt
        pod = self._cluster.pods.get(self._key(replica, attempt))
        if pod is not None and pod["status"].get("phase") in OVER:
            return [self._exited(replica, attempt, pod)]
        grace = max(1.0, command.grace) if isinstance(command, Stop) else 1.0
        record = self._records.get(replica.job)
        if record is not None and outcome(record.state) is Phase.SUCCEEDED:
            grace = min(grace, AFTER_SUCCESS)

        def deleted(there: bool) -> list[Event]:
            return [] if there else [self._vanished(replica, attempt, pod)]

        self._delete(replica, attempt, pod, grace, deleted, lambda why: CommandFailed(command, why))
        return ()

    def remove(self, command: Remove) -> Sequence[Event]:
        """Delete it unless it has ended lately, and delete pods of older attempts."""
        replica, attempt = command.replica, command.attempt
        if (replica, attempt) in self._in_flight:
            return ()
        record = self._records.get(replica.job)
        if record is not None:
            self._remove_old(record)
        pod = self._cluster.pods.get(self._key(replica, attempt))
        ended = pod is not None and pod["status"].get("phase") in OVER
        if ended or (pod is None and (record is None or record.gone)):
            return [Removed(replica, attempt)]

        def removed(there: bool) -> list[Event]:
            del there
            return [Removed(replica, attempt)]

        self._cluster.assume_not(self._key(replica, attempt))
        self._delete(replica, attempt, pod, 1.0, removed, lambda why: CommandFailed(command, why))
        return ()

    def _remove_old(self, record: JobStatus) -> None:
        for pod in self._cluster.of_job(record.job):
            old = pod_status.attempt_of(pod) <= record.state.attempt - KEPT
            if old and pod["status"].get("phase") in OVER:
                path, uid = gang_binder.pod_path(pod), pod["metadata"]["uid"]
                self._cluster.worker.do(partial(self._cluster.api.delete, path, grace=0, uid=uid))

    def _delete(
        self,
        replica: ReplicaId,
        attempt: int,
        pod: Plain | None,
        grace: Seconds,
        then: Callable[[bool], list[Event]],
        failed: Callable[[str], Event],
    ) -> None:
        """`then` learns whether the pod still existed."""
        if (replica, attempt) in self._in_flight:
            return
        self._in_flight.add((replica, attempt))
        namespace, name = self._key(replica, attempt)
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        uid = pod["metadata"]["uid"] if pod is not None else ""
        grace = grace if self._may_run(pod) else 0.0

        def done(there: bool) -> list[Event]:
            self._in_flight.discard((replica, attempt))
            return then(there)

        def declined(error: BackendError) -> list[Event]:
            self._in_flight.discard((replica, attempt))
            return [failed(error.message)]

        call = partial(self._cluster.api.delete, path, grace=grace, uid=uid)
        self._cluster.worker.do(call, done, declined)

    def _may_run(self, pod: Plain | None) -> bool:
        """Only a pod that cannot be running is deleted without its kubelet's confirmation. One
        that is not bound yet may be bound by a call that is under way.
        """
        if pod is None or not node_of(pod):
            return True
        return pod["status"].get("phase") == "Running" or self._cluster.is_up(node_of(pod))

    # -- what pods report --------------------------------------------------------------------------

    def found(self) -> list[ReplicaFound]:
        """Pods of an earlier leader: of present attempts, and orphans that have not ended."""
        found = []
        for pod in self._cluster.pods.values():
            known = self.attempt_of(pod)
            if known is None:
                continue
            record, replica, attempt = known
            over, phase = pod["status"].get("phase") in OVER, pod["status"].get("phase")
            if record.holds(replica, attempt) or not over:
                exited = self._exited(replica, attempt, pod) if over else None
                found.append(ReplicaFound(replica, attempt, phase == "Running", exited))
        return found

    def changed(
        self,
        record: JobStatus,
        replica: ReplicaId,
        attempt: int,
        before: Plain | None,
        new: Plain | None,
    ) -> list[Event]:
        if new is None:
            return [self._vanished(replica, attempt, before)]
        phase = new["status"].get("phase")
        if phase in OVER:
            return [self._exited(replica, attempt, new)]
        current = record.holds(replica, attempt)
        if phase == "Running" or not current:
            self._waiting.pop((replica, attempt), None)
            leaving = new["metadata"].get("deletionTimestamp") and not current
            return [] if leaving else [ReplicaRunning(replica, attempt)]
        return self._waits(record, replica, attempt, new)

    def _waits(
        self, record: JobStatus, replica: ReplicaId, attempt: int, pod: Plain
    ) -> list[Event]:
        reason, message = pod_status.stuck(pod)
        if self._waiting.get((replica, attempt), "") == reason:
            return []
        self._waiting[replica, attempt] = reason
        if reason:
            self._writer.stuck(record, replica, reason, message)
        return [ReplicaWaiting(replica, attempt, message)]

    def _vanished(self, replica: ReplicaId, attempt: int, last: Plain | None) -> ReplicaExited:
        if last is not None and last["status"].get("phase") in OVER:
            return self._exited(replica, attempt, last)
        self._forget(replica, attempt)
        why = pod_status.disrupted(last) if last is not None else ""
        return ReplicaExited(
            replica=replica,
            attempt=attempt,
            code=DELETED,
            reason=why or "its pod was deleted",
            disrupted=bool(why),
        )

    def _exited(self, replica: ReplicaId, attempt: int, pod: Plain) -> ReplicaExited:
        """The exit code of a pod that is being deleted says nothing about success."""
        self._forget(replica, attempt)
        deleted = bool(pod["metadata"].get("deletionTimestamp"))
        succeeded = pod["status"]["phase"] == "Succeeded"
        if succeeded and not deleted:
            return ReplicaExited(replica=replica, attempt=attempt, code=0)
        rejected, disrupted = pod_status.rejected(pod), pod_status.disrupted(pod)
        if rejected:
            rejected = f"node {node_of(pod)} rejected the pod: {rejected}"
        code = DELETED if succeeded else pod_status.exit_code(pod)
        failure = "its pod was deleted" if deleted else pod_status.failure(pod)
        return ReplicaExited(
            replica=replica,
            attempt=attempt,
            code=code,
            reason=rejected or disrupted or failure,
            permanent=code in NOT_STARTABLE,
            disrupted=bool(rejected or disrupted),
        )

    def _forget(self, replica: ReplicaId, attempt: int) -> None:
        self._waiting.pop((replica, attempt), None)
        self._cluster.assume_not(self._key(replica, attempt))
