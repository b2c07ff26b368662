"""Replicas as pods: starts and deletes them, and reports what happens to them."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus

from headway.backend.exit_reason import KILLED, NOT_STARTABLE
from headway.backend.kubernetes.client.api import Api, Plain, pod_path
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.client.informer import Key, key_of
from headway.backend.kubernetes.placement.filters import Around, claims_of, late
from headway.backend.kubernetes.placement.node_info import OVER, node_of
from headway.backend.kubernetes.platform import pod_builder, pod_status
from headway.backend.kubernetes.platform.job_status import JobStatus
from headway.backend.kubernetes.platform.status_writer import StatusWriter, outcome
from headway.controller import events
from headway.controller.commands import Kill, Remove, Start, Stop
from headway.controller.job_state import JobState
from headway.core.model.job import Phase
from headway.core.model.units import JobId, ReplicaId, Seconds
from headway.errors import BackendError, Declined

KEPT = 2
"""Attempts of a job whose ended pods are kept for their logs."""
AFTER_SUCCESS: Seconds = 2.0
"""Grace period of the other replicas when the chief has exited with code 0."""
INVALID = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
AT_ONCE = 8
"""Calls under way at the same time for one gang."""
SELECTED = "volume.kubernetes.io/selected-node"

Attempt = tuple[ReplicaId, int]
Known = tuple[JobStatus, ReplicaId, int]
"""The attempt that a pod is, with the record of its job."""


class PodRunner:
    def __init__(
        self, cluster: ClusterCache, records: Mapping[JobId, JobStatus], writer: StatusWriter
    ) -> None:
        self._cluster, self._records, self._writer = cluster, records, writer
        self._waiting: dict[Attempt, str] = {}
        """Reasons that were reported for attempts that do not run yet."""
        self._in_flight: set[Attempt] = set()
        """Attempts whose pod is being deleted: the controller repeats its commands."""

    def attempt_of(self, pod: Plain) -> Known | None:
        """None: it belongs to no job that is managed here. Ownership is by uid."""
        labels, about = pod["metadata"].get("labels") or {}, pod["metadata"]
        elsewhere = self._cluster.namespace not in ("", about["namespace"])
        if elsewhere or pod_builder.REPLICA not in labels:
            return None
        name = self._cluster.job_id(about["namespace"], labels.get(pod_builder.JOB, ""))
        record = self._records.get(name)
        if record is None or not pod_status.is_owned_by(pod, record.uid):
            return None
        replica, attempt = (
            ReplicaId.named(name, labels[pod_builder.REPLICA]),
            labels.get(pod_builder.ATTEMPT, "0"),
        )
        return record, replica, int(attempt) if attempt.isdigit() else 0

    def is_replica(self, pod: Plain) -> bool:
        found = self.attempt_of(pod)
        return found is not None and found[0].holds(*found[1:])

    def _key(self, replica: ReplicaId, attempt: int) -> Key:
        namespace, _, job = replica.job.rpartition("/")
        return self._cluster.namespace or namespace, pod_builder.pod_name(job, replica, attempt)

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

    def start(self, command: Start, record: JobStatus) -> Sequence[events.Event]:
        where = {a.replica.name: str(a.node) for a in command.replicas}
        down = next((n for n in where.values() if not self._cluster.is_up(n)), "")
        if down or record.gone:
            why = f"node {down} is not ready" if down else "the job was deleted"
            return [events.CommandFailed(command, why, disrupted=True)]
        pods = {}
        for a in command.replicas:
            key = self._key(a.replica, a.attempt)
            there = self._cluster.pods.get(key)
            if there is not None and not pod_status.is_owned_by(there, record.uid):
                why = f"pod {key[1]} of an earlier job of this name still exists"
                return [events.CommandFailed(command, why, disrupted=True)]
            pods[a.replica.name] = there or record.pod(a.replica, a.attempt, command.gang)
        for name, pod in pods.items():
            self._cluster.assume(pod, where[name])
        self._cluster.worker.do(
            partial(_launch, self._cluster.api, record.job, pods, where, self._cluster.around),
            failed=partial(self._start_failed, command),
        )
        return ()

    def _start_failed(self, command: Start, error: BackendError) -> list[events.Event]:
        for a in command.replicas:
            self._cluster.assume_not(self._key(a.replica, a.attempt))
        why = "; ".join(filter(None, (error.message, error.hint)))
        invalid = isinstance(error, Declined) and error.status in INVALID
        return [events.CommandFailed(command, why, permanent=invalid, disrupted=not invalid)]

    def stop(self, command: Stop | Kill) -> Sequence[events.Event]:
        """A pod is not signalled but deleted; its kubelet does the rest."""
        replica, attempt = command.replica, command.attempt
        pod = self._cluster.pods.get(self._key(replica, attempt))
        if pod is not None and pod["status"].get("phase") in OVER:
            return [self._exited(replica, attempt, pod)]
        grace = max(1.0, command.grace) if isinstance(command, Stop) else 1.0
        record = self._records.get(replica.job)
        if record is not None and outcome(record.state) is Phase.SUCCEEDED:
            grace = min(grace, AFTER_SUCCESS)

        def deleted(there: bool) -> list[events.Event]:
            return [] if there else [self._vanished(replica, attempt, pod)]

        self._delete(command, pod, grace, deleted)
        return ()

    def remove(self, command: Remove) -> Sequence[events.Event]:
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
            return [events.Removed(replica, attempt)]
        self._cluster.assume_not(self._key(replica, attempt))
        self._delete(command, pod, 1.0, lambda there: [events.Removed(replica, attempt)])
        return ()

    def _remove_old(self, record: JobStatus) -> None:
        for pod in self._cluster.pods.values():
            known, oldest = self.attempt_of(pod), record.state.attempt - KEPT
            old = known is not None and known[0] is record and known[2] <= oldest
            if old and pod["status"].get("phase") in OVER:
                path, uid = pod_path(*key_of(pod)), pod["metadata"]["uid"]
                self._cluster.worker.do(partial(self._cluster.api.delete, path, grace=0, uid=uid))

    def _delete(
        self,
        command: Stop | Kill | Remove,
        pod: Plain | None,
        grace: Seconds,
        then: Callable[[bool], list[events.Event]],
    ) -> None:
        """`then` learns whether the pod still existed."""
        attempt = command.replica, command.attempt
        if attempt in self._in_flight:
            return
        self._in_flight.add(attempt)
        path = pod_path(*self._key(*attempt))
        uid = pod["metadata"]["uid"] if pod is not None else ""
        grace = grace if self._may_run(pod) else 0.0

        def deleted(there: bool) -> list[events.Event]:
            self._in_flight.discard(attempt)
            return then(there)

        def failed(error: BackendError) -> list[events.Event]:
            self._in_flight.discard(attempt)
            return [events.CommandFailed(command, error.message)]

        call = partial(self._cluster.api.delete, path, grace=grace, uid=uid)
        self._cluster.worker.do(call, deleted, failed)

    def _may_run(self, pod: Plain | None) -> bool:
        """Only a pod that cannot be running is deleted without its kubelet's confirmation. One
        that is not bound yet may be bound by a call that is under way.
        """
        if pod is None or not node_of(pod):
            return True
        return pod["status"].get("phase") == "Running" or self._cluster.is_up(node_of(pod))

    def found(self) -> list[events.ReplicaFound]:
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
                found.append(events.ReplicaFound(replica, attempt, phase == "Running", exited))
        return found

    def changed(self, known: Known, before: Plain | None, new: Plain | None) -> list[events.Event]:
        record, replica, attempt = known
        if new is None:
            return [self._vanished(replica, attempt, before)]
        phase = new["status"].get("phase")
        if phase in OVER:
            return [self._exited(replica, attempt, new)]
        current = record.holds(replica, attempt)
        if phase == "Running" or not current:
            self._waiting.pop((replica, attempt), None)
            leaving = new["metadata"].get("deletionTimestamp") and not current
            return [] if leaving else [events.ReplicaRunning(replica, attempt)]
        reason, message = pod_status.stuck(new)
        if self._waiting.get((replica, attempt), "") == reason:
            return []
        self._waiting[replica, attempt] = reason
        if reason:
            self._writer.stuck(record, replica, reason, message)
        return [events.ReplicaWaiting(replica, attempt, message)]

    def _vanished(self, replica: ReplicaId, attempt: int, last: Plain | None) -> events.Event:
        if last is not None and last["status"].get("phase") in OVER:
            return self._exited(replica, attempt, last)
        self._forget(replica, attempt)
        why = pod_status.disrupted(last) if last is not None else ""
        reason = why or "its pod was deleted"
        return events.ReplicaExited(
            replica, attempt, code=KILLED, reason=reason, disrupted=bool(why)
        )

    def _exited(self, replica: ReplicaId, attempt: int, pod: Plain) -> events.ReplicaExited:
        """The exit code of a pod that is being deleted says nothing about success."""
        self._forget(replica, attempt)
        deleted = bool(pod["metadata"].get("deletionTimestamp"))
        succeeded = pod["status"]["phase"] == "Succeeded"
        if succeeded and not deleted:
            return events.ReplicaExited(replica, attempt, code=0)
        rejected, disrupted = pod_status.rejected(pod), pod_status.disrupted(pod)
        if rejected:
            rejected = f"node {node_of(pod)} rejected the pod: {rejected}"
        code = KILLED if succeeded else pod_status.exit_code(pod)
        failure = "its pod was deleted" if deleted else pod_status.failure(pod)
        return events.ReplicaExited(
            replica,
            attempt,
            code=code,
            reason=rejected or disrupted or failure,
            permanent=code in NOT_STARTABLE,
            disrupted=bool(rejected or disrupted),
        )

    def _forget(self, replica: ReplicaId, attempt: int) -> None:
        self._waiting.pop((replica, attempt), None)
        self._cluster.assume_not(self._key(replica, attempt))


# -- calls of the worker ---------------------------------------------------------------------------


def _launch(
    api: Api, job: Plain, pods: Mapping[str, Plain], where: Mapping[str, str], around: Around
) -> None:
    """Create a gang, whose placement is persisted, and bind it. Pods that exist are kept: an
    earlier leader may have created them. If a call fails, the controller removes all of them.
    """
    path = f"/api/v1/namespaces/{job['metadata']['namespace']}"
    if len(pods) > 1:
        _create(api, f"{path}/services", pod_builder.to_service(job))
    new = [pod for pod in pods.values() if "uid" not in pod["metadata"]]
    _in_parallel([partial(_create, api, f"{path}/pods", pod) for pod in new])
    bind(api, pods, where, around)


def bind(api: Api, pods: Mapping[str, Plain], where: Mapping[str, str], around: Around) -> None:
    """Bind pods that are not bound yet, after the node is selected for claims that wait for it."""
    for name, pod in pods.items():
        namespace = pod["metadata"]["namespace"]
        for each in claims_of(pod):
            claim = around.claims.get((namespace, each))
            if claim is not None and not claim["spec"].get("volumeName") and late(claim, around):
                path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{each}"
                api.patch(path, {"metadata": {"annotations": {SELECTED: where[name]}}})
    unbound = [name for name, pod in pods.items() if node_of(pod) != where[name]]
    _in_parallel([partial(_bind, api, key_of(pods[name]), where[name]) for name in unbound])


def _bind(api: Api, key: Key, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": key[0], "name": key[1]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    api.create(f"{pod_path(*key)}/binding", body)


def _create(api: Api, path: str, body: Plain) -> None:
    try:
        api.create(path, body)
    except Declined as error:
        if error.status != HTTPStatus.CONFLICT:
            raise


def _in_parallel(calls: Sequence[Callable[[], None]]) -> None:
    """All are tried; the first error, if there was one, is raised when all are done."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        submitted = [pool.submit(call) for call in calls]
    for each in submitted:
        each.result()
