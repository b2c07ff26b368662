"""Writes the status of TrainingJobs, their conditions, and Kubernetes events.

Conditions and events follow from the change of a job's state. A status that could not be written is
reported to the caller; nothing is repeated here.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from headway.backend.clock import Clock
from headway.backend.kubernetes.client.api import Api, Plain, suppressed
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.platform import pod_builder
from headway.backend.kubernetes.platform.job_status import (
    MESSAGE,
    NO_LEADER,
    JobStatus,
    Leader,
    leader_of,
    now,
)
from headway.backend.kubernetes.platform.share_group import PodOwner
from headway.backend.worker import Then
from headway.controller.events import Event
from headway.controller.job_state import JobState
from headway.core.model.job import Phase
from headway.core.model.units import ReplicaId
from headway.errors import BackendError, Declined

UID, VERSION = "/metadata/uid", "/metadata/resourceVersion"
EVENTS = 1000
"""Number of recent events of which repetitions are counted."""
WAITING, UNSCHEDULABLE = "WaitingForCapacity", "Unschedulable"
log = logging.getLogger("headway")

Failed = Callable[[BackendError], Iterable[Event]]
Notice = tuple[str, str, bool]
"""An event: reason, message, and whether it is a warning."""


class StatusWriter:
    def __init__(self, cluster: ClusterCache, clock: Clock) -> None:
        self._cluster, self._clock = cluster, clock
        self._logged = ""
        self._events: dict[str, int] = {}
        """Number of occurrences of recent events by name."""
        self._leader: Leader = NO_LEADER
        self._outdated = False

    def lead(self, jobs: Iterable[Plain]) -> None:
        """Become the leader, with a number above that of all leaders that wrote these jobs."""
        last = max((leader_of(job)[0] for job in jobs), default=0)
        self._leader = last + 1, uuid4().hex[:8]

    def check_leader(self, job: Plain) -> None:
        """Stop writing if a later leader has written a job: this process was paused."""
        by = leader_of(job)
        if by != self._leader and by[0] >= self._leader[0]:
            self.give_way()

    def give_way(self) -> None:
        """Stop writing, because another process leads."""
        if not self._outdated:
            self._outdated = True
            self._cluster.api.may_write = lambda: False
            log.error("another process leads: no further writes")

    def write(
        self, record: JobStatus, then: Then = lambda: (), failed: Failed = lambda error: ()
    ) -> None:
        """Write the status of a job. `then` is called when the API server has confirmed it, or the
        job no longer exists. The write fails if the object has changed since it was last seen.
        """
        status = record.to_plain(self._clock.began, self._leader)

        def call() -> None:
            body: list[dict[str, Any]] = [
                {"op": "test", "path": UID, "value": record.uid},
                {"op": "test", "path": VERSION, "value": record.version},
                {"op": "add", "path": "/status", "value": status},
            ]
            path = f"{record.path}/status"
            record.note_version(self._cluster.api.patch(path, body, kind="json"))

        def not_written(error: BackendError) -> Iterable[Event]:
            if is_gone(error):
                return then()
            record.unwritten = True
            if not is_newer(error):
                self.log_once(error)
            return failed(error)

        self._cluster.worker_of(record.namespace).do(call, lambda _: then(), not_written)

    def write_again(self, record: JobStatus) -> None:
        """Repeat a write that failed because the object had changed."""
        if record.unwritten:
            record.unwritten = False
            self.write(record)

    def log_once(self, error: BackendError) -> None:
        """Log each distinct error once."""
        if error.message != self._logged:
            self._logged = error.message
            log.warning("%s", "; ".join(filter(None, (error.message, error.where, error.hint))))

    def persist(self, record: JobStatus, before: JobState, then: Then, failed: Failed) -> None:
        """Write a changed state; its events follow the status."""
        notices = describe(record, before)
        self.write(record, then, failed)
        for reason, message, warning in notices:
            self.event(record, reason, message, warning=warning)

    def unschedulable(self, record: JobStatus, why: str) -> None:
        """Report why a job is pending: no node fits it at all, or ("") capacity is in use."""
        before = record.conditions.get("Placed") or {}
        reason = UNSCHEDULABLE if why else WAITING
        if not why and before.get("status") == "False" and before["reason"] != UNSCHEDULABLE:
            return  # a more precise reason is there
        message = why or record.state.reason or "waiting for capacity"
        if record.set_condition("Placed", False, reason, message):
            self.write(record)
            if why:
                self.event(record, reason, message, warning=True)

    def stuck(self, record: JobStatus, replica: ReplicaId, reason: str, message: str) -> None:
        """Report that a container does not start."""
        message = f"{replica.name}: {message}"
        if record.set_condition("Running", False, reason, message):
            self.write(record)
            self.event(record, reason, message, warning=True)

    def resizable(self, record: PodOwner, reason: str, message: str, *, holds: bool) -> None:
        """Report whether the shares of the pods can be changed."""
        if not isinstance(record, JobStatus):  # the status of an adopted pod is not Headway's
            self.event(record, f"NotResizable{reason}", message, warning=True)
        elif record.set_condition("Resizable", holds, reason, message):
            self.write(record)

    def node_changed(self, record: JobStatus, node: str, *, up: bool) -> None:
        """Report that it is unknown, or known again, whether the replicas on a node run."""
        before = record.conditions.get("Running") or {}
        if before.get("status") != ("Unknown" if up else "True"):
            return
        if up:
            changed = record.set_condition("Running", True, "Started", "all replicas run")
        else:
            why = f"node {node} is not ready: its replicas may have stopped"
            changed = record.set_condition("Running", None, "NodeNotReady", why)
        if changed:
            self.write(record)

    def event(self, record: PodOwner, reason: str, message: str, *, warning: bool) -> None:
        """Record an event. A repetition of an event of a job increases its count."""
        at, message, about = now(), message[:MESSAGE], record.reference
        digest = sha256(f"{record.uid} {reason} {message}".encode()).hexdigest()[:16]
        name, namespace = f"{about['name']}.{digest}", about["namespace"]
        count = self._events.pop(name, 0) + 1
        self._events[name] = count  # the newest last
        if len(self._events) > EVENTS:
            del self._events[next(iter(self._events))]
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": "Warning" if warning else "Normal",
            "source": {"component": "headway"},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        path = f"/api/v1/namespaces/{namespace}/events"
        call = partial(_record, self._cluster.api, path, body, count)
        self._cluster.worker_of(namespace).do(call)


def _record(api: Api, path: str, body: Plain, count: int) -> None:
    """Create an event, or count it once more. The API server forgets events after an hour."""
    again = {"lastTimestamp": body["lastTimestamp"], "count": count}
    there = f"{path}/{body['metadata']['name']}"
    if count > 1:
        with suppressed(HTTPStatus.NOT_FOUND):
            api.patch(there, again)
            return
    try:
        api.create(path, body)
    except Declined as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        api.patch(there, again)  # an earlier leader has created it


def is_gone(error: BackendError) -> bool:
    """Whether the object was deleted, or replaced by another one of the same name."""
    if not isinstance(error, Declined):
        return False
    return error.status == HTTPStatus.NOT_FOUND or (
        error.status == HTTPStatus.UNPROCESSABLE_ENTITY and UID in error.message
    )


def is_newer(error: BackendError) -> bool:
    """Whether the object has changed since it was last seen."""
    return isinstance(error, Declined) and VERSION in error.message


def outcome(state: JobState) -> Phase:
    """Return the phase of a job, or its phase after its replicas have stopped."""
    return state.target or state.phase


def describe(record: JobStatus, before: JobState) -> list[Notice]:
    """Set conditions for a change of state, and return the events."""
    if record.rejected[0]:
        record.set_condition("Accepted", False, *record.rejected)
    if record.state.paused or "Suspended" in record.conditions:
        word = "Suspended" if record.state.paused else "Resumed"
        record.set_condition("Suspended", record.state.paused, word, "by spec.suspend")
    if record.state.phase.ended:
        return _ended(record, before)
    if record.state.phase is Phase.RUNNING:
        return _running(record, before)
    if record.state.phase is Phase.MIGRATING:
        return _migrating(record, before)
    if record.state.phase is Phase.STARTING:
        return _starting(record, before)
    if outcome(record.state) in (Phase.BACKOFF, Phase.PENDING, Phase.PAUSED):
        return _released(record, before)
    return []


def _starting(record: JobStatus, before: JobState) -> list[Notice]:
    where = ", ".join(f"{r.replica.name} on {r.node}" for r in record.state.replicas)
    record.set_condition("Placed", True, "Placed", where)
    pods = f"kubectl describe pods -n {record.namespace} -l {pod_builder.JOB}={record.name}"
    record.set_condition("Running", False, "Starting", f"not all replicas run yet: {pods}")
    return [("Placed", where, False)] if record.state.attempt != before.attempt else []


def _running(record: JobStatus, before: JobState) -> list[Notice]:
    record.set_condition("Running", True, "Started", "all replicas run")
    if record.state.not_moved and record.state.not_moved != before.not_moved:
        return [("NotMoved", record.state.not_moved, True)]
    started = before.phase is not Phase.RUNNING
    return [("Started", "all replicas run", False)] if started else []


def _migrating(record: JobStatus, before: JobState) -> list[Notice]:
    """Report where replicas continue. A restart in another size is no move."""
    moving = [r for r in record.state.replicas if r.came_from and r.starting]
    old = {(r.replica, r.attempt) for r in before.replicas}
    return [
        ("Moving", f"{r.replica.name} continues on {r.node}, it was on {r.came_from}", False)
        for r in moving
        if (r.replica, r.attempt) not in old
    ]


def _released(record: JobStatus, before: JobState) -> list[Notice]:
    """Report that a job holds no nodes, or is about to release them."""
    state, phase = record.state, outcome(record.state)
    if outcome(before) is phase:
        return []
    word = "Retrying" if state.failures > before.failures else "Released"
    if phase is not Phase.BACKOFF:
        word = "Paused" if phase is Phase.PAUSED else WAITING
    record.set_condition("Placed", False, word, state.reason or "waiting for capacity")
    record.set_condition("Running", False, word, state.reason or "not started")
    return [(word, state.reason, True)] if phase is Phase.BACKOFF else []


def _ended(record: JobStatus, before: JobState) -> list[Notice]:
    if before.phase.ended:
        return []
    success, word = record.state.phase is Phase.SUCCEEDED, record.state.phase.value.capitalize()
    message = record.state.reason or ("chief exited with code 0" if success else word)
    record.set_condition("Running", False, word, message)
    record.set_condition("Complete" if success else "Failed", True, word, message)
    return [(word, message, not success)]
