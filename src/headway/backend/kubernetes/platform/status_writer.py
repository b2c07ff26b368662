"""Tells people: the status of each `TrainingJob`, its conditions, and events."""

import logging
from collections.abc import Mapping
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.placement import filters, gang_binder
from headway.backend.kubernetes.placement.quantities import allocatable, asked
from headway.backend.kubernetes.platform import job_status, pod_status
from headway.backend.kubernetes.platform.job_status import JobStatus
from headway.backend.state import Work
from headway.core.model.job import Phase
from headway.errors import BackendError, Declined
from headway.spec.manifest import TrainingJobSpec

if TYPE_CHECKING:
    from headway.core.model.units import JobId

SHOWN = 3
"""Reasons that one message names."""
WAITS = "Waiting"
log = logging.getLogger("headway")


class StatusWriter:
    def __init__(self, cluster: ClusterCache) -> None:
        self.cluster = cluster
        self.untold: dict[JobId, Work] = {}
        """Whose status could not be written."""
        self._logged = ""

    @staticmethod
    def now() -> str:
        return job_status.now()

    def phase(self, work: Work, record: JobStatus, phase: Phase) -> None:
        """It has come to this: conditions, times, an event, and the status that has them all."""
        reason = work.reason
        if phase is Phase.PENDING:
            record.placement = {}
            if reason:
                record.say("Placed", False, WAITS, reason)
            record.say("Running", False, WAITS, reason or "it has not started yet")
        elif phase is Phase.RUNNING:
            record.started = record.started or self.now()
            record.say("Running", True, "Started", "each replica runs")
            self.event(record, "Started", "each replica runs")
        elif phase.ended:
            record.finished = self.now()
            good = phase is Phase.SUCCEEDED
            if good:  # perhaps so soon that nobody saw it run
                record.started = record.started or record.finished
            word = phase.value.capitalize()
            text = reason or "its chief has ended well"
            record.say("Running", False, word, text)
            record.say("Succeeded", good, word, text)
            self.event(record, word, text, warning=not good)
        self.status(work, record, phase)

    def waiting(self, work: Work, record: JobStatus, made: Mapping[str, Plain]) -> None:
        """Why it waits, where that is more than a want of room."""
        before = record.conditions.get("Placed")
        why = next((w for pod in made.values() if (w := self.hindrance(pod))), "")
        reason = "NoNodeFits" if why else WAITS
        text = why or work.reason or "it waits for room"
        if before is not None and before["status"] == "False":
            told = (before["reason"], before["message"]) == (reason, text)
            if told or (not why and before["reason"] == WAITS):
                return
        record.say("Placed", False, reason, text)
        if why:
            self.event(record, reason, text, warning=True)
        self.status(work, record)

    def hindrance(self, pod: Plain) -> str:
        """Why it could go nowhere even if nobody else were there; "": it could."""
        around = self.cluster.around
        lacking = filters.lacking(pod, around)
        if lacking:
            return lacking
        whys: dict[str, int] = {}
        for (_, name), node in self.cluster.nodes.items():
            others = self.cluster.others(name)
            why = filters.unfit(pod, node, others, around) or _too_small(pod, node)
            if not why:
                return ""
            whys[why] = whys.get(why, 0) + 1
        if not whys:
            return "the cluster has no nodes"
        most = sorted(whys.items(), key=lambda item: -item[1])[:SHOWN]
        listed = "; ".join(
            f"{count} of {len(self.cluster.nodes)} nodes: {why}" for why, count in most
        )
        about = pod["metadata"]
        who = (about.get("labels") or {}).get(f"{pod_status.LABEL}/task") or about["name"]
        return f"no node will do for {who}: {listed}"

    def status(self, work: Work, record: JobStatus, phase: Phase | None = None) -> None:
        """If the server does not answer, it is said again when it does."""
        self.untold.pop(work.id, None)
        said = record.status(phase or work.phase, work.reason, work.tries)
        scaled = [t.name for t in record.spec.tasks if t.scalable]
        count = sum(m.task in scaled or not scaled for m in work.members.values())
        said |= {"replicas": count, "selector": f"{pod_status.JOB}={record.name}"}
        call = partial(
            self.cluster.api.patch, gang_binder.status_path(record.job), {"status": said}
        )
        self.cluster.lane.do(call, failed=partial(self._not_told, work))

    def _not_told(self, work: Work, error: BackendError) -> None:
        """Who was deleted meanwhile wants to hear no more; whatever else it is may pass."""
        if not isinstance(error, Declined):
            self.untold[work.id] = work
            self.log_once(error)

    def log_once(self, error: BackendError) -> None:
        """For who reads our log: once, until it is something else."""
        if error.message != self._logged:
            self._logged = error.message
            log.warning("%s", "; ".join(filter(None, (error.message, error.where, error.hint))))

    def refuse(self, job: Plain, reason: str, text: str) -> None:
        """A job that cannot be understood: the API server knows the schema, so this is rare."""
        record = JobStatus.of(job, _NO_SPEC)
        before = record.conditions.get("Accepted")
        if before and (before["reason"], before["message"]) == (reason, text):
            return
        record.say("Accepted", False, reason, text)
        said = record.status(Phase.FAILED, text, 0)
        call = partial(self.cluster.api.patch, gang_binder.status_path(job), {"status": said})
        self.cluster.lane.do(call)
        self.event(record, reason, text, warning=True)

    def unschedulable(self, pod: Plain, why: str) -> None:
        """As kube-scheduler says it, where people and autoscalers look."""
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        said |= {"message": why[:1024], "lastTransitionTime": self.now()}
        path, body = f"{gang_binder.pod_path(pod)}/status", {"status": {"conditions": [said]}}
        self.cluster.lane.do(partial(self.cluster.api.patch, path, body, how="strategic"))

    def event(self, record: JobStatus, reason: str, text: str, *, warning: bool = False) -> None:
        about = record.job["metadata"]
        at = self.now()
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{about['name']}-", "namespace": about["namespace"]},
            "involvedObject": {
                "apiVersion": pod_status.VERSION,
                "kind": pod_status.KIND,
                "name": about["name"],
                "namespace": about["namespace"],
                "uid": about["uid"],
            },
            "reason": reason,
            "message": text[:1024],
            "type": "Warning" if warning else "Normal",
            "source": {"component": "headway"},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        path = f"/api/v1/namespaces/{about['namespace']}/events"
        self.cluster.lane.do(partial(self.cluster.api.create, path, body))


_NO_SPEC = TrainingJobSpec()


def _too_small(pod: Plain, node: Plain) -> str:
    there = allocatable(node)
    for name, amount in asked(pod).items():
        if amount > there.get(name, inf if name == "ephemeral-storage" else 0.0):
            return f"it asks for more {name} than the node has"
    return ""
